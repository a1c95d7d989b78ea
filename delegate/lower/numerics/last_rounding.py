"""OUT_CVT's rounding on a board whose OUT_CVT rounds ties to even only.

TensorFlow Lite's last rounding goes half away from zero. Without that, a scale that is larger by
2^-14 moves every tie away from zero, on both sides of it, and nothing else as long as values keep
below 2^14 steps of what they come in: then the results are the same. Elsewhere the plain scale may
be nearer. Which of the two is taken, and whether it is near enough, is the prover's to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from delegate.lower.numerics.pipeline import Pipeline

_LEAST_SCALE, _LARGEST_SCALE = 1 << 14, (1 << 15) - 1
_MOST_SHIFT = 63


def last_roundings(pipeline: Pipeline, *, has_ties_away: bool) -> Iterator[Pipeline]:
    """``pipeline`` itself where the board ``has_ties_away``; else what may stand for it."""
    if has_ties_away:
        yield pipeline
        return
    out = replace(pipeline.out, ties_away=False)
    if out.shift == 0:
        yield replace(pipeline, out=out)  # there is nothing to round
        return
    scale, shift = out.scale, out.shift
    while scale < _LEAST_SCALE and shift < _MOST_SHIFT:
        scale, shift = 2 * scale, shift + 1
    if _LEAST_SCALE <= scale < _LARGEST_SCALE:
        yield replace(pipeline, out=replace(out, scale=scale + 1, shift=shift))
    yield replace(pipeline, out=out)
