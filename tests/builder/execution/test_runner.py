"""Running one action, with real commands in real folders."""

from __future__ import annotations

import contextlib
import dataclasses
import stat
import threading
from pathlib import Path

import pytest

from rules_executorch.builder.cache.disk import DiskActionCache, DiskStore
from rules_executorch.builder.cache.file_digests import FileDigests
from rules_executorch.builder.core.action import Action, Artifact, Imports, Toolchain
from rules_executorch.builder.execution.isolation import Mode
from rules_executorch.builder.execution.layout import Layout
from rules_executorch.builder.execution.processes import Interrupted, Processes
from rules_executorch.builder.execution.runner import ActionFailed, How, Machine, run_action
from rules_executorch.builder.execution.toolchains import host_toolchains

TOOLCHAINS = host_toolchains()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    store = DiskStore(tmp_path / "cache")
    root = tmp_path / "ws"
    root.mkdir()
    return Machine(
        Layout(root, "w"),
        TOOLCHAINS,
        store,
        DiskActionCache(tmp_path / "cache", store),
        FileDigests(tmp_path / "digests.sqlite"),
        Processes(),
        tmp_path / "sandboxes",
        lambda: Mode.NAMESPACES,
    )


def _source(machine: Machine, exec_path: str, text: str) -> Artifact:
    path = machine.layout.root / exec_path.partition("/")[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return Artifact(exec_path, path)


def _shell(script: str, *inputs: Artifact, outputs: tuple[str, ...] = ("w/p/out",), **fields) -> Action:
    made = tuple(map(Artifact, outputs))
    return Action("Genrule", "shell", ("-ec", script), inputs, made, owner="//p:x", **fields)


def _read(machine: Machine, exec_path: str = "w/p/out") -> str:
    return machine.layout.output(exec_path).read_text()


def test_an_action_runs_once_and_is_then_up_to_date(machine: Machine) -> None:
    action = _shell("cat w/p/in > w/p/out", _source(machine, "w/p/in", "hello"))
    assert run_action(machine, action).how is How.RAN
    assert _read(machine) == "hello"
    assert run_action(machine, action).how is How.UP_TO_DATE


def test_outputs_are_read_only_and_programs_stay_programs(machine: Machine) -> None:
    run_action(machine, _shell("echo 1 > w/p/out; cp w/p/out w/p/run; chmod +x w/p/run", outputs=("w/p/out", "w/p/run")))
    modes = [stat.S_IMODE(machine.layout.output(p).stat().st_mode) for p in ("w/p/out", "w/p/run")]
    assert modes == [0o444, 0o555]


def test_a_deleted_output_comes_from_the_cache(machine: Machine) -> None:
    action = _shell("echo 1 > w/p/out; echo told; echo warned >&2")
    first = run_action(machine, action)
    machine.layout.output("w/p/out").unlink()
    again = run_action(machine, action)
    assert (first.how, again.how) == (How.RAN, How.CACHED)
    assert first.printed == again.printed == "told\nwarned\n"


def test_a_tampered_output_is_restored_and_the_store_not_believed(machine: Machine) -> None:
    action = _shell("echo good > w/p/out")
    run_action(machine, action)
    output = machine.layout.output("w/p/out")
    output.chmod(0o644)
    with open(output, "r+") as file:  # the same inode: the link leads into the store
        file.write("evil")
    assert run_action(machine, action).how is How.RAN
    assert _read(machine) == "good\n"
    output.unlink()
    assert run_action(machine, action).how is How.CACHED


def test_a_changed_input_runs_it_again_and_is_named(machine: Machine) -> None:
    source = _source(machine, "w/p/in", "1")
    action = _shell("cat w/p/in > w/p/out", source)
    run_action(machine, action)
    source.source.write_text("2")
    outcome = run_action(machine, action)
    assert outcome.how is How.RAN and [str(c) for c in outcome.changes] == ["input w/p/in changed"]
    source.source.write_text("1")
    assert run_action(machine, action).how is How.CACHED
    assert _read(machine) == "1"


def test_the_stamp_moves_only_if_an_output_changes(machine: Machine) -> None:
    source = _source(machine, "w/p/in", "one")
    action = _shell("wc -c < w/p/in > w/p/out", source)
    run_action(machine, action)
    stamp = machine.layout.stamp("w/p/out")
    before = stamp.stat().st_mtime_ns
    source.source.write_text("two")
    assert run_action(machine, action).how is How.RAN
    assert stamp.stat().st_mtime_ns == before
    source.source.write_text("three")
    run_action(machine, action)
    assert stamp.stat().st_mtime_ns > before


def test_only_declared_inputs_are_in_the_folder(machine: Machine) -> None:
    seen = _source(machine, "w/p/seen", "")
    _source(machine, "w/p/unseen", "")
    run_action(machine, _shell("seen=$(find . ! -type d | sort); echo $seen > w/p/out", seen))
    assert _read(machine).split() == ["./w/p/seen"]


def test_the_environment_is_fixed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "1")
    monkeypatch.setenv("HOME", "/home/of/the/user")
    run_action(machine, _shell("env | sed 's/=.*//' | sort > w/p/out; umask >> w/p/out", environment={"MINE": "1"}))
    names = _read(machine).split()
    assert "SECRET" not in names and "MINE" in names and names[-1] == "0022"
    run_action(machine, _shell('echo "$TZ $LC_ALL $PYTHONHASHSEED $HOME $TMPDIR" > w/p/out'))
    values = _read(machine).split()
    assert values[:3] == ["UTC", "C.UTF-8", "0"]
    assert "/home/of/the/user" not in values


def test_a_missing_output_is_an_error_that_names_it(machine: Machine) -> None:
    with pytest.raises(ActionFailed, match="did not make its output w/p/two") as failed:
        run_action(machine, _shell("echo 1 > w/p/out; echo said", outputs=("w/p/out", "w/p/two")))
    assert failed.value.printed == "said\n"
    assert not machine.layout.output("w/p/out").exists()


def test_a_failure_tells_its_output_and_how_to_run_it_again(machine: Machine) -> None:
    action = _shell("cat w/p/in; echo oh >&2; exit 3", _source(machine, "w/p/in", "in "))
    with pytest.raises(ActionFailed, match="Genrule of //p:x failed with exit status 3") as failed:
        run_action(machine, action)
    assert failed.value.printed == "in oh\n"
    import subprocess

    again = subprocess.run(failed.value.reproduce, shell=True, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout, again.stderr) == (3, "in ", "oh\n")


def test_a_failure_is_not_remembered_and_spoils_nothing(machine: Machine) -> None:
    source = _source(machine, "w/p/in", "true")
    action = _shell(". w/p/in; cp w/p/in w/p/out", source)
    run_action(machine, action)
    source.source.write_text("false")
    for _ in range(2):
        with pytest.raises(ActionFailed):
            run_action(machine, action)
    assert _read(machine) == "true"


def test_a_signal_is_named(machine: Machine) -> None:
    with pytest.raises(ActionFailed, match="ended by signal 9"):
        run_action(machine, _shell("kill -9 $$"))


def test_an_input_that_changes_while_it_runs_makes_no_result(machine: Machine) -> None:
    source = _source(machine, "w/p/in", "before")
    action = _shell("cat w/p/in > w/p/out", source)
    with pytest.raises(ActionFailed, match="w/p/in changed while it ran"):
        run_action(machine, action, about_to_run=lambda _: source.source.write_text("after"))
    source.source.write_text("before")
    assert run_action(machine, action).how is How.RAN


def test_a_missing_input_is_an_error_that_names_it(machine: Machine) -> None:
    with pytest.raises(ActionFailed, match="cannot read its input.*nowhere"):
        run_action(machine, _shell("true", Artifact("w/p/in", machine.layout.root / "nowhere")))


def test_what_an_action_leaves_running_ends_with_it(machine: Machine) -> None:
    run_action(machine, _shell("sleep 1000.4321 & echo 1 > w/p/out"))
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            commands.append((process / "cmdline").read_bytes())
    assert not [command for command in commands if b"1000.4321" in command]


def test_it_takes_no_longer_than_it_may(machine: Machine) -> None:
    with pytest.raises(ActionFailed, match="took longer than 3 s") as failed:
        run_action(machine, _shell("echo begun; sleep 1000"), timeout_seconds=3)
    assert failed.value.printed == "begun\n"


def test_after_stop_nothing_is_started(machine: Machine) -> None:
    machine.processes.stop()
    with pytest.raises(Interrupted):
        run_action(machine, _shell("echo 1 > w/p/out"))


def test_sources_that_are_not_imported_are_neither_seen_nor_in_the_key(machine: Machine) -> None:
    main, other = _source(machine, "w/p/main.py", "#"), _source(machine, "w/p/other.py", "2")
    wanted = Imports("main", ("w/p",), (main, other))
    action = _shell("ls w/p > $TMPDIR/names; cat $TMPDIR/names > w/p/out", main, other, imports=wanted)
    run_action(machine, action)
    assert _read(machine).split() == ["main.py"]
    other.source.write_text("3")
    assert run_action(machine, action).how is How.UP_TO_DATE
    main.source.write_text("import other")
    assert run_action(machine, action).how is How.RAN
    assert _read(machine).split() == ["main.py", "other.py"]
    other.source.write_text("4")
    assert run_action(machine, action).how is How.RAN


def test_another_toolchain_is_another_key(machine: Machine) -> None:
    action = _shell("echo 1 > w/p/out")
    run_action(machine, action)
    other = dict(TOOLCHAINS, shell=dataclasses.replace(TOOLCHAINS["shell"], identity="another bash"))
    outcome = run_action(dataclasses.replace(machine, toolchains=other), action)
    assert outcome.how is How.RAN and [str(c) for c in outcome.changes] == ["toolchain shell changed"]


def test_a_missing_toolchain_is_an_error_only_when_it_is_needed(machine: Machine) -> None:
    without = dict(TOOLCHAINS, cc=Toolchain("cc", (), "no cc"))
    machine = dataclasses.replace(machine, toolchains=without)
    run_action(machine, _shell("echo 1 > w/p/out"))
    with pytest.raises(ActionFailed, match="(?s)toolchain 'cc', which was not found.*to fix: install a C"):
        run_action(machine, Action("CppCompile", "cc", ("-c",), (), (Artifact("w/o"),), owner="//p:x"))


def test_trees_of_toolchains_are_seen_and_stand_beside_programs(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("of the tree")
    with_tree = dict(TOOLCHAINS, sdk=Toolchain("sdk", (), "sdk 1", {"sdk": tmp_path / "tree"}))
    machine = dataclasses.replace(machine, toolchains=with_tree)
    run_action(machine, _shell("cp .toolchain/sdk/file w/p/out; chmod +x w/p/out", also=("sdk",)))
    assert _read(machine) == "of the tree"
    beside = machine.layout.outputs / "p" / "out.runfiles" / ".toolchain" / "sdk" / "file"
    assert beside.read_text() == "of the tree"


def test_a_file_may_become_a_folder_and_back(machine: Machine) -> None:
    for outputs in (("w/p/a",), ("w/p/a/b",), ("w/p/a",)):
        run_action(machine, _shell(f"echo 1 > {outputs[0]}", outputs=outputs))
        assert _read(machine, outputs[0]) == "1\n"


def test_outputs_of_other_repositories_are_apart(machine: Machine) -> None:
    run_action(machine, _shell("echo 1 > lib/p/out", outputs=("lib/p/out",)))
    assert (machine.layout.outputs / "external" / "lib" / "p" / "out").exists()


def test_nothing_is_left_behind_by_a_success(machine: Machine) -> None:
    run_action(machine, _shell("echo 1 > w/p/out; echo 2 > $TMPDIR/x"))
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()
    assert list(machine.layout.staging.iterdir()) == list(machine.sandboxes.iterdir()) == []
