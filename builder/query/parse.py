"""Text → query expression."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..core.diagnostics import Diagnostic, Location, UsageError
from .expression import OPERATORS, PLAIN_WORD, RESERVED, Call, Expression, Let, Operation, Set, Word

# How deep an expression may be nested: far more than anyone writes, and what can be evaluated safely.
_DEEPEST = 100
_MOST_OPERATORS = 200

_TOKEN = re.compile(
    rf"""\s* (?: (?P<quoted> "[^"]*" | '[^']*' ) | (?P<word> {PLAIN_WORD.pattern} )
           | (?P<symbol> [()+^,=-] ) | (?P<other> \S ) )""",
    re.VERBOSE,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SYMBOLS = {name: symbol for symbol, name in OPERATORS.items()}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    offset: int


def parse(text: str) -> Expression:
    """The expression that a text means.

    Raises:
        UsageError: it means none.
    """
    parser = _Parser(text)
    expression = parser.expression()
    if parser.next is not None:
        raise parser.error(
            f"'{parser.next.text}' is not expected here", "put an operator (+, ^, -) between expressions"
        )
    return expression


def query_error(
    text: str, message: str, offset: int, span: int = 1, *, notes: tuple[str, ...] = (), remedy: str | None = None
) -> UsageError:
    """A mistake in the expression `text`."""
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    lines = text.split("\n")
    return UsageError(Diagnostic(message, Location("query", line, column), lines[line - 1], span, notes, remedy))


class _Parser:
    """A recursive-descent parser. `next` is the token to be read, None at the end."""

    def __init__(self, text: str):
        self.text = text
        self._tokens = []
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or ""
            token = _Token(kind, match.group(kind), match.start(kind))
            if kind == "other":
                what = (
                    "this quote is not closed" if token.text in "\"'" else f"'{token.text}' has no meaning in a query"
                )
                raise query_error(text, what, token.offset, remedy="put words with special characters in quotes")
            self._tokens.append(token)
        self._position = 0
        self._depth = 0
        self._operators = 0

    @property
    def next(self) -> _Token | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def error(self, message: str, remedy: str | None = None) -> UsageError:
        """A mistake at the next token."""
        token = self.next
        offset = token.offset if token else len(self.text.rstrip())
        return query_error(self.text, message, offset, len(token.text) if token else 1, remedy=remedy)

    def expression(self) -> Expression:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self.error(f"the expression is nested more than {_DEEPEST} deep")
        if self._next_is("let"):
            expression: Expression = self._let()
        else:
            expression = self._primary()
            while (operator := self._operator()) is not None:
                self._operators += 1
                if self._operators > _MOST_OPERATORS:
                    raise self.error(f"more than {_MOST_OPERATORS} operators", "name many targets with set(a b c)")
                self._position += 1
                expression = Operation(operator, expression, self._primary())
        self._depth -= 1
        return expression

    def _operator(self) -> str | None:
        token = self.next
        if token is None or token.kind == "quoted":
            return None
        return token.text if token.text in OPERATORS else _SYMBOLS.get(token.text)

    def _primary(self) -> Expression:
        token = self.next
        if token is None:
            raise self.error("an expression is missing here", "write a target pattern, such as //...")
        if self._next_is("("):
            self._position += 1
            expression = self.expression()
            self._expect(")")
            return expression
        if self._next_is("let"):
            return self._let()
        if self._next_is("set"):
            return self._set()
        if token.kind == "symbol" or (token.kind == "word" and token.text in RESERVED):
            raise self.error(f"an expression is expected here, not '{token.text}'")
        self._position += 1
        if token.kind == "word" and self._next_is("("):
            return self._call(token)
        return _word(token)

    def _call(self, name: _Token) -> Call:
        self._expect("(")
        arguments = [self.expression()]
        while self._next_is(","):
            self._position += 1
            arguments.append(self.expression())
        self._expect(")")
        return Call(name.text, tuple(arguments), name.offset)

    def _set(self) -> Set:
        self._position += 1
        self._expect("(")
        words = []
        while self.next is not None and self.next.kind in ("word", "quoted"):
            words.append(_word(self.next))
            self._position += 1
        self._expect(")")
        return Set(tuple(words))

    def _let(self) -> Let:
        self._position += 1
        token = self.next
        if token is None or token.kind != "word" or not _VARIABLE.fullmatch(token.text) or token.text in RESERVED:
            raise self.error("a variable's name is expected after 'let'", "write let x = … in … $x …")
        self._position += 1
        self._expect("=")
        value = self.expression()
        self._expect("in")
        return Let(token.text, value, self.expression())

    def _next_is(self, text: str) -> bool:
        token = self.next
        return token is not None and token.kind != "quoted" and token.text == text

    def _expect(self, text: str) -> None:
        if not self._next_is(text):
            raise self.error(f"'{text}' is expected here")
        self._position += 1


def _word(token: _Token) -> Word:
    return Word(token.text[1:-1] if token.kind == "quoted" else token.text, token.offset)
