"""How an answer is printed."""

from __future__ import annotations

from .query import Answer


def render(answer: Answer, output: str) -> str:
    """The answer as text: `output` "label" gives a line per label, "graph" a graph in dot's language.

    Raises:
        ValueError: there is no such output.
    """
    if output == "label":
        return "".join(f"{label}\n" for label in answer.labels)
    if output != "graph":
        raise ValueError(f"no such output: {output}")
    lines = ["digraph query {", "  node [shape=box];"]
    lines += [f"  {_quoted(label)};" for label in answer.labels]
    lines += [
        f"  {_quoted(label)} -> {_quoted(dependency)};" for label in answer.labels for dependency in answer.edges[label]
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(label: object) -> str:
    text = str(label).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
