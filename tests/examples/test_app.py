"""The app normalize_date: the model in a C++ program, on the official runtime."""

from __future__ import annotations

import subprocess

import pytest
import torch
from safetensors.torch import load_file

from .conftest import MODELS, ROOT, Monorepo


def test_build_run_prints_the_date(monorepo: Monorepo) -> None:
    result = monorepo.build("run", "//apps:normalize_date", "--", "3rd of March 2021")
    assert result.stdout == "2021-03-03\n"


def test_all_2000_held_out_dates_are_read_as_the_python_model_reads_them(
    monorepo: Monorepo, example_modules: None
) -> None:
    from dates import EncoderDecoder
    from greedy import normalize
    from held_out import held_out_dates

    torch.set_num_threads(1)
    model = EncoderDecoder()
    model.load_state_dict(load_file(MODELS / "dates.safetensors"))
    texts = [date.text for date in held_out_dates()]
    result = monorepo.run_app(stdin="\n".join(texts) + "\n")
    assert result.returncode == 0, result.stderr
    assert len(texts) == 2000
    assert result.stdout.splitlines() == normalize(model, texts)


def test_several_dates_are_answered_in_order(monorepo: Monorepo) -> None:
    result = monorepo.run_app("3 Mar 2021", "the 21st of February, '99", "20491231")
    assert (result.returncode, result.stdout, result.stderr) == (0, "2021-03-03\n1999-02-21\n2049-12-31\n", "")


def test_no_input_is_no_answer(monorepo: Monorepo) -> None:
    result = monorepo.run_app(stdin="")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_last_line_without_an_end_counts(monorepo: Monorepo) -> None:
    assert monorepo.run_app(stdin="3 Mar 2021\n4 Mar 2021").stdout == "2021-03-03\n2021-03-04\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a date has 1 to 64 characters"),
        ("3" * 65, "a date has 1 to 64 characters"),
        ("3 März 2021", "a date is printable ASCII"),
        ("3\tMar 2021", "a date is printable ASCII"),
    ],
)
def test_what_cannot_be_a_date_is_named_and_the_others_are_answered(
    monorepo: Monorepo, text: str, message: str
) -> None:
    result = monorepo.run_app("3 Mar 2021", text, "4 Mar 2021")
    assert result.returncode == 1
    assert result.stdout == "2021-03-03\n2021-03-04\n"
    assert result.stderr == f'normalize_date: "{text}": {message}\n'


def test_the_longest_and_the_shortest_date_fit_the_model(monorepo: Monorepo) -> None:
    for text in ("7", "3 Mar 2021".ljust(64)):
        assert "characters" not in monorepo.run_app(text).stderr


def test_an_answer_that_cannot_be_written_is_an_error(monorepo: Monorepo) -> None:
    program = monorepo.root / "build-out" / "apps" / "normalize_date"
    with open("/dev/full", "w") as full:
        result = subprocess.run([program, "3 Mar 2021"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (2, "normalize_date: cannot write the answers\n")


def test_help_says_how_it_is_used(monorepo: Monorepo) -> None:
    result = monorepo.run_app("--help")
    assert result.returncode == 0
    assert result.stdout.startswith("usage: normalize_date [DATE ...]\n")


def test_the_program_holds_no_path_of_this_machine(monorepo: Monorepo) -> None:
    content = (monorepo.root / "build-out" / "apps" / "normalize_date").read_bytes()
    for folder in (monorepo.root, monorepo.cache, ROOT):
        assert str(folder).encode() not in content


def test_nothing_of_python_is_linked(monorepo: Monorepo) -> None:
    program = monorepo.root / "build-out" / "apps" / "normalize_date"
    listing = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    assert "libpython" not in listing
