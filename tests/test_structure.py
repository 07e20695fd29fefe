"""The shape of the house: who may import whom, and what every file says of itself."""

from __future__ import annotations

import ast
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

try:
    import tomllib
except ImportError:  # Python 3.10
    tomllib = None

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("builder", "rules", "lowering", "backends", "runtime")

# For each folder, longest prefix first: the folders of this project that it may import, and the
# distributions. "stdlib" is always allowed; a folder may always import itself.
ALLOWED: dict[str, tuple[set[str], set[str]]] = {
    "builder/core": (set(), set()),
    "builder/loading": ({"builder/core"}, {"starlark_go"}),
    "builder/query": ({"builder/core", "builder/loading"}, set()),
    "builder/analysis": ({"builder/core", "builder/loading"}, set()),
    "builder/cache": ({"builder/core"}, {"platformdirs"}),
    "builder/execution": ({"builder/core", "builder/cache"}, {"ninja"}),
    "builder/remote": ({"builder/core"}, {"grpc", "google"}),
    "builder": ({"builder", "rules"}, {"rich", "platformdirs"}),
    "rules": ({"builder/analysis", "builder/core"}, set()),
    "lowering": (set(), {"torch", "torchao", "flatbuffers", "safetensors", "sympy"}),  # torch's sizes are sympy's
    "backends": ({"lowering"}, {"torch", "torchao", "flatbuffers"}),
    "runtime": ({"lowering"}, {"torch", "safetensors", "executorch"}),
}


def product_files() -> list[Path]:
    return sorted(p for folder in PRODUCT for p in (ROOT / folder).rglob("*.py") if "__pycache__" not in p.parts)


def folder_rule(path: str) -> str:
    """The entry of ALLOWED that governs a file or folder, by longest prefix."""
    matches = [folder for folder in ALLOWED if path == folder or path.startswith(folder + "/")]
    return max(matches, key=len)


def imported_modules(file: Path) -> set[str]:
    """Every module that a file imports, anywhere in it, absolute or relative, as a dotted name."""
    package = ("rules_executorch", *file.relative_to(ROOT).parts[:-1])
    found: set[str] = set()
    for node in _nodes(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            # `from x import y` may name a module y; the longer name is what a direction is about.
            found.update(f"{module}.{alias.name}" for alias in node.names)
    return found


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes that are for more than type checkers."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from _nodes(node)


def forbidden_imports(file: Path) -> list[str]:
    path = file.relative_to(ROOT).as_posix()
    folder = folder_rule(path)
    folders, distributions = ALLOWED[folder]
    wrong = []
    for module in sorted(imported_modules(file)):
        top = module.partition(".")[0]
        if top == "rules_executorch":
            target = module.partition(".")[2].replace(".", "/")
            if not any(target == f or target.startswith(f + "/") for f in {folder, *folders}):
                wrong.append(module)
        elif top not in sys.stdlib_module_names and top not in distributions:
            wrong.append(module)
    return wrong


@pytest.mark.parametrize("file", product_files(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_file_imports_only_what_its_folder_may(file: Path) -> None:
    assert forbidden_imports(file) == []


def test_no_modules_import_each_other_however_indirectly() -> None:
    files = {}
    for file in product_files():
        parts = file.relative_to(ROOT).with_suffix("").parts
        files[".".join(("rules_executorch", *parts)).removesuffix(".__init__")] = file
    imports = {}
    for name, file in files.items():
        # `from package import name` may mean a module of the package, or what the package itself has.
        found = {module if module in files else module.rpartition(".")[0] for module in imported_modules(file)}
        imports[name] = found & files.keys() - {name}
    graphlib.TopologicalSorter(imports).prepare()


def test_no_backend_imports_another() -> None:
    for file in (ROOT / "backends").rglob("*.py"):
        own = file.relative_to(ROOT).parts[1]
        others = [m for m in imported_modules(file) if m.startswith("rules_executorch.backends.") and m.split(".")[2] != own]
        assert others == [], file


def test_a_forbidden_import_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    file = tmp_path / "lowering" / "x.py"
    file.parent.mkdir()
    file.write_text("def f():\n    from ..builder.core import label\n    import executorch\n")
    assert forbidden_imports(file) == ["executorch", "rules_executorch.builder.core.label"]


@pytest.mark.parametrize("file", product_files(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_module_says_its_job_in_one_sentence(file: Path) -> None:
    source = file.read_text()
    if file.name == "__init__.py" and not source.strip():
        return
    docstring = ast.get_docstring(ast.parse(source))
    assert docstring, "a module needs a docstring that says its job"
    assert docstring.split("\n\n")[0].rstrip().endswith((".", ":", "?"))


@pytest.mark.skipif(tomllib is None, reason="needs tomllib (Python 3.11)")
def test_every_package_is_in_the_wheel() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        listed = tomllib.load(file)["tool"]["setuptools"]["packages"]
    folders = {f.parent for f in product_files()}
    expected = {"rules_executorch." + ".".join(f.relative_to(ROOT).parts) for f in folders}
    assert expected - set(listed) == set(), "packages missing from pyproject.toml"
    assert listed == sorted(listed)
