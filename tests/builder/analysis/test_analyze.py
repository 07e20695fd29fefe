"""Targets become actions: each target once, only what the roots need, dependencies first, clear errors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rules_executorch.builder.analysis.analyze import analyze
from rules_executorch.builder.analysis.context import RuleContext
from rules_executorch.builder.analysis.providers import DefaultInfo, Provider, RunInfo
from rules_executorch.builder.core.action import Artifact, RunSpec
from rules_executorch.builder.core.diagnostics import BuildError
from rules_executorch.builder.core.target import GeneratedFile
from support.graphs import TOOLCHAINS, graph, label, rule, source, target


def concatenate(ctx: RuleContext) -> Sequence[Provider]:
    """Makes `<name>.out` of the files of its deps."""
    output = ctx.declare_output(f"{ctx.label.name}.out")
    files = [file for dependency in ctx.attr.deps for file in dependency.files]
    ctx.run("Concatenate", toolchain="shell", argv=("-c", "cat"), inputs=files, outputs=[output])
    return [DefaultInfo((output,))]


THING = rule(concatenate)
RULES = {"thing": THING}


def messages(error: BuildError) -> list[str]:
    return [diagnostic.message for diagnostic in error.diagnostics]


def test_a_source_file_is_its_own_output() -> None:
    result = analyze(graph(["//a:x.txt"], source("//a:x.txt")), RULES, TOOLCHAINS)
    (artifact,) = result.default_outputs[label("//a:x.txt")]
    assert artifact.exec_path == "here/a/x.txt"
    assert str(artifact.source) == "/here/a/x.txt"
    assert result.actions == ()


def test_files_of_other_repositories_stand_under_their_names() -> None:
    name = "@rules_executorch//lib:x.txt"
    result = analyze(graph(["//:t"], target(THING, "//:t", [name]), source(name)), RULES, TOOLCHAINS)
    (action,) = result.actions
    assert [each.exec_path for each in action.inputs] == ["rules_executorch/lib/x.txt"]
    assert [each.exec_path for each in action.outputs] == ["here/t.out"]


def test_a_target_in_a_diamond_is_analysed_once() -> None:
    seen: list[str] = []

    def counted(ctx: RuleContext) -> Sequence[Provider]:
        seen.append(str(ctx.label))
        return concatenate(ctx)

    thing = rule(counted)
    nodes = [
        target(thing, "//:top", ["//:left", "//:right"]),
        target(thing, "//:left", ["//:bottom"]),
        target(thing, "//:right", ["//:bottom"]),
        target(thing, "//:bottom"),
    ]
    analyze(graph(["//:top", "//:left"], *nodes), {"thing": thing}, TOOLCHAINS)
    assert sorted(seen) == ["//:bottom", "//:left", "//:right", "//:top"]


def test_only_actions_that_the_roots_need_are_kept() -> None:
    def two_outputs(ctx: RuleContext) -> Sequence[Provider]:
        ctx.write("unneeded", "…")
        return [DefaultInfo((ctx.write("needed", "…"),))]

    thing = rule(two_outputs)
    result = analyze(graph(["//:t"], target(thing, "//:t")), {"thing": thing}, TOOLCHAINS)
    assert [output.exec_path for action in result.actions for output in action.outputs] == ["here/needed"]


def test_what_a_run_needs_is_built_too() -> None:
    def program(ctx: RuleContext) -> Sequence[Provider]:
        tool = ctx.write("tool", "…")
        return [DefaultInfo(), RunInfo(RunSpec((tool.exec_path,), (tool,)))]

    thing = rule(program)
    result = analyze(graph(["//:t"], target(thing, "//:t")), {"thing": thing}, TOOLCHAINS)
    assert result.runs[label("//:t")].argv == ("here/tool",)
    assert len(result.actions) == 1


@given(st.lists(st.lists(st.integers(0, 30), max_size=5), min_size=1, max_size=30))
def test_actions_come_after_those_that_make_their_inputs(edges: list[list[int]]) -> None:
    # Node n depends on some of the nodes before it.
    nodes = [
        target(THING, f"//:t{n}", [f"//:t{d % n}" for d in dict.fromkeys(edge)] if n else [])
        for n, edge in enumerate(edges)
    ]
    result = analyze(graph([f"//:t{len(nodes) - 1}"], *nodes), RULES, TOOLCHAINS)
    made: set[str] = set()
    for action in result.actions:
        assert {each.exec_path for each in action.inputs} <= made
        made.update(each.exec_path for each in action.outputs)
    assert f"here/t{len(nodes) - 1}.out" in made


def test_a_chain_deeper_than_the_stack_is_analysed() -> None:
    nodes = [target(THING, f"//:t{n}", [f"//:t{n - 1}"] if n else []) for n in range(10_000)]
    result = analyze(graph(["//:t9999"], *nodes), RULES, TOOLCHAINS)
    assert len(result.actions) == 10_000
    assert result.actions[0].outputs[0].exec_path == "here/t0.out"


def test_two_targets_that_make_one_file_are_both_named() -> None:
    def fixed(ctx: RuleContext) -> Sequence[Provider]:
        return [DefaultInfo((ctx.write("same", "…"),))]

    thing = rule(fixed)
    nodes = [target(thing, "//:one", line=3), target(thing, "//:two", line=7)]
    with pytest.raises(BuildError) as caught:
        analyze(graph(["//:one", "//:two"], *nodes), {"thing": thing}, TOOLCHAINS)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == "//:two and //:one both make here/same"
    assert str(diagnostic.location) == "BUILD:7"
    assert "//:one is defined at BUILD:3" in diagnostic.notes


def test_an_output_over_a_source_file_is_an_error() -> None:
    nodes = [target(THING, "//:t", ["//:t.out"]), source("//:t.out")]
    with pytest.raises(BuildError, match="//:t would make here/t.out, which is a source file"):
        analyze(graph(["//:t"], *nodes), RULES, TOOLCHAINS)


def test_an_output_inside_another_output_is_an_error() -> None:
    def at_text(ctx: RuleContext) -> Sequence[Provider]:
        return [DefaultInfo((ctx.write(ctx.target.attributes["text"], "…"),))]

    thing = rule(at_text)
    nodes = [target(thing, "//:one", text="x"), target(thing, "//:two", text="x/y")]
    with pytest.raises(BuildError, match="//:two would make here/x/y, but here/x is a file that //:one makes"):
        analyze(graph(["//:one", "//:two"], *nodes), {"thing": thing}, TOOLCHAINS)


def test_mistakes_of_independent_targets_are_told_together_and_not_blamed_on_dependents() -> None:
    def picky(ctx: RuleContext) -> Sequence[Provider]:
        if ctx.attr.text:
            raise ctx.error(f"{ctx.label} says {ctx.attr.text}")
        return [DefaultInfo()]

    thing = rule(picky)
    nodes = [
        target(thing, "//:bad", text="no"),
        target(thing, "//:worse", text="never"),
        target(thing, "//:fine"),
        target(thing, "//:above", ["//:bad", "//:fine"], text="unreached"),
    ]
    with pytest.raises(BuildError) as caught:
        analyze(graph(["//:above", "//:worse"], *nodes), {"thing": thing}, TOOLCHAINS)
    assert messages(caught.value) == ["//:bad says no", "//:worse says never"]


def test_a_missing_provider_names_attribute_target_and_kind() -> None:
    def needs_run(ctx: RuleContext) -> Sequence[Provider]:
        ctx.attr.deps[0].provider(RunInfo)
        return []

    thing = rule(needs_run)
    nodes = [target(thing, "//:t", ["//:x.txt"], line=5), source("//:x.txt")]
    with pytest.raises(BuildError) as caught:
        analyze(graph(["//:t"], *nodes), {"thing": thing}, TOOLCHAINS)
    (diagnostic,) = caught.value.diagnostics
    assert "//:x.txt cannot be used in `deps` of //:t: a source file does not provide RunInfo" in diagnostic.message
    assert str(diagnostic.location) == "BUILD:5"


def test_an_output_outside_the_package_is_an_error() -> None:
    def escape(ctx: RuleContext) -> Sequence[Provider]:
        return [DefaultInfo((ctx.declare_output("../x"),))]

    thing = rule(escape)
    with pytest.raises(BuildError, match="output '../x' of //:t is not a path in its package"):
        analyze(graph(["//:t"], target(thing, "//:t")), {"thing": thing}, TOOLCHAINS)


def test_an_unknown_toolchain_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(BuildError, match="//:t needs toolchain 'shell'"):
        analyze(graph(["//:t"], target(THING, "//:t")), RULES, {"cc": TOOLCHAINS["cc"]})


@pytest.mark.parametrize("size", [0, 1, 25_000, 400_000])
def test_written_text_fits_into_arguments(size: int) -> None:
    def write(ctx: RuleContext) -> Sequence[Provider]:
        return [DefaultInfo((ctx.write("x", "ä" * size),))]

    thing = rule(write)
    (action,) = analyze(graph(["//:t"], target(thing, "//:t")), {"thing": thing}, TOOLCHAINS).actions
    assert all(len(argument.encode()) < 128 * 1024 for argument in action.argv)
    assert "".join(action.argv[4:]) == "ä" * size


@pytest.mark.parametrize("path", ["", "/", "/a", "a/", "a//b", ".", "./a", "a/.", "..", "a/../b"])
def test_an_artifacts_path_is_relative_and_normal(path: str) -> None:
    with pytest.raises(ValueError, match="must be relative and normal"):
        Artifact(path)


def test_a_generated_file_is_built_by_its_generator() -> None:
    node = GeneratedFile(label("//:t.out"), label("//:t"))
    nodes = [target(THING, "//:user", ["//:t.out"]), node, target(THING, "//:t")]
    result = analyze(graph(["//:user", "//:t.out"], *nodes), RULES, TOOLCHAINS)
    assert [action.owner for action in result.actions] == ["//:t", "//:user"]
    assert [each.exec_path for each in result.default_outputs[label("//:t.out")]] == ["here/t.out"]
