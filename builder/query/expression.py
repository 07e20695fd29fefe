"""Query expressions as values; `str()` of one is an expression that parses to the same value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Union

# A word that needs no quotes, and the words that must have them.
PLAIN_WORD = re.compile(r"[A-Za-z0-9/@._:$~\[\]][A-Za-z0-9/@._:$~\[\]*-]*")
RESERVED = ("let", "in", "set", "union", "intersect", "except")

# Both spellings of each operator. All bind equally, to the left.
OPERATORS = {"+": "union", "^": "intersect", "-": "except"}


@dataclass(frozen=True)
class Word:
    """A target pattern, a name, a number or a regular expression. `offset` is where it stands in the text."""

    text: str
    offset: int = field(default=0, compare=False)

    def __str__(self) -> str:
        if PLAIN_WORD.fullmatch(self.text) and self.text not in RESERVED:
            return self.text
        quote = "'" if '"' in self.text else '"'
        return f"{quote}{self.text}{quote}"


@dataclass(frozen=True)
class Set:
    """`set(a b c)`: target patterns."""

    words: tuple[Word, ...]

    def __str__(self) -> str:
        return f"set({' '.join(map(str, self.words))})"


@dataclass(frozen=True)
class Call:
    """`deps(x, 2)`: a function of expressions and words."""

    function: str
    arguments: tuple[Expression, ...]
    offset: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class Operation:
    """`a + b`: `operator` is one of the keys of OPERATORS."""

    operator: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        # Operators bind to the left, and `let` takes all that follows it, also what follows this operation.
        left = f"({self.left})" if isinstance(self.left, Let) else str(self.left)
        right = f"({self.right})" if isinstance(self.right, (Operation, Let)) else str(self.right)
        return f"{left} {self.operator} {right}"


@dataclass(frozen=True)
class Let:
    """`let v = a in b`: in `b`, `$v` stands for `a`."""

    name: str
    value: Expression
    body: Expression

    def __str__(self) -> str:
        return f"let {self.name} = {self.value} in {self.body}"


Expression = Union[Word, Set, Call, Operation, Let]
