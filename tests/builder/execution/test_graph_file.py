"""Actions kept as files: nothing is lost, and every change of a definition is seen."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rules_executorch.builder.core.action import Action, Artifact, Imports, Preload, Resources, RunSpec
from rules_executorch.builder.execution.graph_file import (
    StoredActions,
    actions_to_json,
    definition_digest,
    run_from_json,
    run_to_json,
)
from rules_executorch.builder.execution.layout import Layout
from rules_executorch.builder.execution.ninja import find_ninja
from rules_executorch.builder.execution.ninja_file import ninja_file
from rules_executorch.builder.execution.toolchains import host_toolchains

TOOLCHAINS = host_toolchains()
_text = st.text("ab\n '$é\U0001f600", max_size=6)
_paths = st.text("ab $:.-é", min_size=1, max_size=5).map(lambda s: f"w/p/x{s}x")
_sources = _paths.map(lambda p: Artifact(p, Path("/src", p)))


@st.composite
def _actions(draw: st.DrawFn) -> Action:
    inputs = tuple(draw(st.lists(_sources, max_size=3, unique_by=lambda a: a.exec_path)))
    outputs = draw(st.lists(_paths.map(lambda p: Artifact(p + ".out")), min_size=1, max_size=2, unique=True))
    return Action(
        mnemonic=draw(_text),
        toolchain=draw(st.sampled_from(["", "shell", "python"])),
        argv=tuple(draw(st.lists(_text, max_size=3))),
        inputs=inputs,
        outputs=tuple(outputs),
        environment=draw(st.dictionaries(_text, _text, max_size=2)),
        also=tuple(draw(st.sets(st.just("executorch")))),
        resources=Resources(draw(st.integers(1, 4)), draw(st.integers(1, 10**5))),
        owner=draw(_text),
        imports=Imports("m", (".",), inputs, inputs[:1]) if inputs and draw(st.booleans()) else None,
        preloads=(Preload(("m:f",), (".",), inputs),) if draw(st.booleans()) else (),
    )


def _stored(actions: list[Action]) -> StoredActions:
    """The actions as they come out of their file; the number of each is its definition."""
    return StoredActions(json.loads(json.dumps(actions_to_json(actions, [f"d{n}" for n in range(len(actions))]))))


@given(st.lists(_actions(), max_size=4))
def test_actions_survive_their_file(actions: list[Action]) -> None:
    stored = _stored(actions)
    assert list(stored) == actions
    assert [stored.defined(definition) for definition in stored.definitions] == actions
    assert stored.defined("another") is None
    assert set(stored.outputs()) == {output.exec_path for action in actions for output in action.outputs}
    assert stored.first_outputs() == [action.outputs[0].exec_path for action in actions]
    assert set(stored.sources()) == {str(a.source) for action in actions for a in action.inputs}


@given(st.lists(_actions(), max_size=4), st.sets(_paths))
def test_the_actions_that_name_some_files_are_found(actions: list[Action], wanted: set[str]) -> None:
    found = _stored(actions).naming(lambda exec_path, _: exec_path in wanted)
    named = [{artifact.exec_path for artifact in (*action.inputs, *action.outputs)} for action in actions]
    assert found == [number for number, paths in enumerate(named) if paths & wanted]


@given(st.lists(st.sets(st.integers(0, 11)), min_size=1, max_size=6))
def test_who_reads_what_an_action_makes_is_found(read: list[set[int]]) -> None:
    """Action n makes 2n and 2n + 1, and reads the outputs below 2n among `read[n]`, between sources."""
    actions = []
    for number, wanted in enumerate(read):
        made = [Artifact(f"w/{output}.out") for output in sorted(wanted) if output < 2 * number]
        inputs = tuple(artifact for output in made for artifact in (Artifact("w/s", Path("/s")), output))
        outputs = (Artifact(f"w/{2 * number}.out"), Artifact(f"w/{2 * number + 1}.out"))
        actions.append(Action("M", "", (), tuple(dict.fromkeys(inputs)), outputs))
    stored = _stored(actions)
    for action in actions:
        readers = [other.outputs[0].exec_path for other in actions if set(action.outputs) & set(other.inputs)]
        assert stored.readers(action.outputs[0].exec_path) == readers


def test_what_many_actions_name_is_stored_once(tmp_path: Path) -> None:
    shared = tuple(Artifact(f"w/lib/{number}.py", tmp_path / f"lib/{number}.py") for number in range(300))
    actions = [
        Action("Genrule", "", ("x",), (*shared, Artifact(f"w/{n}.in", tmp_path / f"{n}.in")), (Artifact(f"w/{n}.out"),))
        for n in range(300)
    ]
    assert len(json.dumps(actions_to_json(actions, [""] * 300))) < 500 * (300 + 300)


@given(_actions(), _text)
def test_how_to_run_survives_its_file(action: Action, text: str) -> None:
    spec = RunSpec(action.argv, action.inputs, action.toolchain, action.also, {text: text}, 7)
    assert run_from_json(json.loads(json.dumps(run_to_json(spec)))) == spec


@given(_actions(), _actions())
def test_definitions_that_differ_have_other_digests(one: Action, two: Action) -> None:
    # The owner is for messages, resources and preloads are for speed, and where a source lies is no part of it.
    def essence(action: Action) -> Action:
        def bare(artifact: Artifact) -> Artifact:
            return Artifact(artifact.exec_path)

        return dataclasses.replace(
            action,
            owner="",
            resources=Resources(),
            preloads=(),
            inputs=tuple(map(bare, action.inputs)),
            imports=action.imports and Imports("m", (".",), tuple(map(bare, action.inputs)), (bare(action.inputs[0]),)),
        )

    same = definition_digest(one, TOOLCHAINS) == definition_digest(two, TOOLCHAINS)
    assert same == (essence(one) == essence(two))


def test_ninja_reads_any_path_that_a_label_can_have(tmp_path: Path) -> None:
    name = "w/p/a $b:c=d,e@f{g}[h](i)+%^&!~#é.txt"
    source = tmp_path / "p" / "in $x: y.txt"
    source.parent.mkdir()
    source.touch()
    actions = [
        Action("Genrule", "shell", ("-c", ""), (Artifact("w/p/in", source),), (Artifact(name),)),
        Action("Genrule", "shell", ("-c", ""), (Artifact(name),), (Artifact("w/last"),)),
    ]
    (tmp_path / "build.ninja").write_text(ninja_file(Layout(tmp_path, "w"), actions, ["1", "2"]))
    command = [find_ninja(), "-C", str(tmp_path), "-t", "inputs", "build-out/.state/done/w/last"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "in $x: y.txt" in result.stdout, result.stdout
    dry = subprocess.run([find_ninja(), "-n", "-C", str(tmp_path)], capture_output=True, text=True)
    assert dry.returncode == 0 and "[2/2]" in dry.stdout, dry.stdout
