"""What takes long to find out, kept from build to build for as long as what it was found from is the same."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def remembered(file: Path | None, found_from: Any, find: Callable[[], Any]) -> Any:
    """What `find` returns, which is plain data: without calling it where `file` holds what it returned for `found_from`.

    `found_from`, plain data, is all that the answer depends on. Without a file nothing is remembered; one that is
    damaged, or cannot be written, is no more than that. What `find` raises, and None, are not remembered.
    """
    if file is None:
        return find()
    key = json.dumps(found_from)
    with contextlib.suppress(OSError, ValueError):
        digest, _, text = file.read_text().partition("\n")
        if digest == _digest(text):
            data = json.loads(text)
            if data["found_from"] == key:
                return data["answer"]
    answer = find()
    if answer is not None:
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary = file.with_name(f".{file.name}-{os.getpid()}")
            text = json.dumps({"found_from": key, "answer": answer})
            temporary.write_text(f"{_digest(text)}\n{text}")
            os.replace(temporary, file)
    return answer


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
