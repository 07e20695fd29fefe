"""Planning of the arena: what lives at the same time lies apart, and memory is reused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rules_executorch.backends.reference.arena import ALIGNMENT, Lifetime, plan

LIFETIMES = st.lists(
    st.builds(
        lambda first, steps, nbytes: Lifetime(first, first + steps, nbytes),
        st.integers(0, 30), st.integers(0, 9), st.integers(0, 200),
    ),
    max_size=25,
)


@given(LIFETIMES)
def test_values_alive_together_do_not_overlap(lifetimes: list[Lifetime]) -> None:
    offsets, size = plan(dict(enumerate(lifetimes)))
    for a, first in enumerate(lifetimes):
        assert offsets[a] % ALIGNMENT == 0
        assert offsets[a] + first.nbytes <= size
        for b, second in enumerate(lifetimes[:a]):
            if first.first <= second.last and second.first <= first.last:
                assert offsets[a] + first.nbytes <= offsets[b] or offsets[b] + second.nbytes <= offsets[a]


def test_a_chain_takes_two_slots() -> None:
    chain = {step: Lifetime(step, step + 1, 64) for step in range(100)}
    assert plan(chain)[1] == 128
