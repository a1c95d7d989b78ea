"""The oracle for large models equals the reference kernels, element by element."""

import numpy as np
import pytest

from rk3588_conformance import reference
from rk3588_conformance.execution import prepare, tflite_outputs
from rk3588_conformance.families import case_names
from rk3588_conformance.gtest_filter import Filter, sampled
from rk3588_conformance.reference.arithmetic import quantize_multiplier
from tests.loops import for_each

# What both can run: no groups, no PAD, and FULLY_CONNECTED of any rank only per tensor. Functions,
# concatenations, slices and reshapes are small: the kernels themselves are always asked, as of
# sparse weights. fp16 is judged by its bounds.
COMMON = Filter.parse(
    "*-ConvGroups*:ConvFilters*:Padding*:PoolPyramids*:"
    "DenseShapes*keep_num_dims_1*per_channel:*weight_size_5*padding_same_0*:"
    "Function*:Edges*body_values:Edges.Float*:Edges.Bytes*:"
    "Joins*:Cuts*:EdgeMoves*:Splits*:UnevenSplits*:Packs*:Reorders*:Reshapes*:*Dimensions*:Measured*:Half*:*type_fp16*:"
    "Sparse*:Shuffles*:ChannelsFirst*:TransposesOfRank*:PartsOfRank*:FunctionsOfRank*curve*:FunctionsOfRank*clamp*:"
    "JoinedConstants*:TurnedProduct*:RealFunctions*"
)
SIZE_LIMIT_MACS = 300_000_000


def _generated():
    """Names of models that are made here; those of files are absent without a folder of them."""
    return (name for name in case_names(None) if not name.startswith("Models."))


WITHOUT_REFERENCE = ("DilatedBlocks.", "DenseBehindImage.")
"""Families whose operators no file of the reference computes: TensorFlow Lite alone judges them."""


@pytest.fixture(scope="module")
def sample() -> list[str]:
    return sampled([name for name in _generated() if COMMON.selects(name)], 400, seed=11)


def test_numpy_equals_the_reference_kernels(sample):
    compared = 0
    for name in sample:
        prepared = prepare(name, None)
        if reference.macs(prepared.graph) > SIZE_LIMIT_MACS:
            continue
        if name.startswith(WITHOUT_REFERENCE):
            continue
        assert reference.supports(prepared.graph), name
        ours = reference.compute(prepared.graph, prepared.inputs)
        for mine, theirs in zip(ours, tflite_outputs(prepared), strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=name)
        compared += 1
    assert compared > 300


@pytest.mark.parametrize("size", [80, 112])
@pytest.mark.parametrize("test", ["Op", "PerChannel"])
def test_numpy_equals_the_reference_kernels_on_large_convolutions(size, test):
    name = (
        f"Add.{test}/input_size_{size}_weight_size_3_input_channels_32_output_channels_32_"
        "stride_1_padding_same_1_is_signed_1"
    )
    prepared = prepare(name, None)
    (ours,) = reference.compute(prepared.graph, prepared.inputs)
    np.testing.assert_array_equal(ours, tflite_outputs(prepared)[0])


@for_each("real", [1e-11, 0.3, 0.5, 1 - 2**-33, 1.0, 1.9, 100.0])
def test_multipliers_are_mantissa_and_exponent(real):
    mantissa, exponent = quantize_multiplier(real)
    assert mantissa == 0 or 2**30 <= mantissa < 2**31
    assert mantissa * 2.0 ** (exponent - 31) == pytest.approx(real, rel=2**-30, abs=2**-32)
