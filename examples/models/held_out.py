"""The dates that the model is judged by, which training never saw: `python held_out.py` prints them."""

from __future__ import annotations

from written_dates import WrittenDate, written_dates

COUNT = 2000
SEED = 1


def held_out_dates() -> list[WrittenDate]:
    """COUNT dates, always the same, of different texts, none of which training can draw."""
    different: dict[WrittenDate, None] = {}
    for date in written_dates(SEED, held_out=True):
        different[date] = None
        if len(different) == COUNT:
            break
    return list(different)


if __name__ == "__main__":
    for date in held_out_dates():
        print(f"{date.text}\t{date.iso}")
