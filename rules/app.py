"""executorch_cc_library: a program for C++ code, embedded or as a file, with what must be linked."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from rules_executorch.builder.analysis.context import RuleContext
from rules_executorch.builder.analysis.depset import Depset
from rules_executorch.builder.analysis.providers import DefaultInfo, Provider
from rules_executorch.builder.analysis.rule import Rule
from rules_executorch.builder.core.action import Artifact
from rules_executorch.builder.core.rule import Attribute, AttributeType, RuleSchema

from .cc import merge_cc
from .providers import CcInfo, ExecutorchModelInfo, Library, LinkedProgram

# Where delegates and kernels expect an alignment, it is 16 bytes at most for the program as a whole.
_ASSEMBLY = """\
#if defined(__APPLE__)
#define SYMBOL(name) _##name
    .section __TEXT,__const
#else
#define SYMBOL(name) name
    .section .rodata
#endif
    .globl SYMBOL({symbol}_data)
    .globl SYMBOL({symbol}_size)
    .balign 16
SYMBOL({symbol}_data):
    .incbin "{program}"
end_of_program:
    .balign 8
SYMBOL({symbol}_size):
#if __SIZEOF_POINTER__ == 8
    .quad end_of_program - SYMBOL({symbol}_data)
#else
    .long end_of_program - SYMBOL({symbol}_data)
#endif
#if defined(__ELF__)
    .section .note.GNU-stack,"",%progbits
#endif
"""

_HEADER = """\
// The ExecuTorch program of {label}.

#pragma once

"""

_DATA = """\
#include <stddef.h>

#ifdef __cplusplus
extern "C" {{
#endif

// Aligned to 16 bytes.
extern const unsigned char {symbol}_data[];
// In bytes.
extern const size_t {symbol}_size;

#ifdef __cplusplus
}}
#endif
"""

_PATH = """\
// The program's file, from the folder in which `build run` and `build test` start what depends on this.
#define {symbol}_path "{program}"
"""


def _cc_library(ctx: RuleContext) -> Sequence[Provider]:
    model = ctx.attr.model.provider(ExecutorchModelInfo)
    symbol = re.sub(r"[^A-Za-z0-9_]", "_", ctx.label.name)
    if symbol[0].isdigit():
        symbol = "_" + symbol
    label = ctx.full_name(ctx.label)
    declaration = (_DATA if ctx.attr.embed else _PATH).format(symbol=symbol, program=model.program.exec_path)
    header = ctx.write(f"{ctx.label.name}.h", _HEADER.format(label=label) + declaration)
    objects = (_embed(ctx, symbol, model.program),) if ctx.attr.embed else ()
    runtime = merge_cc(each.provider(CcInfo) for each in ctx.attr.runtime)
    program = LinkedProgram(label, symbol, model.report, model.backends)
    info = dataclasses.replace(
        runtime,
        headers=Depset([header], [runtime.headers]),
        includes=Depset([ctx.repository_path], [runtime.includes]),
        libraries=Depset([Library(label, objects=objects)], [runtime.libraries]),
        programs=Depset([program], [runtime.programs]),
    )
    return [DefaultInfo((header, *objects), Depset(() if ctx.attr.embed else [model.program])), info]


def _embed(ctx: RuleContext, symbol: str, program: Artifact) -> Artifact:
    """Declare the action that makes an object file of the program; the object file."""
    source = ctx.write(f"{ctx.label.name}.S", _ASSEMBLY.format(symbol=symbol, program=program.exec_path))
    embedded = ctx.declare_output(f"{ctx.label.name}.o")
    ctx.run(
        "EmbedProgram",
        toolchain="cc",
        argv=("-c", source.exec_path, "-o", embedded.exec_path),
        inputs=(source, program),
        outputs=(embedded,),
    )
    return embedded


EXECUTORCH_CC_LIBRARY = Rule(
    RuleSchema(
        "executorch_cc_library",
        "An ExecuTorch program in a binary, or beside it. The header `<package>/<name>.h` declares "
        "`<name>_data` (aligned to 16 bytes) and `<name>_size`; characters that C++ names lack become `_`. A cc_binary that "
        "depends on it links the ExecuTorch runtime, and the runtimes of those backends and the libraries of those "
        "kernels that the program really needs.",
        {
            "model": Attribute(AttributeType.LABEL, "The executorch_model.", mandatory=True),
            "embed": Attribute(
                AttributeType.BOOL,
                "False: the program stays a file, which what depends on this has at run time, and the header defines "
                "`<name>_path`: where, from the folder in which `build run` and `build test` start it. What the program "
                "needs is linked all the same.",
                default=True,
            ),
            "runtime": Attribute(
                AttributeType.LABEL_LIST,
                "The ExecuTorch runtime of the device, as cc_library targets. Default: the official one on this "
                "machine.",
                default=("@rules_executorch//runtime:executorch",),
            ),
        },
    ),
    _cc_library,
)
