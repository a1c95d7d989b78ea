"""Inner tensors by live range: never two in one place at a time, and little waste."""

from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.lower.memory.placement import live_bytes, place_spans


@st.composite
def spans(draw):
    first = draw(st.integers(0, 30))
    return first, first + draw(st.integers(0, 12)), 64 * draw(st.integers(1, 40))


@settings(max_examples=300, deadline=None)
@given(st.lists(spans(), max_size=30))
def test_spans_that_meet_in_time_do_not_overlap(found):
    offsets, peak = place_spans(found)
    for i, (first, last, size) in enumerate(found):
        assert offsets[i] >= 0
        assert offsets[i] + size <= peak
        for j, (other_first, other_last, other_size) in enumerate(found[:i]):
            if first <= other_last and other_first <= last:
                apart = offsets[i] + size <= offsets[j]
                assert apart or offsets[j] + other_size <= offsets[i]
    assert live_bytes(found) <= peak <= sum(size for _, _, size in found)
