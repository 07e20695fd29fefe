"""Reads the code blocks of a Markdown file, for tests that do what the file says."""

from __future__ import annotations

import re
from pathlib import Path


def blocks(file: Path, heading: str) -> list[tuple[str, str]]:
    """(language, code) of each fenced block below the heading `heading`, up to the next heading."""
    found: list[tuple[str, str]] = []
    inside, language, code = False, None, ""
    for line in file.read_text().splitlines(keepends=True):
        if language is not None:
            if line.startswith("```"):
                found += [(language, code)] if inside else []
                language = None
            else:
                code += line
        elif line.startswith("```"):
            language, code = line[3:].strip(), ""
        elif title := re.match(r"#+ (.*)", line):
            inside = title.group(1).strip() == heading
    if not found:
        raise LookupError(f"{file.name} has no code below a heading {heading!r}")
    return found
