"""The committed weights against dates that training never saw, and the data against its own promises."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from dates import EncoderDecoder
from greedy import normalize
from held_out import held_out_dates
from safetensors.torch import load_file
from written_dates import FIRST_DATE, LAST_DATE, formats, is_held_out, written_dates

WEIGHTS = Path(__file__).with_name("dates.safetensors")


@pytest.fixture(scope="module")
def model() -> EncoderDecoder:
    torch.set_num_threads(1)
    model = EncoderDecoder()
    model.load_state_dict(load_file(WEIGHTS))
    return model.eval()


def test_at_least_98_percent_of_2000_held_out_dates_are_exact(model: EncoderDecoder) -> None:
    dates = held_out_dates()
    answers = normalize(model, [date.text for date in dates])
    exact = sum(answer == date.iso for answer, date in zip(answers, dates))
    assert len(dates) == 2000
    assert exact / len(dates) >= 0.98


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("3rd of March 2021", "2021-03-03"),
        ("March 3, 2021", "2021-03-03"),
        ("the twenty-first day of February, '99", "1999-02-21"),
        ("Wed, 3 Mar. 21", "2021-03-03"),
        ("31/12/49", "2049-12-31"),
        ("01.02.50", "1950-02-01"),
        ("20210303", "2021-03-03"),
    ],
)
def test_dates_as_people_write_them(model: EncoderDecoder, text: str, iso: str) -> None:
    assert normalize(model, [text]) == [iso]


def test_the_checkpoint_is_at_most_one_megabyte() -> None:
    assert WEIGHTS.stat().st_size <= 1_000_000


def test_held_out_dates_are_different_and_always_the_same() -> None:
    texts = [date.text for date in held_out_dates()]
    assert len(set(texts)) == len(texts)
    assert texts == [date.text for date in held_out_dates()]


def test_training_never_sees_a_held_out_text() -> None:
    held_out = {date.text for date in held_out_dates()}
    training = {date.text for date in itertools.islice(written_dates(0, held_out=False), 50_000)}
    assert all(is_held_out(text) for text in held_out)
    assert not held_out & training


def test_there_are_several_hundred_formats() -> None:
    assert len({form.name for form in formats()}) >= 300


def test_no_two_dates_are_written_alike_in_formats_that_fit_them() -> None:
    days = {FIRST_DATE.replace(year=year, day=day, month=month) for year in (1949, 1950, 2003, 2010, 2049, 2050)
            for month in (1, 3, 10, 12) for day in (1, 3, 10, 19, 20)}  # fmt: skip
    meaning: dict[str, str] = {}
    for date in sorted(days | {FIRST_DATE, LAST_DATE}):
        for form in formats():
            if form.fits(date):
                text = form.write(date)
                assert meaning.setdefault(text, date.isoformat()) == date.isoformat(), (form.name, text)
