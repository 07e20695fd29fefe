"""Runs a program's methods on the official runtime and compares them with eager PyTorch: what executorch_test runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rules_executorch.lowering.errors import InvalidFileError, LoweringError
from torch.utils import _pytree as pytree

from .child import ChildKilledError, exit_status
from .compare import Tolerance, compare
from .eager_model import Call, EagerMethod, load_inputs, load_methods, method_names
from .official import LoadedProgram, OfficialRuntimeError

# The flat inputs of a call, and the flat outputs that eager gives.
Expectation = tuple[Sequence[Any], Sequence[Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: all within the tolerance; 1: not so, or an error."""
    options = _parser().parse_args(arguments)
    # One thread: eager is then the same on any machine, and a process without threads can be forked.
    torch.set_num_threads(1)
    try:
        methods = load_methods(_factories(options.model), options.weights)
        expectations = _expectations(methods, load_inputs(options.inputs, methods))
    except (LoweringError, InvalidFileError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    tolerance = Tolerance(options.atol, options.rtol)
    try:
        return exit_status(lambda: _compare_all(options.program, options.backend, expectations, tolerance))
    except ChildKilledError as error:
        print(f"error: the official runtime was killed by {error} on {options.program}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="compare_main", description=__doc__)
    parser.add_argument("--program", type=Path, required=True, metavar="FILE.pte")
    parser.add_argument(
        "--model",
        action="append",
        required=True,
        metavar="[METHOD=]MODULE:FACTORY",
        help="the factory of a method's Model, or that of the model of all methods",
    )
    parser.add_argument("--weights", type=Path, metavar="FILE.safetensors", help="the models' checkpoint")
    parser.add_argument(
        "--inputs",
        metavar="MODULE:FUNCTION",
        help="given {method: callable}, returns {method: [args, …]}; without it, the example inputs",
    )
    parser.add_argument(
        "--backend", type=Path, action="append", default=[], metavar="FILE.so", help="registers itself when loaded"
    )
    parser.add_argument("--atol", type=float, default=Tolerance.atol, help="absolute tolerance (default %(default)s)")
    parser.add_argument("--rtol", type=float, default=Tolerance.rtol, help="relative tolerance (default %(default)s)")
    return parser


def _factories(models: Sequence[str]) -> dict[str, str]:
    factories: dict[str, str] = {}
    for text in models:
        method, equals, factory = text.rpartition("=")
        factories.update({method: factory} if equals else dict.fromkeys(method_names(factory), factory))
    return factories


def _expectations(
    methods: Mapping[str, EagerMethod], calls: Mapping[str, Sequence[Call]]
) -> dict[str, list[Expectation]]:
    return {
        name: [
            (_leaves((args, dict(kwargs))), _leaves(method(*args, **kwargs)))
            for args, kwargs in calls[name]
        ]
        for name, method in methods.items()
    }  # fmt: skip


def _leaves(tree: Any) -> list[Any]:
    """The tensors and numbers of nested inputs or outputs, in the order in which programs take and give them.

    Copies, as a method may change its inputs, and may give them back.
    """
    return [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in pytree.tree_leaves(tree)]


def _compare_all(
    program_file: Path,
    backends: Sequence[Path],
    expectations: Mapping[str, Sequence[Expectation]],
    tolerance: Tolerance,
) -> int:
    try:
        program = LoadedProgram(program_file, backends)
        if missing := [name for name in expectations if name not in program.methods]:
            known = ", ".join(program.methods)
            print(f"error: {program_file} lacks method {missing[0]}; it has {known}", file=sys.stderr)
            return 1
        # All methods are compared even if the first is wrong: together they tell more.
        results = [_compare_method(program, name, each, tolerance) for name, each in expectations.items()]
    except OfficialRuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if all(results) else 1


def _compare_method(
    program: LoadedProgram, name: str, expectations: Sequence[Expectation], tolerance: Tolerance
) -> bool:
    worst, failures = 0.0, []
    for index, (inputs, expected) in enumerate(expectations):
        comparison = compare(program.run(name, inputs), expected, tolerance)
        worst = max(worst, comparison.max_difference)
        if comparison.mismatch:
            failures.append(f"  on inputs {index} ({_described(inputs)}): {comparison.mismatch}")
    allowed = f"atol {tolerance.atol:g}" + (f", rtol {tolerance.rtol:g}" if tolerance.rtol else "")
    verdict = f"FAILED on {len(failures)} of" if failures else "ok on"
    print(f"{name}: {verdict} {len(expectations)} inputs, max abs difference {worst:.3g} ({allowed})")
    for failure in failures[:3]:
        print(failure)
    return not failures


def _described(inputs: Sequence[Any]) -> str:
    return ", ".join(
        f"{str(each.dtype).removeprefix('torch.')}{list(each.shape)}" if isinstance(each, torch.Tensor) else str(each)
        for each in inputs
    )


if __name__ == "__main__":
    sys.exit(main())
