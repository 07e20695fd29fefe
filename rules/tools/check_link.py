"""Says what a program must be linked with: the delegates and kernels that its models need, and no others.

Usage: check_link QUESTION.json ARGUMENTS.rsp

The question lists the models' reports, the backends that they may use, the libraries of kernels that
there are, the libraries that carry these, and libraries of toolchains. The answer is a response file
for the compiler driver.
"""

from __future__ import annotations

import fnmatch
import json
import os
import sys
from typing import Any


class LinkError(Exception):
    """What cannot be linked as asked, and what to do; shown as it is."""


def needed_libraries(question: dict[str, Any], reports: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the question's libraries that carry delegates and kernels of `reports` (by path), in their order.

    Raises:
        LinkError: a delegate without a library, or with two; a kernel without one.
    """
    needed: set[str] = set()
    for model in question["models"]:
        for delegate in reports[model["report"]]["delegates"]:
            needed.update(_libraries_of(delegate, model["label"], question["backends"]))
    carriers = [library for library in question["libraries"] if library["label"] in needed]
    needed.update(_libraries_of_kernels(question, reports, carriers))
    return [library for library in question["libraries"] if library["label"] in needed]


def _libraries_of_kernels(
    question: dict[str, Any], reports: dict[str, dict[str, Any]], carriers: list[dict[str, Any]]
) -> set[str]:
    """Labels of the libraries to link for kernels that what is linked anyway, and `carriers`, do not register.

    Where no library at all says what it registers, nothing is known, and nothing is needed.
    """
    known = {each["label"]: _names(each["kernels"]) for each in (*question["kernels"], *carriers) if each["kernels"]}
    further = {each["label"]: _names(each["kernels"]) for each in question["kernel_libraries"]}
    if not known and not further:
        return set()
    linked: set[str] = set().union(*known.values())
    chosen: dict[str, None] = {}
    for model in question["models"]:
        for kernel in sorted({*reports[model["report"]]["operators"]} - linked):
            library = next((label for label in (*chosen, *further) if kernel in further[label]), None)
            if library is None:
                raise _missing_kernel(kernel, model["label"], {**known, **further})
            chosen[library] = None
    libraries = {each["label"]: each["libraries"] for each in question["kernel_libraries"]}
    return {label for library in chosen for label in libraries[library]}


def _missing_kernel(kernel: str, model: str, registered: dict[str, set[str]]) -> LinkError:
    sizes = ", ".join(f"{label} ({len(names)})" for label, names in registered.items())
    return LinkError(
        f"{model} calls kernel {kernel}, which no library registers\n"
        f"  note: libraries that say which kernels they register: {sizes}\n"
        "  to fix: link the cc_library that registers it, and name a file that lists it in that library's `kernels`; "
        "or leave its set out of the model's `operators`, and delegate or rewrite what calls it"
    )


def _names(paths: list[str]) -> set[str]:
    """The kernels that files list, one a line."""
    names: set[str] = set()
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines = (line.strip() for line in file)
            names.update(line for line in lines if line and not line.startswith("#"))
    return names


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


def toolchain_arguments(patterns: list[str], toolchain_folder: str, program: str) -> list[str]:
    """Arguments that link shared libraries of toolchains, and let `program` (an exec_path) find them.

    It finds them beside itself in its runfiles, or at the root of the folder that it runs in. A
    pattern with wildcards stands for all files that match it, in the order of their names.

    Raises:
        LinkError: a library named without wildcards is not there.
    """
    roots = [f"{os.path.basename(program)}.runfiles", "/".join([".."] * program.count("/"))]
    arguments: dict[str, None] = {}
    for pattern in patterns:
        folder, _, file_pattern = pattern.rpartition("/")
        present = os.path.join(toolchain_folder, folder)
        names = sorted(os.listdir(present)) if os.path.isdir(present) else []
        matches = fnmatch.filter(names, file_pattern)
        if not matches and not set("*?[") & set(file_pattern):
            raise LinkError(
                f"there is no toolchain library {pattern}\n"
                f"  note: {folder} holds {', '.join(names[:20]) or 'nothing'}\n"
                "  to fix: mend the name in `toolchain_libraries`, or name its toolchain in `toolchains`"
            )
        for name in matches:
            # By name rather than by path, so that the program looks for it in its runpath.
            arguments.setdefault(f"-L{toolchain_folder}/{folder}")
            arguments.setdefault(f"-l:{name}")
            for root in roots:
                arguments.setdefault(f"-Wl,-rpath,$ORIGIN/{root}/.toolchain/{folder}")
    if not arguments:
        return []
    # Libraries that only delegates refer to must stay, wherever those stand in the line.
    return ["-Wl,--push-state,--no-as-needed", *arguments, "-Wl,--pop-state"]


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
        libraries = needed_libraries(question, reports)
        patterns = [path for library in libraries for path in library["toolchain_libraries"]]
        arguments = [argument for library in libraries for argument in library["arguments"]]
        arguments += toolchain_arguments(
            patterns + question["toolchain_libraries"], ".toolchain", question["program"]
        )
    except LinkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    with open(answer_path, "w", encoding="utf-8") as file:
        file.write(response_file(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
