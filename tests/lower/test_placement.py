"""Inner tensors by live range: never two in one place at a time, and little waste."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.lower.memory.placement import Span, live_bytes, place_spans


@st.composite
def spans(draw):
    first = draw(st.integers(0, 30))
    return Span(first, first + draw(st.integers(0, 12)), 64 * draw(st.integers(1, 40)))


@settings(max_examples=300, deadline=None)
@given(st.lists(spans(), max_size=30))
def test_spans_that_meet_in_time_do_not_overlap(found):
    offsets, peak = place_spans(found)
    for i, a in enumerate(found):
        assert offsets[i] >= 0
        assert offsets[i] + a.size_bytes <= peak
        for j, b in enumerate(found[:i]):
            if a.first <= b.last and b.first <= a.last:
                apart = offsets[i] + a.size_bytes <= offsets[j]
                assert apart or offsets[j] + b.size_bytes <= offsets[i]
    assert live_bytes(found) <= peak <= sum(span.size_bytes for span in found)
