"""Dates as people write them, in several hundred formats, and which of them training may see.

Conventions: where all three parts are numbers, the order is day, month, year, or, with a
four-digit year in front, year, month, day. A two-digit year is of 1950 to 2049 (PIVOT_YEAR).
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

FIRST_DATE = datetime.date(1900, 1, 1)
LAST_DATE = datetime.date(2099, 12, 31)
PIVOT_YEAR = 1950  # two digits mean the year of the hundred years from here on
HELD_OUT_ONE_IN = 16

MONTHS = "January February March April May June July August September October November December".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third "
    "twenty-fourth twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"
).split()

Part = Callable[[datetime.date], str]


def _ordinal(date: datetime.date) -> str:
    last = date.day % 10 if date.day not in (11, 12, 13) else 0
    return f"{date.day}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


# How each part may be written; the key stands in a format's name.
DAY: dict[str, Part] = {
    "3": lambda date: f"{date.day}",
    "03": lambda date: f"{date.day:02}",
    "3rd": _ordinal,
    "third": lambda date: ORDINALS[date.day - 1],
}
MONTH: dict[str, Part] = {
    "3": lambda date: f"{date.month}",
    "03": lambda date: f"{date.month:02}",
    "March": lambda date: MONTHS[date.month - 1],
    "Mar": lambda date: MONTHS[date.month - 1][:3],
    "Mar.": lambda date: MONTHS[date.month - 1][: 4 if date.month == 9 else 3] + ("" if date.month == 5 else "."),
}
YEAR: dict[str, Part] = {
    "2021": lambda date: f"{date.year}",
    "'21": lambda date: f"'{date.year % 100:02}",
    "21": lambda date: f"{date.year % 100:02}",
}
WEEKDAY: dict[str, Part] = {
    "": lambda date: "",
    "Wednesday ": lambda date: f"{WEEKDAYS[date.weekday()]} ",
    "Wednesday, ": lambda date: f"{WEEKDAYS[date.weekday()]}, ",
    "Wed ": lambda date: f"{WEEKDAYS[date.weekday()][:3]} ",
    "Wed, ": lambda date: f"{WEEKDAYS[date.weekday()][:3]}, ",
}


@dataclass(frozen=True)
class Format:
    """One way to write a date: a pattern of {d}, {m}, {y}, and how each is written."""

    pattern: str
    day: str
    month: str
    year: str

    @property
    def name(self) -> str:
        """The format as it writes the third of March 2021."""
        return self.pattern.format(d=self.day, m=self.month, y=self.year)

    def write(self, date: datetime.date) -> str:
        """`date` in this format, without weekday or noise."""
        return self.pattern.format(d=DAY[self.day](date), m=MONTH[self.month](date), y=YEAR[self.year](date))

    def fits(self, date: datetime.date) -> bool:
        """Whether the format says all of `date`: two digits do not say the year 1900."""
        return self.year == "2021" or PIVOT_YEAR <= date.year < PIVOT_YEAR + 100


@dataclass(frozen=True)
class WrittenDate:
    """A date as written, and as ISO 8601."""

    text: str
    iso: str


def formats() -> list[Format]:
    """All formats, each once, always in the same order."""
    numbers, ordinals, words = ("3", "03"), ("3rd",), ("third",)
    names, years = ("March", "Mar", "Mar."), tuple(YEAR)
    families = (
        # (patterns, days, months, years)
        (("{d} {m} {y}", "{d} {m}, {y}"), numbers + ordinals + words, names, years),
        (("{d}-{m}-{y}", "{d}/{m}/{y}", "{d}{m}{y}"), numbers, ("March", "Mar"), ("2021", "21")),
        (("{d} of {m} {y}", "{d} of {m}, {y}"), ordinals + words, names, years),
        (("the {d} of {m} {y}", "the {d} of {m}, {y}", "the {d} day of {m}, {y}"), ordinals + words, names, years),
        (("{m} {d}, {y}", "{m} {d} {y}"), numbers + ordinals + words, names, years),
        (("{m} the {d}, {y}", "{m} the {d} {y}"), ordinals + words, names, years),
        (("{m}-{d}-{y}", "{m}/{d}/{y}"), numbers, ("March", "Mar"), ("2021",)),
        (("{y} {m} {d}", "{y}, {m} {d}", "{y} {d} {m}"), numbers + ordinals, names, ("2021",)),
        (("{y}-{m}-{d}", "{y}/{m}/{d}"), numbers, ("March", "Mar"), ("2021",)),
        (("{d}/{m}/{y}", "{d}-{m}-{y}", "{d}.{m}.{y}", "{d} {m} {y}", "{d}. {m}. {y}"), numbers, numbers, ("2021", "21")),
        (("{y}-{m}-{d}", "{y}/{m}/{d}", "{y}.{m}.{d}", "{y} {m} {d}"), numbers, numbers, ("2021",)),
        (("{y}{m}{d}",), ("03",), ("03",), ("2021",)),
    )
    return list(dict.fromkeys(
        Format(pattern, day, month, year)
        for patterns, *parts in families
        for pattern, day, month, year in itertools.product(patterns, *parts)
    ))  # fmt: skip


def is_held_out(text: str) -> bool:
    """Whether training must not see `text`, nor what differs from it by case, space and punctuation only."""
    plain = "".join(character for character in text.lower() if character.isalnum())
    return hashlib.sha256(plain.encode()).digest()[0] % HELD_OUT_ONE_IN == 0


def written_dates(seed: int, *, held_out: bool) -> Iterator[WrittenDate]:
    """Endless random dates in random formats with some noise; only held-out ones, or none of them."""
    choose = random.Random(seed)
    all_formats = formats()
    day_count = (LAST_DATE - FIRST_DATE).days + 1
    weekdays = list(WEEKDAY)
    while True:
        date = FIRST_DATE + datetime.timedelta(days=choose.randrange(day_count))
        form = choose.choice(all_formats)
        weekday = choose.choice(weekdays) if choose.random() < 0.3 else ""
        if not form.fits(date):
            continue
        text = _with_noise(WEEKDAY[weekday](date) + form.write(date), choose)
        if is_held_out(text) == held_out:
            yield WrittenDate(text, date.isoformat())


def _with_noise(text: str, choose: random.Random) -> str:
    """What hurried people do to case, space and punctuation; the date stays legible."""
    chance = choose.random()
    if chance < 0.2:
        text = text.lower()
    elif chance < 0.3:
        text = text.upper()
    if choose.random() < 0.1:
        text = text.replace(",", "")
    if choose.random() < 0.05:
        text = text.replace(" ", "  ", 1)
    if choose.random() < 0.05:
        text = f" {text}"
    if choose.random() < 0.05:
        text += choose.choice((".", ",", " "))
    return text
