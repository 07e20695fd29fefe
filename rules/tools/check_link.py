"""Says what a program must be linked with: the delegates that its models need, and no others.

Usage: check_link QUESTION.json ARGUMENTS.rsp

The question lists the models' reports, the backends that they may use, and the libraries that
carry these. The answer is a response file for the compiler driver.
"""

from __future__ import annotations

import json
import sys
from typing import Any


class LinkError(Exception):
    """What cannot be linked as asked, and what to do; shown as it is."""


def delegate_arguments(question: dict[str, Any], reports: dict[str, dict[str, Any]]) -> list[str]:
    """The linker's arguments for the libraries of all delegates in `reports` (by path).

    Raises:
        LinkError: a delegate without a library, or with two.
    """
    needed: set[str] = set()
    for model in question["models"]:
        for delegate in reports[model["report"]]["delegates"]:
            needed.update(_libraries_of(delegate, model["label"], question["backends"]))
    return [
        argument
        for library in question["libraries"]
        if library["label"] in needed
        for argument in library["arguments"]
    ]


def _libraries_of(delegate: str, model: str, backends: list[dict[str, Any]]) -> list[str]:
    """Labels of the libraries that carry `delegate`, which `model` needs."""
    carriers = [backend for backend in backends if backend["id"] == delegate]
    if not carriers:
        known = ", ".join(f"{backend['id']} ({backend['label']})" for backend in backends) or "none"
        raise LinkError(
            f"{model} needs delegate {delegate}, which no backend of its model provides\n"
            f"  note: backends of the linked models: {known}\n"
            f'  to fix: let an executorch_backend with id = "{delegate}" be named in the methods of the model'
        )
    with_runtime = [backend for backend in carriers if backend["libraries"] is not None]
    if not with_runtime:
        raise LinkError(
            f"{model} needs delegate {delegate}, but {carriers[0]['label']} names no library that carries it\n"
            f"  to fix: give {carriers[0]['label']} the attribute `runtime`"
        )
    first = with_runtime[0]
    for other in with_runtime[1:]:
        if other["libraries"] != first["libraries"]:
            raise LinkError(
                f"delegate {delegate}, which {model} needs, is registered by the libraries of both "
                f"{first['label']} and {other['label']}\n"
                "  to fix: let all models of the program use one of the two backends"
            )
    return first["libraries"]


def response_file(arguments: list[str]) -> str:
    """The text of a response file, one quoted argument per line, as GCC and Clang read it."""
    quoted = (argument.replace("\\", "\\\\").replace('"', '\\"') for argument in arguments)
    return "".join(f'"{argument}"\n' for argument in quoted)


def main(question_path: str, answer_path: str) -> int:
    """Answer one question; exit status 1 and a message where the answer is that it cannot be linked."""
    with open(question_path, encoding="utf-8") as file:
        question = json.load(file)
    reports = {}
    for model in question["models"]:
        with open(model["report"], encoding="utf-8") as file:
            reports[model["report"]] = json.load(file)
    try:
        arguments = delegate_arguments(question, reports)
    except LinkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    with open(answer_path, "w", encoding="utf-8") as file:
        file.write(response_file(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
