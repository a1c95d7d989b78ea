"""QUANTIZE of float32 on the host by each runtime's rule, on any processor: the bytes of an oracle
that computes in float64, where products are exact and quotients round to float32 as if they were.
"""

import platform

import numpy as np
import pytest

from delegate.model.graph import DType
from rk3588_conformance.edge_grid import float_values
from tests.loops import for_each

_native = pytest.importorskip("delegate._native", reason="the native module is not built")

INT32 = np.iinfo(np.int32)
LIMITS = {DType.INT8: (-128, 127), DType.UINT8: (0, 255)}
RULES = {
    "x86-64": (False, False),
    "aarch64": (False, True),
    "aarch64, unsafe math": (True, True),
    "x86-64, unsafe math": (True, False),
}
# What a processor that flushes subnormals agrees on: neither a scale nor its reciprocal is one.
SCALES = (3e-30, 3.1e-5, 0.003, 0.1, 1 / 3, 0.5, 1.0, 7.3, 217.0, 8e37)


def quantized(
    values: np.ndarray, scale: float, zero_point: int, dtype: DType, rule: str, portable: bool
) -> np.ndarray:
    host = values.astype("<f4").view(np.uint8)
    device = _native.quantize(host, scale, zero_point, dtype.name.lower(), RULES[rule], portable)
    return device.view(np.int8).astype(np.int64) + (128 if dtype is DType.UINT8 else 0)


def expected(
    values: np.ndarray, scale: float, zero_point: int, dtype: DType, rule: str
) -> np.ndarray:
    multiplies, saturates = RULES[rule]
    divisor, wide = np.float64(np.float32(scale)), values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        reciprocal = np.float64(np.float32(1 / divisor))
        steps = (wide * reciprocal if multiplies else wide / divisor).astype(np.float32)
    found = []
    for step in steps.tolist():
        if np.isfinite(step) and abs(step) < 2.0**31:
            whole = int(abs(step) + 0.5) * (1 if step > 0 else -1)
        elif saturates:
            whole = 0 if np.isnan(step) else INT32.max if step > 0 else INT32.min
        else:
            whole = INT32.min
        total = (whole + zero_point - INT32.min) % 2**32 + INT32.min
        found.append(min(max(total, LIMITS[dtype][0]), LIMITS[dtype][1]))
    return np.array(found)


def sample(scale: float, zero_point: int, dtype: DType) -> np.ndarray:
    rng = np.random.default_rng(zero_point + 128)
    with np.errstate(over="ignore", under="ignore"):
        drawn = (rng.normal(0, 90, 100) * scale).astype(np.float32)
    values = np.concatenate([float_values(scale, zero_point, dtype), drawn])
    subnormal = (values != 0) & (np.abs(values) < np.float32(2.0**-126))
    return np.unique(values[~subnormal])


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", LIMITS)
def test_every_rule_is_the_oracles(dtype: DType, rule: str, portable: bool) -> None:
    low, high = LIMITS[dtype]
    for scale in SCALES:
        for zero_point in (low, low + 5, high):
            values = np.random.default_rng(3).permutation(sample(scale, zero_point, dtype))
            found = quantized(values, scale, zero_point, dtype, rule, portable)
            wanted = expected(values, scale, zero_point, dtype, rule)
            np.testing.assert_array_equal(found, wanted, f"scale {scale}, zero {zero_point}")


@pytest.mark.parametrize("portable", [False, True])
def test_a_sum_wraps_in_company_of_others_that_do_not(portable: bool) -> None:
    """2^31 - 128 has an int32, which the zero point lifts beyond all; so on the other side."""
    for rule in RULES:
        for step, zero_point in ((2.0**31 - 128, 127), (2.0**31 - 128, 128), (-(2.0**31), -1)):
            dtype = DType.UINT8 if zero_point == 128 else DType.INT8
            values = np.array([1, step, *[2] * 30], np.float32)
            found = quantized(values, 1.0, zero_point, dtype, rule, portable)
            wanted = expected(values, 1.0, zero_point, dtype, rule)
            np.testing.assert_array_equal(found, wanted)
            assert found[1] == {127: 127, 128: 0, -1: 127}[zero_point]


def test_the_rules_differ_where_they_say() -> None:
    """A product that is a tie where the quotient is below it; infinity; NaN."""
    values = np.array([13.849999, np.inf, np.nan], np.float32)
    given = [quantized(values, 0.1, 5, DType.INT8, rule, False).tolist() for rule in RULES]
    assert given == [[127, -128, -128], [127, -128, 5], [127, -128, 5], [127, -128, -128]]
    values = np.array([4.45, -4.45, 9.15], np.float32)
    given = [quantized(values, 0.1, 0, DType.INT8, rule, False).tolist() for rule in RULES]
    assert given[0] == given[1] == [44, -44, 91]
    assert given[2] == given[3] == [45, -45, 92]


@for_each("count", [0, 1, 3, 7, 15, 16, 17, 31, 33, 511, 513, 1027])
def test_no_size_has_another_rule_at_its_end(count: int) -> None:
    rng = np.random.default_rng(count)
    for rule in RULES:
        values = rng.choice(sample(0.1, 3, DType.INT8), count)
        found = [
            quantized(values, 0.1, 3, DType.INT8, rule, portable) for portable in (False, True)
        ]
        np.testing.assert_array_equal(*found)
        np.testing.assert_array_equal(found[0], expected(values, 0.1, 3, DType.INT8, rule))


def test_the_processor_decides_what_is_no_int32() -> None:
    assert _native.quantize_rule()[1] == (platform.machine() == "aarch64")
    if platform.machine() != "aarch64":
        assert not _native.quantize_rule()[0]
