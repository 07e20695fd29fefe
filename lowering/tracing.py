"""Traces a model: one entry point → an ExportedProgram, with bounds on all that is dynamic."""

from __future__ import annotations

import functools
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.utils._sympy.numbers import int_oo

from .errors import LoweringError, did_you_mean
from .model import Method, Model

# Dimensions are stored as 32-bit integers in a program: a bound beyond that bounds nothing.
LARGEST_DIMENSION = 2**31 - 1


def export_method(model: Model, name: str, *, strict: bool = False) -> ExportedProgram:
    """Trace the entry point `name` of `model`.

    The names of parameters and buffers are those of `model.module`, whichever of its Python methods
    is the entry point, so that all entry points share one checkpoint.

    Raises:
        LoweringError: there is no such entry point, the model's code cannot be traced, or an input
            has a dynamic dimension without an upper bound.
    """
    if name not in model.methods:
        raise LoweringError(f"the model has no method {name!r}{did_you_mean(name, model.methods)}")
    method = model.methods[name]
    with _as_forward(model.module, entry_point(model.module, name, method)):
        program = trace(
            model.module,
            method.example_inputs,
            dict(method.example_kwargs),
            dynamic_shapes=method.dynamic_shapes,
            strict=strict,
            name=name,
        )
    return program


def trace(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    name: str = "forward",
) -> ExportedProgram:
    """torch.export.export, with errors that say what to do, and no dimension without a bound."""
    try:
        # Of the graph modules that tracing makes on its way, few are ever called.
        with warnings.catch_warnings(), _use_lazy_graph_module(True):
            # Recurrent layers list their weights anew whenever these are replaced: no state of the model's.
            warnings.filterwarnings("ignore", r"The tensor attributes? (self\.\S*_flat_weights\[\d+\],? )+w")
            program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
    except Exception as error:
        raise _explained(error, module, name) from error
    check_bounds(program, name)
    return program


def entry_point(module: torch.nn.Module, name: str, method: Method) -> str:
    """The name of the Python method of `module` that the entry point `name` runs."""
    function = method.function or (name if callable(getattr(module, name, None)) else "forward")
    if not callable(getattr(module, function, None)):
        raise LoweringError(
            f"method {name!r} runs {type(module).__name__}.{function}, which does not exist",
            remedies=[f"define {function}() in {type(module).__name__}", "name another in Method(function=…)"],
        )
    return function


def check_bounds(program: ExportedProgram, name: str = "forward") -> None:
    """Raise LoweringError where an input has a dynamic dimension without an upper bound."""
    inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if node.name not in inputs or not isinstance(value, torch.Tensor):
            continue
        for dimension, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt) and _upper_bound(program, size) > LARGEST_DIMENSION:
                raise LoweringError(
                    f"method {name!r}: dimension {dimension} of input {node.name!r} is dynamic and has no upper bound; "
                    "memory is planned for the largest size, so one is needed",
                    remedies=[
                        f"bound it where the model states its dynamic_shapes: "
                        f'{{"{node.name}": {{{dimension}: torch.export.Dim("{node.name}_{dimension}", max=…)}}}}',
                        "leave the dimension out of dynamic_shapes, so that it is what the example input has",
                    ],
                )


def _upper_bound(program: ExportedProgram, size: torch.SymInt) -> Any:
    expression = size.node.expr
    bounds = program.range_constraints.get(expression)
    if bounds is None:
        bounds = size.node.shape_env.bound_sympy(expression)
    return bounds.upper if bounds.upper is not int_oo else float("inf")


@contextmanager
def _as_forward(module: torch.nn.Module, function: str) -> Iterator[None]:
    """Let `module` run `function` when it is called; calls of its forward from within stay what they are."""
    if function == "forward":
        yield
        return
    method = _named_forward(getattr(module, function))
    before = module.__dict__.get("forward")

    def restore() -> None:
        if before is None:
            module.__dict__.pop("forward", None)
        else:
            module.__dict__["forward"] = before

    @functools.wraps(method)
    def entry(*args: Any, **kwargs: Any) -> Any:
        restore()
        try:
            return method(*args, **kwargs)
        finally:
            module.__dict__["forward"] = entry

    module.__dict__["forward"] = entry
    try:
        yield
    finally:
        restore()


def _named_forward(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same method under the name "forward": torch keeps source lines of functions of that name only."""
    function = getattr(method, "__func__", None)
    if not isinstance(function, types.FunctionType):
        return method
    code = function.__code__.replace(co_name="forward")
    renamed = types.FunctionType(code, function.__globals__, "forward", function.__defaults__, function.__closure__)
    renamed.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(renamed, function, assigned=("__module__", "__doc__", "__annotations__")).__get__(
        method.__self__
    )


def _explained(error: Exception, module: torch.nn.Module, name: str) -> LoweringError:
    """The tracer's error as one of ours: what torch says, the model's line, the ways out."""
    kind = type(error).__name__
    lines = [f"method {name!r} of {type(module).__name__} cannot be exported: {_gist(error)}"]
    source = _model_line(error)
    if source:
        lines.append(f"  from: {source}")
    return LoweringError("\n".join(lines), remedies=_remedies(kind, str(error)))


_TORCH_ADVICE = ("The following call raised", "To debug", "For C++ stack trace", "Set TORCH", "from user code")


def _gist(error: Exception) -> str:
    """What torch says, without its advice on debugging torch."""
    kept = []
    for line in str(error).strip().splitlines():
        if line.startswith(_TORCH_ADVICE):
            break
        kept.append(line.rstrip())
    return "\n  ".join(line for line in kept if line.strip()) or type(error).__name__


def _model_line(error: Exception) -> str | None:
    """`file:line: code` of the innermost frame that is neither torch's nor ours."""
    ours, torchs = str(Path(__file__).parent), str(Path(torch.__file__).parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((ours, torchs, "<")):
            return f"{frame.filename}:{frame.lineno}: {frame.line}"
    return None


def _remedies(kind: str, message: str) -> list[str]:
    if "DataDependent" in kind or "data-dependent" in message:
        return [
            "decide with torch.where or torch.cond in place of a Python `if` on a tensor's values",
            "state what is known of the value: torch._check(n >= 0); torch._check(n <= bound)",
        ]
    if "Constraint" in kind or "constraints violated" in message.lower():
        return [
            "make dynamic_shapes say what the code needs, as suggested above",
            "leave the dimension out of dynamic_shapes, so that it is what the example input has",
        ]
    if kind == "UserError" or "dynamic_shapes" in message:
        return ["make dynamic_shapes match the method's arguments: one entry per argument, in its structure"]
    if kind == "TypeError":
        return ["give the method the example inputs that its Python signature takes"]
    return ["run the method in eager on the same example inputs: an error that shows there is the model's own"]
