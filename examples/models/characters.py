"""Text to token ids and back: a token is an ASCII code, so an app needs no vocabulary file."""

from __future__ import annotations

from collections.abc import Sequence

VOCABULARY_SIZE = 128
PADDING = 0x00  # NUL
START = 0x02  # STX: what the decoder is given before its first character
END = 0x03  # ETX: what it emits after its last

MAX_SOURCE_LENGTH = 64
TARGET_LENGTH = len("2021-03-03") + 1  # with END


def encode_text(text: str) -> list[int]:
    """The token ids of `text`.

    Raises:
        ValueError: the text is empty, too long for the encoder, or not printable ASCII.
    """
    if not 1 <= len(text) <= MAX_SOURCE_LENGTH:
        raise ValueError(f"a date has 1 to {MAX_SOURCE_LENGTH} characters, not {len(text)}: {text!r}")
    if not (text.isascii() and text.isprintable()):
        raise ValueError(f"a date is printable ASCII: {text!r}")
    return list(text.encode("ascii"))


def decode_text(tokens: Sequence[int]) -> str:
    """The text before the first END."""
    tokens = list(tokens)
    if END in tokens:
        tokens = tokens[: tokens.index(END)]
    return bytes(tokens).decode("ascii")
