"""Names and order of arguments against the installed ExecuTorch: who knows it changes the import, and is at home."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rules_executorch import lowering

pytest.importorskip("executorch.exir")
pytest.importorskip("executorch.export")

# Where ExecuTorch has what is in `rules_executorch.lowering` under the same name.
THEIR_HOMES = {
    "executorch.exir": (
        "EdgeCompileConfig", "EdgeProgramManager", "ExecutorchBackendConfig", "ExecutorchProgramManager", "to_edge",
        "to_edge_transform_and_lower",
    ),
    "executorch.exir.backend.backend_api": ("MethodProgramsPartitionerSpec", "to_backend"),
    "executorch.exir.backend.backend_details": ("BackendDetails", "PreprocessResult"),
    "executorch.exir.backend.compile_spec_schema": ("CompileSpec",),
    "executorch.exir.backend.partitioner": ("DelegationSpec", "PartitionResult", "Partitioner"),
    "executorch.exir.backend.utils": ("tag_constant_data", "tag_mutated_buffer"),
    "executorch.exir.lowered_backend_module": ("LoweredBackendModule",),
    "executorch.exir._serialize._named_data_store": ("NamedDataStore", "NamedDataStoreOutput"),
    "executorch.exir.passes": ("MemoryPlanningPass",),
    "executorch.export": (
        "AOQuantizationConfig", "BackendRecipeProvider", "ExportRecipe", "ExportSession", "LoweringRecipe",
        "QuantizationRecipe", "RecipeType", "StageType", "export", "recipe_registry",
    ),
}  # fmt: skip

ETRECORD = "debug handles, delegate maps and delegation info are had from the managers; there is no file for devtools"
PLANNED = "memory is planned by one planner, which is at least as tight"
MANAGED = "made by to_executorch, not by users"
PASSES = "a pass of ExecuTorch's own pipeline, which is not run here"
DEVICES = "tensors are in the host's memory: a backend copies to its device itself"
LAYOUT = "the layouts of tensors are the emitter's; edge programs have ATen operators only"

# Deliberate differences: what ExecuTorch has and is not here, as name, name.method, name(argument) or
# name.method(argument), and why.
ABSENT = {
    "to_edge(generate_etrecord)": ETRECORD,
    "to_edge_transform_and_lower(generate_etrecord)": ETRECORD,
    "export(generate_etrecord)": ETRECORD,
    "ExportSession(generate_etrecord)": ETRECORD,
    "ExportSession.get_etrecord": ETRECORD,
    "ExecutorchProgramManager.get_etrecord": ETRECORD,
    "EdgeProgramManager(core_aten_ops_exception_list)": "it is in the compile config, and only there",
    "EdgeProgramManager(preserve_ops)": "it is in the compile config, and only there",
    "ExecutorchProgramManager(execution_programs)": MANAGED,
    "ExecutorchProgramManager(config_methods)": MANAGED,
    "ExecutorchProgramManager(backend_config)": MANAGED,
    "ExecutorchProgramManager(named_data)": MANAGED,
    "EdgeCompileConfig(_skip_dim_order)": LAYOUT,
    "ExecutorchBackendConfig(propagate_device_config)": DEVICES,
    "ExecutorchBackendConfig(enable_non_cpu_memory_planning)": DEVICES,
    "ExecutorchBackendConfig(to_out_var_pass)": PASSES,
    "ExecutorchBackendConfig(sym_shape_eval_pass)": PASSES,
    "ExecutorchBackendConfig(dynamic_memory_planning_mode)": "the runtime loads upper bounds only",
    "ExecutorchBackendConfig(remove_view_copy)": "views are always free where that is possible",
    "ExecutorchBackendConfig(external_mutable_weights)": "for training, which is not offered",
    "ExecutorchBackendConfig(do_quant_fusion_and_const_prop)": "constants are always folded",
    "ExecutorchBackendConfig(run_reinplace_pass)": "what can be written in place always is",
    "ExecutorchBackendConfig(reinplace_extra_ops)": "what can be written in place always is",
    "MemoryPlanningPass(memory_planning_algo)": PLANNED,
    "MemoryPlanningPass(allow_lifetime_and_storage_overlap)": PLANNED,
    "MemoryPlanningPass(alloc_mutable_buffers)": "without memory of its own, state crashes the stock runtime",
    "MemoryPlanningPass.run": PLANNED,
    "MemoryPlanningPass.run_multimethod": PLANNED,
    "MemoryPlanningPass.call": PLANNED,
    "MemoryPlanningPass.requires": PLANNED,
    "MemoryPlanningPass.ensures": PLANNED,
    "LoweredBackendModule(edge_program)": "made by to_backend, not by users",
    "LoweredBackendModule(processed_bytes)": "made by to_backend, not by users",
    "LoweredBackendModule(named_data_store_output)": "made by to_backend, not by users",
    "LoweredBackendModule.buffer": "to_edge(…).to_backend(DelegationSpec(…)).to_executorch().buffer is the same",
    "LoweredBackendModule.program": "to_edge(…).to_backend(DelegationSpec(…)).to_executorch() is the same",
    "Partitioner(spec)": "nothing reads it: a partitioner has a constructor of its own",
    "Partitioner.spec": "nothing reads it: a partitioner has a constructor of its own",
    "DelegationSpec.count": "it is no tuple",
    "DelegationSpec.index": "it is no tuple",
    "recipe_registry.create_recipe(backend)": "a type of recipes names its backend",
    "NamedDataStore.add_named_data(tensor_layout)": "named data are bytes that a delegate understands",
}  # fmt: skip

NAMES = [name for names in THEIR_HOMES.values() for name in names]


def theirs(name: str) -> Any:
    home = next(home for home, names in THEIR_HOMES.items() if name in names)
    return getattr(importlib.import_module(home), name)


def original(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a decorator that keeps no signature has wrapped."""
    for cell in getattr(function, "__closure__", None) or ():
        if inspect.isfunction(cell.cell_contents) and list(inspect.signature(function).parameters)[:1] == ["args"]:
            return original(cell.cell_contents)
    return function


def arguments(function: Any) -> list[str]:
    """The names of a function's or constructor's arguments in order, without self and those of any name."""
    function = function.__init__ if inspect.isclass(function) and not hasattr(function, "_fields") else function
    function = function.__new__ if inspect.isclass(function) else function
    parameters = inspect.signature(original(function)).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in parameters if p.kind in kinds and p.name not in ("self", "cls", "_cls")]


def members(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        if base.__module__.startswith(("executorch", "rules_executorch", "torch.nn.modules.module")) or base is cls:
            if not base.__module__.startswith("torch"):
                yield from (name for name in vars(base) if not name.startswith("_"))


def has(ours: Any, member: str) -> bool:
    """Whether instances have it: a method, property or field."""
    fields = {field.name for field in dataclasses.fields(ours)} if dataclasses.is_dataclass(ours) else set()
    assigned = ours.__init__.__code__.co_names if hasattr(ours.__init__, "__code__") else ()
    return hasattr(ours, member) or member in fields or member in assigned


def assert_same_order(name: str, ours: Any, them: Any) -> None:
    wanted = [argument for argument in arguments(them) if f"{name}({argument})" not in ABSENT]
    given = arguments(ours)
    assert [argument for argument in given if argument in wanted] == wanted, f"{name}: {given}, there: {wanted}"


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_here(name: str) -> None:
    assert hasattr(lowering, name) and name in lowering.__all__


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("to_backend", "recipe_registry")])
def test_arguments_have_the_same_names_and_order(name: str) -> None:
    them, ours = theirs(name), getattr(lowering, name)
    if not (inspect.isclass(them) and hasattr(them, "__members__")):
        assert_same_order(name, ours, them)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("to_backend",)])
def test_methods_and_fields_have_the_same_names_and_arguments(name: str) -> None:
    them, ours = theirs(name), getattr(lowering, name)
    if not inspect.isclass(them):
        them, ours = type(them), type(ours)
    for member in dict.fromkeys(members(them)):
        if f"{name}.{member}" in ABSENT or f"{name}({member})" in ABSENT:
            continue
        assert has(ours, member), f"{name}.{member}"
        if inspect.isroutine(getattr(them, member, None)) and inspect.isroutine(getattr(ours, member, None)):
            assert_same_order(f"{name}.{member}", getattr(ours, member), getattr(them, member))


def test_stages_are_the_same() -> None:
    assert [s.value for s in theirs("StageType")] == [s.value for s in lowering.StageType]


def test_every_difference_in_the_table_is_one() -> None:
    """So that the table stays true when ExecuTorch or this engine changes."""
    for entry in ABSENT:
        what, _, argument = entry.rstrip(")").partition("(")
        name, _, member = what.partition(".")
        them, ours = theirs(name), getattr(lowering, name)
        if argument:
            assert argument in arguments(getattr(them, member) if member else them), f"{entry} is not there"
            assert argument not in arguments(getattr(ours, member) if member else ours), f"{entry} is here"
        else:
            assert member in members(them) or hasattr(them, member), f"{entry} is not there"
            assert not has(ours, member), f"{entry} is here"
