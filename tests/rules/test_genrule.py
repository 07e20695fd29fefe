"""genrule: what its command says, and what the action sees."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from rules_executorch.builder.core.action import Action
from rules_executorch.builder.core.diagnostics import BuildError
from support.analysed import action_of, actions_of, analysed, files_of, paths
from support.build_command import build, write_files


def run(root: Path, action: Action) -> None:
    """Run a shell action where its inputs are."""
    for file in (*action.inputs, *action.outputs):
        (root / file.exec_path).parent.mkdir(parents=True, exist_ok=True)
        if file.source:
            (root / file.exec_path).write_bytes(file.source.read_bytes())
    subprocess.run(["bash", *action.argv], cwd=root, check=True, timeout=60)


def genrule(cmd: str, **more: str) -> str:
    attributes = {"srcs": '["in.txt"]', "outs": '["out.txt"]', "cmd": repr(cmd), **more}
    return 'genrule(name = "g", ' + ", ".join(f"{key} = {value}" for key, value in attributes.items()) + ")\n"


@pytest.mark.parametrize(
    ("cmd", "text"),
    [
        ("cat $< > $@", "hello\n"),
        ("cat $(SRCS) > $(OUTS)", "hello\n"),
        ("cat $(location in.txt) > $@", "hello\n"),
        ("cat $(locations :in.txt) > $(@D)/out.txt", "hello\n"),
        ("cat $(location //p:in.txt) > $(RULEDIR)/out.txt", "hello\n"),
        ("x=a; echo $$x$$(echo b) > $@", "ab\n"),
    ],
)
def test_a_command_reads_its_sources_and_makes_its_output(tmp_path: Path, cmd: str, text: str) -> None:
    graph = analysed(tmp_path / "w", {"p/BUILD": genrule(cmd), "p/in.txt": "hello\n"}, "//p:g")
    action = action_of(graph, "Genrule")
    assert (action.toolchain, paths(action.inputs), paths(action.outputs)) == ("shell", ["w/p/in.txt"], ["w/p/out.txt"])
    run(tmp_path, action)
    assert (tmp_path / "w/p/out.txt").read_text() == text


def test_paths_with_spaces_are_quoted(tmp_path: Path) -> None:
    build = genrule("cat $< > $@", srcs='["in put.txt"]', outs='["out put.txt"]')
    action = action_of(analysed(tmp_path / "w", {"p/BUILD": build, "p/in put.txt": "hello"}, "//p:g"), "Genrule")
    run(tmp_path, action)
    assert (tmp_path / "w/p/out put.txt").read_text() == "hello"


def test_a_failure_in_a_pipe_stops_the_command(tmp_path: Path) -> None:
    files = {"p/BUILD": genrule("false | cat > $@; echo late"), "p/in.txt": ""}
    action = action_of(analysed(tmp_path / "w", files, "//p:g"), "Genrule")
    with pytest.raises(subprocess.CalledProcessError):
        run(tmp_path, action)


def test_a_generated_file_is_the_source_of_another_by_its_label(tmp_path: Path) -> None:
    build = genrule("cp $< $@") + 'genrule(name = "h", srcs = ["out.txt"], outs = ["end.txt"], cmd = "cp $< $@")\n'
    graph = analysed(tmp_path, {"BUILD": build, "in.txt": ""}, "//:h")
    first, second = actions_of(graph, "Genrule")
    assert paths(first.outputs) == paths(second.inputs) == ["w/out.txt"]
    assert files_of(graph, "//:h") == ["w/end.txt"]


def test_a_program_is_a_tool_with_its_runfiles(tmp_path: Path) -> None:
    build = genrule("$(location :tool) > $@", srcs="[]", tools='[":tool"]')
    build += 'cc_binary(name = "tool", srcs = ["tool.cc"], data = ["table.txt"])\n'
    files = {"BUILD": build, "tool.cc": "int main() {}", "table.txt": ""}
    action = action_of(analysed(tmp_path, files, "//:g"), "Genrule")
    assert paths(action.inputs) == ["w/tool", "w/table.txt"]
    assert "w/tool > w/out.txt" in action.argv[-1]


@pytest.mark.parametrize(
    ("cmd", "message", "hint"),
    [
        ("cat $(location other.txt) > $@", "names //:other.txt, which it does not depend on", "`srcs`, `tools` or `data`"),
        ("cat $(SRC) > $@", "$(SRC) in `cmd` of //:g means nothing", "did you mean $(SRCS)?"),
        ("echo $HOME > $@", "$HOME in `cmd` of //:g means nothing", "write $$"),
        ("cat $(location :both) > $@", "stands for 2 files, not one", "$(locations :both)"),
    ],
)
def test_a_wrong_reference_is_told(tmp_path: Path, cmd: str, message: str, hint: str) -> None:
    build = genrule(cmd, srcs='["in.txt", ":both"]') + 'filegroup(name = "both", srcs = ["in.txt", "BUILD"])\n'
    with pytest.raises(BuildError) as caught:
        analysed(tmp_path, {"BUILD": build, "in.txt": "", "other.txt": ""}, "//:g")
    assert message in str(caught.value) and hint in str(caught.value)


def test_two_outputs_leave_no_single_output_variable(tmp_path: Path) -> None:
    build = genrule("touch $(OUTS) $@", outs='["a", "b"]')
    with pytest.raises(BuildError, match=r"\$@ in `cmd` of //:g means nothing"):
        analysed(tmp_path, {"BUILD": build, "in.txt": ""}, "//:g")


def test_a_python_program_is_a_tool_that_runs_from_any_folder(tmp_path: Path) -> None:
    files = {
        "p/BUILD": """
py_library(name = "words", srcs = ["words.py"])
py_binary(name = "say", srcs = ["say.py"], deps = [":words"], args = ["--loud"])
genrule(name = "g", outs = ["o.txt"], tools = [":say"], cmd = "out=$$PWD/$@; tool=$$PWD/$(location :say); cd /; $$tool 'a  b' > $$out")
""",
        "p/words.py": "HELLO = 'hello'\n",
        "p/say.py": "import sys\nfrom words import HELLO\nprint(HELLO, *sys.argv[1:], sep='|')\n",
    }
    result = build(write_files(tmp_path / "w", files), "//p:g")
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "w/build-out/p/o.txt").read_text() == "hello|--loud|a  b\n"
