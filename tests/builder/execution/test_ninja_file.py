"""build.ninja: inputs that actions have in common are written once, and are still seen to change."""

from __future__ import annotations

from pathlib import Path

from rules_executorch.builder.core.action import Action, Artifact
from rules_executorch.builder.execution.layout import Layout
from rules_executorch.builder.execution.ninja_file import ninja_file
from support.build_command import build, counts, write_files

_SHARED = 'glob(["common*.txt"])'
_FILES = {
    "BUILD": "".join(
        f'genrule(name = "{name}", srcs = {_SHARED} + ["{name}.txt"], outs = ["{name}.out"], cmd = "cat $(SRCS) > $@")\n'
        for name in ("a", "b")
    )
    + 'genrule(name = "c", srcs = [":a", ":b"], outs = ["c.out"], cmd = "cat $(SRCS) > $@")\n',
    "a.txt": "a",
    "b.txt": "b",
    "common1.txt": "1",
    "common2.txt": "2",
}


def test_a_change_of_a_common_input_runs_all_that_read_it(tmp_path: Path) -> None:
    root = write_files(tmp_path / "ws", _FILES)
    build(root, "//...")
    assert (root / "build-out/c.out").read_text() == "12a12b"
    (root / "common2.txt").write_text("new")
    assert counts(build(root, "//...")) == (3, 0, 0)
    assert (root / "build-out/c.out").read_text() == "1newa1newb"
    (root / "a.txt").write_text("A")
    assert counts(build(root, "//...")) == (2, 0, 1)
    assert (root / "build-out/c.out").read_text() == "1newA1newb"


def test_a_common_input_that_goes_is_seen(tmp_path: Path) -> None:
    root = write_files(tmp_path / "ws", _FILES)
    build(root, "//...")
    (root / "common1.txt").unlink()
    assert build(root, "//...").returncode == 0
    assert (root / "build-out/c.out").read_text() == "2a2b"


def test_the_file_grows_with_inputs_and_actions_not_with_their_product(tmp_path: Path) -> None:
    shared = tuple(Artifact(f"w/lib/{number}.py", tmp_path / f"lib/{number}.py") for number in range(300))
    actions = [
        Action("Genrule", "", ("x",), (*shared, Artifact(f"w/{n}.in", tmp_path / f"{n}.in")), (Artifact(f"w/{n}.out"),))
        for n in range(300)
    ]
    text = ninja_file(Layout(tmp_path, "w"), actions, [str(n) for n in range(300)])
    assert len(text) < 200 * (300 + 300)
    assert all(text.count(f"lib/{number}.py") == 1 for number in range(300))
