"""`build query` and `build inspect`: the command around the parts that are tested elsewhere."""

from __future__ import annotations

from pathlib import Path

from support.build_command import build, write_files

PACKAGE = {
    "p/BUILD": """
genrule(name = "a", srcs = ["in.txt"], outs = ["a.txt"], cmd = "cp $< $@")
genrule(name = "b", srcs = [":a"], outs = ["b.txt"], cmd = "cp $< $@")
""",
    "p/in.txt": "",
}


def test_labels_come_one_per_line(tmp_path: Path) -> None:
    ws = write_files(tmp_path / "ws", PACKAGE)
    result = build(ws, "query", "deps(//p:b) ^ kind(genrule, //...)")
    assert (result.returncode, result.stderr) == (0, "")
    assert set(result.stdout.splitlines()) == {"//p:a", "//p:b"}
    assert build(ws / "p", "query", ":a").stdout == "//p:a\n"


def test_a_graph_is_for_dot(tmp_path: Path) -> None:
    result = build(write_files(tmp_path / "ws", PACKAGE), "query", "--output=graph", "deps(//p:b)")
    assert result.stdout.startswith("digraph") and '"//p:b" -> "//p:a"' in result.stdout


def test_a_mistake_in_the_expression_is_told(tmp_path: Path) -> None:
    result = build(write_files(tmp_path / "ws", PACKAGE), "query", "dep(//p:b)")
    assert result.returncode != 0 and "deps" in result.stderr and "Traceback" not in result.stderr


def test_inspect_passes_its_arguments_to_the_engine(tmp_path: Path) -> None:
    (tmp_path / "not.pte").write_bytes(b"not a program")
    result = build(tmp_path, "inspect", "not.pte")
    assert result.returncode == 1 and "invalid .pte file" in result.stderr and "Traceback" not in result.stderr
