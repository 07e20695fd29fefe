"""Action keys: they change with what can change a result, and the explanation says exactly when."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from rules_executorch.builder.cache.keys import InputFile, explain, key_of_parts, key_parts
from rules_executorch.builder.core.action import Action, Artifact, Resources
from rules_executorch.builder.core.digest import digest_bytes

TOOLCHAINS = {"shell": "bash", "python": "cpython 3.11", "executorch": "1.4"}

_words = st.text("ab: \n0é", min_size=1, max_size=8)
_names = st.text("abcdef.", min_size=1, max_size=5).map(lambda s: f"w/p/f{s}")
_parts = st.dictionaries(_words, st.text("01: é", max_size=6), max_size=6).map(lambda d: list(d.items()))


@st.composite
def _actions(draw: st.DrawFn) -> tuple[Action, dict[str, InputFile]]:
    inputs = tuple(Artifact(n) for n in draw(st.lists(_names, unique=True, max_size=3)))
    action = Action(
        mnemonic="Genrule",
        toolchain=draw(st.sampled_from(["shell", "python"])),
        argv=tuple(draw(st.lists(_words, max_size=3))),
        inputs=inputs,
        outputs=(Artifact(draw(_names) + ".out"),),
        environment=draw(st.dictionaries(_words, _words, max_size=2)),
        also=tuple(draw(st.sets(st.just("executorch")))),
    )
    files = {
        a.exec_path: InputFile(digest_bytes(draw(st.binary(max_size=2))), draw(st.booleans())) for a in inputs
    }
    return action, files


def _key(action: Action, inputs: dict[str, InputFile], toolchains: dict[str, str]) -> str:
    return key_of_parts(list(key_parts(action, inputs, toolchains)))


@given(_parts, _parts)
def test_keys_differ_exactly_when_the_explanation_has_something_to_say(before: list, after: list) -> None:
    assert (key_of_parts(before) != key_of_parts(after)) == bool(explain(before, after))


@given(_actions(), _actions())
def test_the_walk_of_real_actions_is_keyed_and_explained_alike(one: tuple, two: tuple) -> None:
    parts = [list(key_parts(action, files, TOOLCHAINS)) for action, files in (one, two)]
    keys = [_key(action, files, TOOLCHAINS) for action, files in (one, two)]
    assert (keys[0] != keys[1]) == bool(explain(*parts))
    for walk in parts:
        assert len(dict(walk)) == len(walk), "a path occurs twice, so an explanation would lose a part"


@given(_actions())
def test_names_for_people_and_resources_are_in_no_key(pair: tuple) -> None:
    action, files = pair
    other = dataclasses.replace(action, owner="//x:y", mnemonic="Other", resources=Resources(cpus=4))
    assert _key(action, files, TOOLCHAINS) == _key(other, files, TOOLCHAINS)


def test_the_explanation_names_the_input_that_changed() -> None:
    action = Action("Genrule", "shell", ("-c", "x"), (Artifact("w/a"), Artifact("w/b")), (Artifact("w/o"),))
    before = {"w/a": InputFile(digest_bytes(b"1")), "w/b": InputFile(digest_bytes(b"2"))}
    after = {**before, "w/b": InputFile(digest_bytes(b"3"))}
    changes = explain(list(key_parts(action, before, TOOLCHAINS)), list(key_parts(action, after, TOOLCHAINS)))
    assert [str(c) for c in changes] == ["input w/b changed"]


def test_only_the_toolchains_that_an_action_uses_are_in_its_key() -> None:
    action = Action("Genrule", "shell", ("-c", "x"), (), (Artifact("w/o"),))
    assert _key(action, {}, TOOLCHAINS) == _key(action, {}, {**TOOLCHAINS, "python": "cpython 3.12"})
    assert _key(action, {}, TOOLCHAINS) != _key(action, {}, {**TOOLCHAINS, "shell": "dash"})
