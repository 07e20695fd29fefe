"""executorch_backend: a device backend as a target."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rules_executorch.builder.analysis.context import RuleContext
from rules_executorch.builder.analysis.providers import DefaultInfo, Provider
from rules_executorch.builder.analysis.rule import Rule
from rules_executorch.builder.core.rule import Attribute, AttributeType, RuleSchema

from .cc import merge_cc
from .linking import link_shared
from .providers import CcInfo, ExecutorchBackendInfo, PyInfo
from .python import merge_python, python_files

MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
MODULE_MEMBER = re.compile(rf"{MODULE.pattern}:[A-Za-z_]\w*")


def _backend(ctx: RuleContext) -> Sequence[Provider]:
    attr = ctx.attr
    if not attr.id:
        raise ctx.error(f"`id` of {ctx.label} is empty", remedy="write the name that its runtime registers")
    if not MODULE.fullmatch(attr.module):
        raise ctx.error(f"`module` of {ctx.label} is {attr.module!r}", remedy='write it as in "package.module"')
    if attr.partitioner and not MODULE_MEMBER.fullmatch(attr.partitioner):
        raise ctx.error(
            f"`partitioner` of {ctx.label} is {attr.partitioner!r}", remedy='write it as in "package.module:Class"'
        )
    python = merge_python(dependency.provider(PyInfo) for dependency in attr.deps)
    runtime = shared_library = None
    if attr.runtime:
        runtime = merge_cc(dependency.provider(CcInfo) for dependency in attr.runtime)
        # Built only for those who test with it: nothing else needs this output.
        shared_library = ctx.declare_output(f"lib{ctx.label.name}_delegate.so")
        link_shared(ctx, shared_library, runtime)
    info = ExecutorchBackendInfo(
        label=ctx.label,
        id=attr.id,
        module=attr.module,
        partitioner=attr.partitioner or None,
        python=python,
        runtime=runtime,
        shared_library=shared_library,
    )
    return [DefaultInfo(tuple(python_files(python))), info]


EXECUTORCH_BACKEND = Rule(
    RuleSchema(
        "executorch_backend",
        "A device backend: the compiler that runs in the build, and the runtime that is linked into apps. "
        "Models name it in `delegation_spec` and `partitioner`.",
        {
            "id": Attribute(
                AttributeType.STRING,
                "The name under which its device runtime registers, and its compiler in `register_backend`.",
                mandatory=True,
            ),
            "module": Attribute(
                AttributeType.STRING,
                "The Python module, importable from `deps`, that registers the compiler when it is imported.",
                mandatory=True,
            ),
            "partitioner": Attribute(
                AttributeType.STRING,
                'Its partitioner, "module:Class". Without one it takes whole graphs only.',
            ),
            "deps": Attribute(
                AttributeType.LABEL_LIST, "The compiler's py_library targets.", default=(), mandatory=True
            ),
            "runtime": Attribute(
                AttributeType.LABEL_LIST,
                "The cc_library targets that carry it on the device. An app with a model that needs the delegate "
                "links them; other apps do not.",
                default=(),
            ),
        },
    ),
    _backend,
)
