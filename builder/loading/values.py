"""Attribute values: from what Starlark passed to what a rule declares, with each select() resolved."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..core.diagnostics import nearest
from ..core.label import Label, LabelSyntaxError, check_target_name
from ..core.rule import Attribute, AttributeType

# How deep plain data may be nested.
_DEEPEST = 50

_MARK = re.compile("\1select:([0-9]+)\1")

# What an attribute has where a BUILD file, and its declaration, say nothing.
_EMPTY: dict[AttributeType, Any] = {
    AttributeType.STRING: "",
    AttributeType.BOOL: False,
    AttributeType.STRING_LIST: (),
    AttributeType.STRING_DICT: {},
    AttributeType.LABEL_LIST: (),
    AttributeType.OUTPUT_LIST: (),
}

_AS_LABEL = 'write "//package:name", or ":name" for one in this package'

_TYPE_NAMES = {str: "string", bool: "bool", int: "int", float: "float", list: "list", tuple: "tuple", dict: "dict"}


class WrongValue(ValueError):
    """A value that an attribute cannot have. `text` is the string in it that is wrong, if one is."""

    def __init__(self, message: str, text: str | None = None, remedy: str | None = None):
        super().__init__(message)
        self.text = text
        self.remedy = remedy


class Unresolved(Exception):
    """A select() of which no branch holds: reported already."""


def empty_value(attribute: Attribute) -> Any:
    """What an attribute is where nobody says."""
    return _EMPTY.get(attribute.type)


def has_select(value: Any, depth: int = 0) -> bool:
    """Whether a select() is in a value, or in what is nested in it no deeper than plain data may be."""
    if isinstance(value, str):
        return "\1" in value
    if not isinstance(value, (list, tuple, dict)) or depth > _DEEPEST:
        return False
    # A loop rather than any(): this is asked of every attribute of every target.
    for item in value:
        if ("\1" in item) if isinstance(item, str) else has_select(item, depth + 1):
            return True
    return isinstance(value, dict) and has_select(list(value.values()), depth + 1)


def resolve_selects(value: Any, choose: Callable[[int], Any], depth: int = 0) -> Any:
    """The value, with what `choose` gives for the number of each select() in its place.

    Raises:
        WrongValue: a select gives what its surroundings cannot hold.
    """
    if isinstance(value, str):
        whole = _MARK.fullmatch(value)
        if whole:
            return _chosen(int(whole.group(1)), choose)
        return _MARK.sub(lambda match: _string(_chosen(int(match.group(1)), choose)), value)
    if depth > _DEEPEST:
        return value
    if isinstance(value, (list, tuple)):
        return _resolve_list(value, choose, depth)
    return _resolve_dict(value, choose, depth) if isinstance(value, dict) else value


def _resolve_list(value: list[Any] | tuple[Any, ...], choose: Callable[[int], Any], depth: int) -> list[Any] | None:
    items: list[Any] = []
    for item in value:
        mark = _MARK.fullmatch(item) if isinstance(item, str) else None
        if mark is None:
            items.append(resolve_selects(item, choose, depth + 1))
            continue
        chosen = _chosen(int(mark.group(1)), choose)
        if chosen is None and len(value) == 1:
            return None
        if not isinstance(chosen, (list, tuple)):
            raise WrongValue(f"a branch of this select() is {describe(chosen)}, where others are lists")
        items.extend(chosen)
    return items


def _resolve_dict(value: dict[Any, Any], choose: Callable[[int], Any], depth: int) -> dict[Any, Any] | None:
    entries: dict[Any, Any] = {}
    for key, item in value.items():
        mark = _MARK.fullmatch(key) if isinstance(key, str) else None
        if mark is None:
            entries[key] = resolve_selects(item, choose, depth + 1)
            continue
        chosen = _chosen(int(mark.group(1)), choose)
        if chosen is None and len(value) == 1:
            return None
        if not isinstance(chosen, dict):
            raise WrongValue(f"a branch of this select() is {describe(chosen)}, where others are dicts")
        entries.update(chosen)
    return entries


def _chosen(number: int, choose: Callable[[int], Any]) -> Any:
    chosen = choose(number)
    if has_select(chosen):
        raise WrongValue("a select() inside a select()", remedy="add selects to one another with '+' instead")
    return chosen


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongValue(f"a branch of this select() is {describe(value)}, where others are strings")
    return value


def convert(attribute: Attribute, value: Any, parse_label: Callable[[str], Label]) -> Any:
    """A value of the attribute's type: tuples for lists, Labels for labels.

    Raises:
        WrongValue: it is of another type, or not among the attribute's values, or not a label.
    """
    if attribute.may_repeat:
        converted = _to_label_list(value, parse_label, may_repeat=True)
    else:
        converted = _CONVERTERS[attribute.type](value, parse_label)
    if attribute.values:
        for text in (converted,) if isinstance(converted, str) else converted:
            if text not in attribute.values:
                near = nearest(text, attribute.values) or attribute.values[0]
                raise WrongValue(f"'{text}' is not one of {', '.join(attribute.values)}", text, f'write "{near}"')
    return converted


def describe(value: Any) -> str:
    """A value, as a message names it: its type and the value itself, if it is short."""
    if value is None:
        return "None"
    kind = _TYPE_NAMES.get(type(value), type(value).__name__)
    shown = repr(value)
    return f"the {kind} {shown}" if len(shown) <= 40 else f"a {kind}"


def _to_string(value: Any, _: Callable[[str], Label]) -> str:
    if not isinstance(value, str):
        raise WrongValue(f"expected a string, not {describe(value)}", remedy="write a string in quotes")
    return value


def _to_bool(value: Any, _: Callable[[str], Label]) -> bool:
    if value is not True and value is not False and value not in (0, 1):
        raise WrongValue(f"expected True or False, not {describe(value)}")
    return bool(value)


def _to_int(value: Any, _: Callable[[str], Label]) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongValue(f"expected an int, not {describe(value)}")
    return value


def _to_string_list(value: Any, _: Callable[[str], Label]) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        fix = f"write [{value!r}]".replace("'", '"') if isinstance(value, str) else None
        raise WrongValue(f"expected a list of strings, not {describe(value)}", remedy=fix)
    for item in value:
        if not isinstance(item, str):
            raise WrongValue(f"expected a list of strings, but it holds {describe(item)}")
    return tuple(value)


def _to_string_dict(value: Any, _: Callable[[str], Label]) -> dict[str, str]:
    if not isinstance(value, dict):
        raise WrongValue(f"expected a dict of strings, not {describe(value)}")
    for key, item in value.items():
        for part in (key, item):
            if not isinstance(part, str):
                raise WrongValue(f"expected a dict of strings, but it holds {describe(part)}")
    return dict(value)


def _to_label(value: Any, parse_label: Callable[[str], Label]) -> Label:
    if not isinstance(value, str):
        raise WrongValue(f"expected a label, not {describe(value)}", remedy=_AS_LABEL)
    try:
        return parse_label(value)
    except LabelSyntaxError as error:
        raise WrongValue(str(error), value, _AS_LABEL) from None


def _to_label_list(value: Any, parse_label: Callable[[str], Label], may_repeat: bool = False) -> tuple[Label, ...]:
    if not isinstance(value, (list, tuple)):
        fix = f"write [{value!r}]".replace("'", '"') if isinstance(value, str) else None
        raise WrongValue(f"expected a list of labels, not {describe(value)}", remedy=fix)
    labels: dict[Label, str] = {}
    for item in value:
        label = _to_label(item, parse_label)
        if label in labels and not may_repeat:
            raise WrongValue(f"{label} is listed twice", item, "remove one of the two")
        labels[label] = item
    return tuple(labels)


def _to_output_list(value: Any, parse_label: Callable[[str], Label]) -> tuple[str, ...]:
    names = _to_string_list(value, parse_label)
    for name in names:
        try:
            check_target_name(name, name)
        except LabelSyntaxError:
            raise WrongValue(f"'{name}' is not the path of a file in this package", name) from None
    return names


def plain(value: Any, depth: int = 0) -> Any:
    """Plain data, with tuples for lists.

    Raises:
        WrongValue: it holds something else, or is nested too deeply.
    """
    if depth > _DEEPEST:
        raise WrongValue(f"the value is nested more than {_DEEPEST} deep")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(plain(item, depth + 1) for item in value)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise WrongValue(f"the keys of a dict must be strings, not {describe(key)}")
        return {key: plain(item, depth + 1) for key, item in value.items()}
    raise WrongValue(f"expected strings, numbers, booleans, None, lists and dicts, not {describe(value)}")


_CONVERTERS: Mapping[AttributeType, Callable[[Any, Callable[[str], Label]], Any]] = {
    AttributeType.STRING: _to_string,
    AttributeType.BOOL: _to_bool,
    AttributeType.INT: _to_int,
    AttributeType.STRING_LIST: _to_string_list,
    AttributeType.STRING_DICT: _to_string_dict,
    AttributeType.LABEL: _to_label,
    AttributeType.LABEL_LIST: _to_label_list,
    AttributeType.OUTPUT_LIST: _to_output_list,
    AttributeType.PLAIN: lambda value, _: plain(value),
}
