"""The meaning of query expressions over a loaded graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..core.diagnostics import nearest
from ..core.label import Label
from ..core.target import GeneratedFile, SourceFile, Target
from ..loading.load import LoadedGraph
from .expression import Call, Expression, Let, Operation, Set, Word
from .parse import query_error

Labels = dict[Label, None]


class Graph:
    """A loaded graph, as queries walk it. `patterns` are the labels that each pattern's text means."""

    def __init__(self, loaded: LoadedGraph, patterns: Mapping[str, Sequence[Label]]):
        self._loaded = loaded
        self.patterns = patterns

    def node(self, label: Label) -> Target | SourceFile | GeneratedFile:
        return self._loaded.target(label)

    def dependencies(self, label: Label) -> tuple[Label, ...]:
        node = self.node(label)
        if isinstance(node, GeneratedFile):
            return (node.generator,)
        return node.dependencies if isinstance(node, Target) else ()


# What each function takes: x an expression, w a word, n a number; ? before what may be left out.
_SIGNATURES = {
    "allpaths": "xx",
    "attr": "wwx",
    "deps": "x?n",
    "filter": "wx",
    "kind": "wx",
    "labels": "wx",
    "rdeps": "xx?n",
    "somepath": "xx",
    "tests": "x",
}


def check(expression: Expression, text: str, variables: frozenset[str] = frozenset()) -> None:
    """Raise UsageError unless all functions and variables are known, and functions get what they take."""
    if isinstance(expression, Word):
        _check_word(expression, text, variables)
    elif isinstance(expression, Set):
        for word in expression.words:
            _check_word(word, text, variables)
    elif isinstance(expression, Operation):
        check(expression.left, text, variables)
        check(expression.right, text, variables)
    elif isinstance(expression, Let):
        check(expression.value, text, variables)
        check(expression.body, text, variables | {expression.name})
    else:
        _check_call(expression, text, variables)


def _check_word(word: Word, text: str, variables: frozenset[str]) -> None:
    if word.text.startswith("$") and word.text[1:] not in variables:
        near = nearest(word.text[1:], variables)
        raise query_error(
            text,
            f"there is no variable '{word.text}'",
            word.offset,
            len(word.text),
            notes=(f"did you mean '${near}'?",) if near else (),
            remedy=f"write let {word.text[1:]} = … in …",
        )


def _check_call(call: Call, text: str, variables: frozenset[str]) -> None:
    signature = _SIGNATURES.get(call.function)
    if signature is None:
        near = nearest(call.function, (*_SIGNATURES, "set"))
        raise query_error(
            text,
            f"there is no function '{call.function}'",
            call.offset,
            len(call.function),
            notes=(f"did you mean '{near}'?" if near else f"there are {', '.join(_SIGNATURES)}, set",),
        )
    least = len(signature.partition("?")[0])
    kinds = signature.replace("?", "")
    if not least <= len(call.arguments) <= len(kinds):
        counts = str(least) if least == len(kinds) else f"{least} or {len(kinds)}"
        raise query_error(
            text,
            f"{call.function}() takes {counts} arguments, not {len(call.arguments)}",
            call.offset,
            len(call.function),
            notes=(f"its form is {_form(call.function, kinds)}",),
        )
    for kind, argument in zip(kinds, call.arguments):
        if kind == "x":
            check(argument, text, variables)
        elif not isinstance(argument, Word):
            raise query_error(
                text,
                f"{call.function}() takes a word here: {_form(call.function, kinds)}",
                call.offset,
                len(call.function),
            )
        elif kind == "n" and not argument.text.isdecimal():
            raise query_error(text, f"'{argument.text}' is not a number", argument.offset, len(argument.text))


def _form(function: str, kinds: str) -> str:
    names = {"x": "EXPRESSION", "w": "WORD", "n": "DEPTH"}
    return f"{function}({', '.join(names[kind] for kind in kinds)})"


def pattern_words(expression: Expression) -> Iterator[Word]:
    """The words of a checked expression that are target patterns."""
    if isinstance(expression, Word):
        if not expression.text.startswith("$"):
            yield expression
    elif isinstance(expression, Set):
        yield from (word for word in expression.words if not word.text.startswith("$"))
    elif isinstance(expression, Operation):
        yield from pattern_words(expression.left)
        yield from pattern_words(expression.right)
    elif isinstance(expression, Let):
        yield from pattern_words(expression.value)
        yield from pattern_words(expression.body)
    else:
        kinds = _SIGNATURES[expression.function].replace("?", "")
        for kind, argument in zip(kinds, expression.arguments):
            if kind == "x":
                yield from pattern_words(argument)


def evaluate(expression: Expression, text: str, graph: Graph) -> tuple[Label, ...]:
    """The labels that a checked expression means: sorted, unless it is a path.

    Raises:
        UsageError: a regular expression is none.
    """
    labels = _Evaluator(text, graph).labels(expression, {})
    is_path = isinstance(expression, Call) and expression.function == "somepath"
    return tuple(labels) if is_path else tuple(sorted(labels))


class _Evaluator:
    """Evaluates expressions over one graph."""

    def __init__(self, text: str, graph: Graph):
        self._text = text
        self._graph = graph

    def labels(self, expression: Expression, variables: Mapping[str, Labels]) -> Labels:
        if isinstance(expression, Word):
            return self._word(expression, variables)
        if isinstance(expression, Set):
            return dict.fromkeys(label for word in expression.words for label in self._word(word, variables))
        if isinstance(expression, Let):
            value = self.labels(expression.value, variables)
            return self.labels(expression.body, {**variables, expression.name: value})
        if isinstance(expression, Operation):
            return self._operation(expression, variables)
        return self._call(expression, variables)

    def _word(self, word: Word, variables: Mapping[str, Labels]) -> Labels:
        if word.text.startswith("$"):
            return variables[word.text[1:]]
        return dict.fromkeys(self._graph.patterns[word.text])

    def _operation(self, operation: Operation, variables: Mapping[str, Labels]) -> Labels:
        left = self.labels(operation.left, variables)
        right = self.labels(operation.right, variables)
        if operation.operator == "+":
            return {**left, **right}
        keep = operation.operator == "^"
        return {label: None for label in left if (label in right) == keep}

    def _call(self, call: Call, variables: Mapping[str, Labels]) -> Labels:
        arguments: list[Any] = []
        kinds = _SIGNATURES[call.function].replace("?", "")
        for kind, argument in zip(kinds, call.arguments):
            if kind == "x":
                arguments.append(self.labels(argument, variables))
            else:
                assert isinstance(argument, Word)
                arguments.append(int(argument.text) if kind == "n" else argument)
        return getattr(self, f"_{call.function}")(*arguments)

    def _deps(self, labels: Labels, depth: int | None = None) -> Labels:
        return _reach(labels, self._graph.dependencies, depth)

    def _rdeps(self, universe: Labels, labels: Labels, depth: int | None = None) -> Labels:
        within = self._deps(universe)
        users = self._users(within)
        return _reach((label for label in labels if label in within), lambda label: users.get(label, ()), depth)

    def _allpaths(self, start: Labels, end: Labels) -> Labels:
        return self._rdeps(start, end)

    def _somepath(self, start: Labels, end: Labels) -> Labels:
        came_from: dict[Label, Label | None] = dict.fromkeys(start)
        queue = list(start)
        for label in queue:
            if label in end:
                path = [label]
                while (before := came_from[path[-1]]) is not None:
                    path.append(before)
                return dict.fromkeys(reversed(path))
            for dependency in self._graph.dependencies(label):
                if dependency not in came_from:
                    came_from[dependency] = label
                    queue.append(dependency)
        return {}

    def _users(self, within: Iterable[Label]) -> dict[Label, list[Label]]:
        users: dict[Label, list[Label]] = {}
        for label in within:
            for dependency in self._graph.dependencies(label):
                users.setdefault(dependency, []).append(label)
        return users

    def _kind(self, pattern: Word, labels: Labels) -> Labels:
        return self._matching(pattern, labels, lambda label: (_kind_of(self._graph.node(label)),))

    def _filter(self, pattern: Word, labels: Labels) -> Labels:
        return self._matching(pattern, labels, lambda label: (str(label),))

    def _attr(self, name: Word, pattern: Word, labels: Labels) -> Labels:
        def texts(label: Label) -> tuple[str, ...]:
            node = self._graph.node(label)
            if isinstance(node, Target) and name.text in node.attributes:
                return (attribute_text(node.attributes[name.text]),)
            return ()

        return self._matching(pattern, labels, texts)

    def _matching(self, pattern: Word, labels: Labels, texts: Callable[[Label], Iterable[str]]) -> Labels:
        try:
            expression = re.compile(pattern.text)
        except re.error as error:
            raise query_error(
                self._text, f"'{pattern.text}' is not a regular expression: {error}", pattern.offset, len(pattern.text)
            ) from None
        return {label: None for label in labels if any(expression.search(text) for text in texts(label))}

    def _labels(self, name: Word, labels: Labels) -> Labels:
        found: Labels = {}
        for label in labels:
            node = self._graph.node(label)
            value = node.attributes.get(name.text) if isinstance(node, Target) else None
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Label):
                    found[item] = None
        return found

    def _tests(self, labels: Labels) -> Labels:
        return {
            label: None
            for label in labels
            if isinstance(node := self._graph.node(label), Target) and node.schema.is_test
        }


def _reach(start: Iterable[Label], next_of: Callable[[Label], Iterable[Label]], depth: int | None) -> Labels:
    """What is reached from `start`, itself included, in at most `depth` steps."""
    reached = dict.fromkeys(start)
    frontier = list(reached)
    while frontier and depth != 0:
        following = []
        for label in frontier:
            for other in next_of(label):
                if other not in reached:
                    reached[other] = None
                    following.append(other)
        frontier = following
        depth = None if depth is None else depth - 1
    return reached


def _kind_of(node: Target | SourceFile | GeneratedFile) -> str:
    if isinstance(node, Target):
        return f"{node.schema.name} rule"
    return "source file" if isinstance(node, SourceFile) else "generated file"


def attribute_text(value: Any) -> str:
    """An attribute's value as attr() sees it: lists as [a, b], booleans as 1 and 0."""
    if isinstance(value, tuple):
        return f"[{', '.join(attribute_text(item) for item in value)}]"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {attribute_text(item)}' for key, item in value.items())}}}"
    return "" if value is None else str(value)
