"""Sources that a module reaches are found as Python itself would import them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rules_executorch.builder.core.action import Artifact, Imports
from rules_executorch.builder.core.digest import digest_bytes
from rules_executorch.builder.execution.python_imports import imported_in, imported_in_file, reachable


def reached(files: Mapping[str, str], module: str, roots: tuple[str, ...] = ("r",), used: tuple[str, ...] = ()) -> set[str]:
    wanted = Imports(module, roots, tuple(map(Artifact, files)), tuple(map(Artifact, used)))
    return reachable(wanted, lambda path: imported_in(files[path].encode()))


def test_imports_are_followed_and_the_rest_is_unused() -> None:
    files = {"r/a.py": "import b", "r/b.py": "from c import d", "r/c.py": "d = 1", "r/e.py": "import a"}
    assert reached(files, "a") == {"r/a.py", "r/b.py", "r/c.py"}


@pytest.mark.parametrize(
    "statement",
    [
        "import p.m",
        "import p.m as x",
        "from p import m",
        "from p.m import anything",
        "import importlib; importlib.import_module('p.m')",
        "def f():\n    from p import m",
        "try:\n    import nothing\nexcept ImportError:\n    import p.m",
    ],
)
def test_a_module_of_a_package_brings_the_packages_init(statement: str) -> None:
    files = {"r/a.py": statement, "r/p/__init__.py": "import q", "r/p/m.py": "", "r/q.py": "", "r/p/other.py": ""}
    assert reached(files, "a") == set(files) - {"r/p/other.py"}


@pytest.mark.parametrize("statement", ["from . import m", "from .m import x", "from ..p import m", "from ..p.m import x"])
def test_relative_imports_are_followed(statement: str) -> None:
    files = {"r/o/p/a.py": statement, "r/o/p/m.py": "", "r/o/p/n.py": ""}
    assert reached(files, "o.p.a") == {"r/o/p/a.py", "r/o/p/m.py"}


def test_a_file_is_found_under_every_import_root() -> None:
    files = {"ws/models/a.py": "import b; from models import c", "ws/models/b.py": "", "ws/models/c.py": "", "ws/d.py": ""}
    assert reached(files, "a", ("ws/models", "ws", ".")) == set(files) - {"ws/d.py"}
    assert reached(files, "ws.models.a", ("ws/models", "ws", ".")) == set(files) - {"ws/d.py"}


def test_used_files_count_with_what_they_import() -> None:
    files = {"r/a.py": "", "r/plugin.py": "import b", "r/b.py": "", "r/c.py": ""}
    assert reached(files, "a", used=("r/plugin.py",)) == {"r/a.py", "r/plugin.py", "r/b.py"}


@pytest.mark.parametrize("text", ["import b\n)", "import b\n\0", "import b\nx = " + "-" * 200_000, "import b\n" + "(" * 200_000])
def test_what_python_cannot_parse_is_left_to_the_one_who_runs_it(text: str) -> None:
    assert reached({"r/a.py": text, "r/b.py": ""}, "a") == {"r/a.py"}


@given(st.binary(max_size=60))
def test_any_bytes_are_read(source: bytes) -> None:
    assert isinstance(imported_in(source), list)


def test_cycles_end() -> None:
    assert reached({"r/a.py": "import b", "r/b.py": "import a"}, "a") == {"r/a.py", "r/b.py"}


def test_a_file_is_read_once_for_each_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, memory = tmp_path / "a.py", tmp_path / "memory"
    file.write_text("import b")
    digest = digest_bytes(b"import b")
    assert imported_in_file(file, digest, memory) == [["b", 0, []]]
    imported_in_file.cache_clear()
    with monkeypatch.context() as context:
        context.delattr(Path, "read_bytes")
        assert imported_in_file(file, digest, memory) == [["b", 0, []]]
    file.write_text("import c")
    assert imported_in_file(file, digest_bytes(b"import c"), memory) == [["c", 0, []]]
    with pytest.raises(OSError, match="changed while it was read"):
        imported_in_file(file, digest_bytes(b"import d"), memory)


MODULES = ["a", "b", "p", "p.m", "p.n", "p.q", "p.q.x", "n"]
statements = st.lists(
    st.sampled_from(MODULES).flatmap(
        lambda module: st.sampled_from(
            [f"import {module}", f"from {module} import anything"]
            + ([f"from {module.rpartition('.')[0]} import {module.rpartition('.')[2]}"] if "." in module else [])
        )
    ),
    max_size=3,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.fixed_dictionaries({module: statements for module in MODULES}))
def test_whatever_python_imports_is_reached(tmp_path_factory: pytest.TempPathFactory, program: dict[str, list[str]]) -> None:
    root = tmp_path_factory.mktemp("program")
    files: dict[str, str] = {}
    for module, lines in program.items():
        package = any(other.startswith(module + ".") for other in MODULES)
        path = module.replace(".", "/") + ("/__init__.py" if package else ".py")
        text = "def __getattr__(name): return 1\n" * (not package) + "".join(f"try:\n    {x}\nexcept ImportError: pass\n" for x in lines)
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        files[path] = text
    script = (
        "import sys; sys.path[:0] = [sys.argv[1]]; import a\n"
        "print('\\n'.join(m.__file__ for m in sys.modules.values() if (getattr(m, '__file__', '') or '').startswith(sys.argv[1])))"
    )
    command = [sys.executable, "-I", "-S", "-c", script, str(root)]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    imported = {Path(line).relative_to(root).as_posix() for line in output.splitlines()}
    assert imported <= reached(files, "a", (".",))
