"""Lines of one int8 value: every result is the function's, by arithmetic of fractions."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from delegate.lower.numerics.lines import lines_of
from delegate.lower.numerics.pipeline import Pipeline
from delegate.lower.numerics.tflite import INT8_VALUES, quantize_multiplier, scaled

LARGEST = 2**15 - 1


def _half_even(value: Fraction) -> int:
    return round(value)  # Python rounds fractions half to even


def _results(pipeline: Pipeline) -> list[int]:
    """Return what BS and OUT_CVT make of -128 to 127, as the documents have them."""
    found = []
    for x in range(-128, 128):
        t = x + int(pipeline.bs.add)
        t = max(t, 0) if pipeline.bs.relu else t
        t = t if pipeline.bs.relux is None else min(t, pipeline.bs.relux)
        scale, shift = pipeline.out.scale, pipeline.out.shift
        result = _half_even(Fraction(t * scale, 2**shift)) + pipeline.out.offset
        found.append(max(-128, min(127, result)))
    return found


def _requantized(rng: random.Random) -> np.ndarray:
    """Return a QUANTIZE as the kernel computes it, with a RELU6 or half of one by chance."""
    multiplier = quantize_multiplier(2.0 ** rng.uniform(-6, 5))
    zero, other = rng.randint(-128, 127), rng.randint(-128, 127)
    results = np.clip(scaled(INT8_VALUES - zero, *multiplier) + other, -128, 127)
    low = other if rng.random() < 0.5 else -128
    return np.clip(results, low, rng.choice([127, rng.randint(low, 127)]))


@pytest.mark.parametrize("seed", range(8))
def test_pipelines_of_requantisations_give_every_result(seed):
    rng = random.Random(seed)
    found = 0
    for _ in range(60):
        function = _requantized(rng)
        for pipeline in lines_of(function.astype(np.int8).tobytes()):
            assert _results(pipeline) == function.tolist()
            assert 0 < pipeline.out.scale <= LARGEST
            assert 0 <= pipeline.out.shift < 64
            found += 1
    assert found >= 40  # most; with some, bounds leave no scale of 15 bits


@pytest.mark.parametrize(
    "function",
    [
        INT8_VALUES * 0,
        -INT8_VALUES - 1,
        np.abs(INT8_VALUES).clip(0, 127),
        INT8_VALUES**2 // 128 - 64,
        np.rint(127 * np.tanh(INT8_VALUES / 40)),
        np.where(INT8_VALUES < 0, INT8_VALUES // 4, INT8_VALUES),
        np.where(INT8_VALUES == 3, 4, INT8_VALUES),
    ],
    ids=["constant", "falling", "abs", "square", "tanh", "leaky", "one value off"],
)
def test_what_is_no_line_is_none(function):
    assert not lines_of(np.asarray(function).astype(np.int8).tobytes())


def test_clamps_are_asked_for_where_they_are_needed():
    """BS clamps inside int8; at its ends OUT_CVT saturates, so nothing clamps there."""
    relu6 = np.clip(INT8_VALUES, -3, 80).astype(np.int8).tobytes()
    assert [(one.bs.relu, one.bs.relux) for one in lines_of(relu6)] == [(True, 83)]
    relu = np.maximum(INT8_VALUES, 5).astype(np.int8).tobytes()
    assert (lines_of(relu)[0].bs.relu, lines_of(relu)[0].bs.relux) == (True, None)
    assert not lines_of(INT8_VALUES.astype(np.int8).tobytes())[0].bs.relu
