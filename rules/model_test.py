"""executorch_test: a program on the official runtime against PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from rules_executorch.builder.analysis.context import RuleContext
from rules_executorch.builder.analysis.providers import DefaultInfo, Provider, RunInfo
from rules_executorch.builder.analysis.rule import Rule
from rules_executorch.builder.core.action import RunSpec
from rules_executorch.builder.core.rule import Attribute, AttributeType, RuleSchema

from .attributes import LOWERING, PY_DEPS, TEST_ATTRIBUTES, timeout_seconds
from .backend import MODULE_MEMBER
from .providers import ExecutorchModelInfo, PyInfo
from .python import merge_python, python_argv, python_files, required_toolchains


def _test(ctx: RuleContext) -> Sequence[Provider]:
    attr = ctx.attr
    model = attr.model.provider(ExecutorchModelInfo)
    if attr.inputs and not MODULE_MEMBER.fullmatch(attr.inputs):
        raise ctx.error(f"`inputs` of {ctx.label} is {attr.inputs!r}", remedy='write it as in "module:function"')
    tolerances = {"atol": attr.atol, "rtol": attr.rtol}
    for name, text in tolerances.items():
        try:
            float(text)
        except ValueError:
            raise ctx.error(f"`{name}` of {ctx.label} is {text!r}, not a number", remedy='write "1e-4"') from None
    code = merge_python(
        (
            *(each.provider(PyInfo) for each in attr.deps),
            model.python,
            attr._runtime.provider(PyInfo),
            attr._lowering.provider(PyInfo),
        )
    )
    libraries = [each.shared_library for each in model.backends if each.shared_library is not None]
    arguments = ["--program", model.program.exec_path]
    arguments += ["--inputs", attr.inputs] if attr.inputs else []
    arguments += [f"--model={method}={factory}" for method, factory in model.factories.items()]
    if model.weights is not None:
        arguments += ["--weights", model.weights.exec_path]
    arguments += [f"--backend={library.exec_path}" for library in libraries]
    arguments += [f"--{name}={text}" for name, text in tolerances.items()]
    files = (model.program, *libraries, *python_files(code), *((model.weights,) if model.weights else ()))
    spec = RunSpec(
        argv=python_argv(code, "rules_executorch.runtime.compare_main", *arguments),
        runfiles=tuple(dict.fromkeys(files)),
        toolchain="python",
        also=("executorch", *required_toolchains(code)),
        timeout_seconds=timeout_seconds(attr.size, attr.timeout),
    )
    return [DefaultInfo((model.program,)), RunInfo(spec)]


EXECUTORCH_TEST = Rule(
    RuleSchema(
        "executorch_test",
        "Runs each method of a program on the official runtime of this machine and compares with PyTorch.",
        {
            "model": Attribute(AttributeType.LABEL, "The executorch_model.", mandatory=True),
            "inputs": Attribute(
                AttributeType.STRING,
                '"module:function", importable from `deps` or those of the model. The function is given the methods, '
                "{method: callable}, and returns {method: [arguments, …]}, where each `arguments` is a tuple for one "
                "call. Without it, the methods' example inputs are taken.",
            ),
            "deps": PY_DEPS,
            "atol": Attribute(AttributeType.STRING, "How far values may be apart.", default="1e-4"),
            "rtol": Attribute(AttributeType.STRING, "How far they may be apart besides, relative to PyTorch's.", default="0"),
            **TEST_ATTRIBUTES,
            "_runtime": Attribute(
                AttributeType.LABEL, "The comparing test runner.", default="@rules_executorch//runtime:python"
            ),
            "_lowering": LOWERING,
        },
        is_test=True,
        is_executable=True,
    ),
    _test,
)
