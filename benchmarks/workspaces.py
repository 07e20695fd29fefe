"""Workspaces of any size for benchmarks of the builder: genrules or models, in at most 100 packages.

Models are lowered by a stand-in: a copy of this distribution whose engine writes small files at once. So
the builder has the same actions to see to, with the same inputs, and 1,000 models are built in minutes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import rules_executorch.builder

_CHECKOUT = Path(rules_executorch.builder.__file__).resolve().parents[1]
_COPIED = ("backends/reference", "builder", "lowering", "rules", "runtime")

_GENRULE_MACRO = """\
def thing(name):
    native.genrule(name = name, srcs = [name + ".txt"], outs = [name + ".out"], cmd = "cat $< > $@")
"""

_MODEL_MACRO = """\
load("@rules_executorch//rules:defs.bzl", "executorch_model", "partitioner")

def thing(name):
    py_library(name = name + "_py", srcs = [name + ".py"])
    executorch_model(
        name = name,
        model = name + ":model",
        deps = [":" + name + "_py"],
        methods = {"forward": partitioner("@rules_executorch//backends/reference")},
    )
"""

_STAND_IN = '''\
"""Writes what the engine would be asked for: the names of its arguments."""

import sys

for option in ("--graph", "--constants", "--out", "--report"):
    if option in sys.argv:
        with open(sys.argv[sys.argv.index(option) + 1], "w") as file:
            file.write(" ".join(sys.argv[1:]))
'''


def make_workspace(root: Path, kind: str, targets: int) -> list[Path]:
    """Make a workspace at `root` with as many targets of one kind, "genrule" or "model"; returns their sources."""
    write(root / "WORKSPACE", 'workspace(name = "bench")\n')
    write(root / "macros/BUILD", "")
    write(root / "macros/macros.bzl", {"genrule": _GENRULE_MACRO, "model": _MODEL_MACRO}[kind])
    if kind == "model":
        make_stand_in(root.parent / "stand_in")
        write(root / "WORKSPACE", 'workspace(name = "bench")\nlocal_repository(name = "rules_executorch", path = "../stand_in")\n')
    suffix = {"genrule": "txt", "model": "py"}[kind]
    packages = min(100, targets)
    sources = []
    for package in range(packages):
        names = [f"t{package}_{number}" for number in range(package, targets, packages)]
        lines = ['load("//macros:macros.bzl", "thing")', "", *(f'thing("{name}")' for name in names)]
        write(root / f"p{package}/BUILD", "\n".join(lines) + "\n")
        for name in names:
            sources.append(root / f"p{package}/{name}.{suffix}")
            write(sources[-1], f"# {name}\n")
    return sources


def make_stand_in(root: Path) -> None:
    """Copy the distribution to `root`, with an engine that does nothing."""
    for folder in _COPIED:
        shutil.copytree(_CHECKOUT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    write(root / "WORKSPACE", 'workspace(name = "rules_executorch")\n')
    write(root / "lowering/__main__.py", _STAND_IN)


def write_ninja_file(root: Path, sources: list[Path]) -> Path:
    """A build.ninja of the same shape as a workspace of genrules, for ninja alone."""
    lines = ["rule cat\n  command = cat $in > $out\n"]
    for source in sources:
        relative = source.relative_to(root).with_suffix("")
        lines.append(f"build ninja-out/{relative}.out: cat {source.relative_to(root)}\n")
    path = root / "build.ninja"
    write(path, "".join(lines))
    return path


def write(path: Path, text: str) -> None:
    """Write a file, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
