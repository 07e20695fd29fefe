"""executorch_model: PyTorch → .pte, one export per method and one lowering per model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from rules_executorch.builder.analysis.context import RuleContext
from rules_executorch.builder.analysis.providers import DefaultInfo, Provider
from rules_executorch.builder.analysis.rule import Rule
from rules_executorch.builder.core.action import Artifact, Imports, Preload, Resources
from rules_executorch.builder.core.rule import Attribute, AttributeType, RuleSchema

from .attributes import LOWERING, PY_DEPS, TOOLS
from .model_methods import factories, lowering, recipe_function
from .providers import ExecutorchBackendInfo, ExecutorchModelInfo, PyInfo
from .python import import_roots, merge_python, python_argv, python_files, required_toolchains

_WARM_UP = "rules_executorch.lowering.warm_up:warm_up"
_TOOLS = "rules_executorch.rules.tools"
_TORCH = Resources(cpus=1, memory_mib=2048)


def _model(ctx: RuleContext) -> Sequence[Provider]:
    factory_of = factories(ctx)
    backend_infos = {each.label: each.provider(ExecutorchBackendInfo) for each in ctx.attr.backends}
    backends = {info.label: info for info in backend_infos.values()}
    methods = {method: lowering(ctx, method, backend_infos) for method in factory_of}
    python = merge_python(each.provider(PyInfo) for each in ctx.attr.deps)
    (weights,) = ctx.attr.weights.files if ctx.attr.weights else (None,)

    names = _checkpoint_names(ctx, weights) if weights else None
    imports = _imports(ctx, [factory.partition(":")[0] for factory in factory_of.values()], python)
    exported = {
        method: _export(ctx, method, factory, python, imports[factory.partition(":")[0]], names)
        for method, factory in factory_of.items()
    }
    recipe = recipe_function(ctx)
    config = {
        "methods": {
            method: {
                "graph": graph.exec_path,
                "constants": constants.exec_path,
                "lowering": methods[method],
                **({"model": factory_of[method]} if recipe else {}),
            }
            for method, (graph, constants) in exported.items()
        },
        "backends": {
            ctx.full_name(info.label): {"id": info.id, "module": info.module, "partitioner": info.partitioner}
            for info in backends.values()
        },
        "recipe": recipe,
        "weights": weights.exec_path if weights else None,
        "constant_methods": ctx.attr.constant_methods,
        "options": ctx.attr.options,
    }
    tensors = [file for pair in exported.values() for file in pair] + ([weights] if weights else [])
    # A recipe is code of the user's, which may begin with the model itself.
    users = python if recipe else PyInfo()
    program, report = _lower(ctx, config, tensors, list(backends.values()), users)
    info = ExecutorchModelInfo(
        label=ctx.label,
        program=program,
        report=report,
        factories=factory_of,
        python=python,
        weights=weights,
        backends=tuple(backends.values()),
    )
    return [DefaultInfo((program,)), info]


def _checkpoint_names(ctx: RuleContext, weights: Artifact) -> Artifact:
    """Declare the action that lists the checkpoint's tensors, so that export does not depend on their values."""
    tools = ctx.attr._tools.provider(PyInfo)
    names = ctx.declare_output(f"{ctx.label.name}.checkpoint.json")
    ctx.run(
        "CheckpointNames",
        toolchain="python",
        argv=python_argv(tools, f"{_TOOLS}.checkpoint_names", weights.exec_path, names.exec_path),
        inputs=(weights, *python_files(tools)),
        outputs=(names,),
        preloads=(_preload(tools, _TOOLS),),
    )
    return names


def _imports(ctx: RuleContext, modules: Iterable[str], python: PyInfo) -> dict[str, Imports]:
    """What exports need of the sources in `python`, by the module that their factory is in.

    So changing one method's code does not export another whose factory is in a module that does not import it.
    """
    # The engine imports parts of itself by computed names, so that all of it is needed.
    engine = set(ctx.attr._lowering.provider(PyInfo).sources.to_list())
    sources = tuple(source for source in python.sources.to_list() if source not in engine)
    # Declared as data, a source is used, however it is imported.
    data = set(python.data.to_list())
    used = tuple(source for source in sources if source in data)
    roots = tuple(dict.fromkeys(import_roots(python)))
    return {module: Imports(module, roots, sources, used) for module in modules}


def _export(
    ctx: RuleContext, method: str, factory: str, python: PyInfo, imports: Imports, names: Artifact | None
) -> tuple[Artifact, Artifact]:
    """Declare one method's export; its graph and the constants that are not in the checkpoint."""
    engine = ctx.attr._lowering.provider(PyInfo)
    code = merge_python((python, engine))
    graph = ctx.declare_output(f"{ctx.label.name}.{method}.edge")
    constants = ctx.declare_output(f"{ctx.label.name}.{method}.constants.safetensors")
    arguments = ["--model", factory, "--method", method, "--graph", graph.exec_path]
    arguments += ["--constants", constants.exec_path]
    inputs = python_files(code)
    if names is not None:
        arguments += ["--checkpoint-names", names.exec_path]
        inputs.append(names)
    ctx.run(
        "ExportMethod",
        toolchain="python",
        argv=python_argv(code, "rules_executorch.lowering", "export", *arguments),
        inputs=inputs,
        outputs=(graph, constants),
        also=required_toolchains(code),
        resources=_TORCH,
        imports=imports,
        preloads=(_preload(engine, _WARM_UP),),
    )
    return graph, constants


def _lower(
    ctx: RuleContext,
    config: object,
    tensors: Sequence[Artifact],
    backends: Sequence[ExecutorchBackendInfo],
    users: PyInfo,
) -> tuple[Artifact, Artifact]:
    """Declare the lowering of all methods together; the program and its report."""
    engine = ctx.attr._lowering.provider(PyInfo)
    modules = tuple(backend.module for backend in backends)
    compilers = merge_python(backend.python for backend in backends)
    code = merge_python((users, compilers, engine))
    config_file = ctx.write(f"{ctx.label.name}.lower.json", json.dumps(config, indent=1) + "\n")
    program = ctx.declare_output(f"{ctx.label.name}.pte")
    report = ctx.declare_output(f"{ctx.label.name}.report.json")
    arguments = ["--config", config_file.exec_path, "--out", program.exec_path, "--report", report.exec_path]
    # Where actions find what earlier ones kept, and leave what they keep themselves (see Action.keeps_for).
    arguments += ["--known", ".toolchain/kept", "--keep", "~/kept"]
    ctx.run(
        "LowerModel",
        toolchain="python",
        argv=python_argv(code, "rules_executorch.lowering", "lower", *arguments),
        inputs=(config_file, *tensors, *python_files(code)),
        outputs=(program, report),
        also=required_toolchains(code),
        resources=_TORCH,
        preloads=(_preload(engine, _WARM_UP), *([_preload(compilers, *modules)] if modules else [])),
        keeps_for=python_files(code),
    )
    return program, report


def _preload(code: PyInfo, *steps: str) -> Preload:
    """What a worker may have imported before it is asked to export or to lower."""
    return Preload(steps, tuple(dict.fromkeys(import_roots(code))), tuple(python_files(code)))


EXECUTORCH_MODEL = Rule(
    RuleSchema(
        "executorch_model",
        "An ExecuTorch program, `<name>.pte`, made of a PyTorch model; and `<name>.report.json`, which says what was "
        "delegated and what the program needs at run time.",
        {
            "model": Attribute(
                AttributeType.PLAIN,
                'The function that makes the model, "module:factory", importable from `deps`; it returns a '
                "rules_executorch.lowering.model.Model. A dict {method: factory} gives each method a factory of its "
                "own: then a method is exported again only if a module changes that its own factory's module "
                "imports, directly or not. (A module imported under a computed name is not seen: name its file in a "
                "`data`, too.)",
                mandatory=True,
            ),
            "deps": PY_DEPS,
            "weights": Attribute(
                AttributeType.LABEL,
                "The checkpoint, a .safetensors file whose names are those of the module's state_dict(). Its values "
                "take the place of the factory's; when they change, nothing is exported again.",
                allow_files=True,
                extensions=(".safetensors",),
            ),
            "methods": Attribute(
                AttributeType.PLAIN,
                "What the program offers, and how each method is lowered: {method: spec}, where a spec is "
                "delegation_spec(…), partitioner(…), a list of these (the first takes what it can, and so on), or "
                "None for no backend.",
                mandatory=True,
            ),
            "backends": Attribute(
                AttributeType.LABEL_LIST,
                "The backends that the recipe delegates to; those named in `methods` are added.",
                default=(),
                may_repeat=True,
            ),
            "recipe": Attribute(
                AttributeType.STRING,
                '"module:function", importable from `deps`: how the model is lowered, as a function without arguments '
                "that returns a rules_executorch.lowering.ExportRecipe (quantization, passes, partitioners, planning). "
                "What `methods` say comes before its partitioners, and `options` take the place of its own. A recipe "
                "that quantizes, or says how to trace, begins with the model and the checkpoint's values, when the "
                "program is lowered; any other with the exported methods.",
            ),
            "constant_methods": Attribute(
                AttributeType.PLAIN,
                "Methods that return a constant: {name: number, bool, string, or list of numbers}.",
                default={},
            ),
            "options": Attribute(
                AttributeType.PLAIN,
                "How the program is planned and written, {option: value}: alloc_graph_input, alloc_graph_output, "
                "share_mutable_buffers, alignment, and others of ExecutorchBackendConfig; operators, the sets of kernels "
                'that the target runtime has (["stock"] if not said; there are also "quantized" and "llm").',
                default={},
            ),
            "_lowering": LOWERING,
            "_tools": TOOLS,
        },
    ),
    _model,
)
