"""Hand-made tasks, encoded, dumped and run on the simulator, against NumPy: bit for bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from delegate.lower.numerics.pipeline import OutConvert
from delegate.lower.task import BnStage, BsStage, EwStage, Source
from tests.loops import for_each
from tests.npu import oracle
from tests.npu.sample_tasks import align, conv_task, per_channel
from tests.npu.simulated import Constants, layer, random_int8, run_and_compare

pytest.importorskip("delegate._native", reason="the native module is not built")


def dense_case(rng, *, h, w, c, oc, kh, kw, oh, ow, stride=1, dilation=1, pad_top=0, pad_left=0):
    """Input, weights, packed weights, geometry for the task and the sums."""
    x, weights = random_int8(rng, h, w, c), random_int8(rng, oc, kh, kw, c)
    geometry = {
        "h": h,
        "w": w,
        "c": c,
        "oc": oc,
        "kh": kh,
        "kw": kw,
        "oh": oh,
        "ow": ow,
        "stride": stride,
        "dilation": dilation,
        "pad_top": pad_top,
        "pad_left": pad_left,
        "pad_value": -7,
    }
    patches = oracle.windows(x, kh, kw, oh, ow, stride, dilation, pad_top, pad_left, -7)
    return x, weights, geometry, patches


SHAPES = {
    "3x3 same": {
        "h": 9,
        "w": 7,
        "c": 32,
        "oc": 24,
        "kh": 3,
        "kw": 3,
        "oh": 9,
        "ow": 7,
        "pad_top": 1,
        "pad_left": 1,
    },
    "5x3 stride 2": {
        "h": 11,
        "w": 13,
        "c": 16,
        "oc": 40,
        "kh": 5,
        "kw": 3,
        "oh": 6,
        "ow": 7,
        "stride": 2,
        "pad_top": 2,
        "pad_left": 1,
    },
    "dilated 2": {
        "h": 12,
        "w": 10,
        "c": 48,
        "oc": 32,
        "kh": 3,
        "kw": 2,
        "oh": 8,
        "ow": 8,
        "dilation": 2,
    },
    "1x1 of one pixel": {"h": 1, "w": 1, "c": 64, "oc": 33, "kh": 1, "kw": 1, "oh": 1, "ow": 1},
    "1x1 wide": {"h": 2, "w": 37, "c": 112, "oc": 66, "kh": 1, "kw": 1, "oh": 2, "ow": 37},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_dense_per_tensor_with_weight_zero_point(shape):
    rng = np.random.default_rng(1)
    x, weights, geometry, patches = dense_case(rng, **shape)
    oc = geometry["oc"]
    bias = rng.integers(-20000, 20000, oc)
    constants = Constants()
    operands = constants.add(oracle.pack_bias(bias, align(oc, 32)))
    out = OutConvert(0x5A31, 25, 9)
    task = conv_task(
        **geometry,
        bs=BsStage(alu=Source.MEMORY, ow=Source.REGISTER, ow_operand=-3, operands=operands),
        weights=constants.add(oracle.pack_dense(weights)),
        out=out,
    )
    products, sums = oracle.dense(patches, weights)
    expected = oracle.out_convert(oracle.bs_stage(products - 3 * sums, alu=bias), out)
    assert np.unique(expected).size > 20
    run_and_compare(
        [layer("conv", task)],
        constants,
        [(x, align(geometry["c"], 16) // 16)],
        [(expected, align(oc, 32) // 16)],
    )


@pytest.mark.parametrize("shape", list(SHAPES.values())[:3], ids=list(SHAPES)[:3])
def test_dense_per_channel_with_relu6(shape):
    rng = np.random.default_rng(2)
    x, weights, geometry, patches = dense_case(rng, **shape)
    oc = geometry["oc"]
    bias = rng.integers(-20000, 20000, oc)
    mul = rng.integers(1, 0x4000, oc)
    weight_sums = rng.integers(-9, 10, oc)
    constants = Constants()
    operands = constants.add(oracle.pack_blocks(bias, weight_sums, mul, align(oc, 32)))
    out = OutConvert(0x7001, 23, -100, ties_away=True)
    bn = BnStage(relu=True, relux_max=60000)
    task = conv_task(
        **geometry,
        bs=per_channel(operands),
        bn=bn,
        weights=constants.add(oracle.pack_dense(weights)),
        out=out,
    )
    products, sums = oracle.dense(patches, weights)
    scaled = oracle.bs_stage(products + weight_sums * sums, bias, mul, 14, 14)
    expected = oracle.out_convert(oracle.bn_stage(scaled, relu=True, relux_max=60000), out)
    assert np.unique(expected).size > 20
    run_and_compare(
        [layer("conv", task)],
        constants,
        [(x, align(geometry["c"], 16) // 16)],
        [(expected, align(oc, 32) // 16)],
    )


@for_each("c", [16, 32, 80])
@for_each("stride", [1, 2])
def test_depthwise_per_channel(c, stride):
    rng = np.random.default_rng(3)
    h, w, oh, ow = 9, 11, -(-9 // stride), -(-11 // stride)
    x, weights = random_int8(rng, h, w, c), random_int8(rng, 3, 3, c)
    bias, mul = rng.integers(-3000, 3000, c), rng.integers(1, 0x4000, c)
    zero_points = rng.integers(-5, 6, c)
    constants = Constants()
    operands = constants.add(oracle.pack_blocks(bias, zero_points, mul, align(c, 64)))
    out = OutConvert(0x6123, 21, 4)
    task = conv_task(
        h=h,
        w=w,
        c=c,
        oc=c,
        oh=oh,
        ow=ow,
        stride=stride,
        pad_value=5,
        depthwise=True,
        bs=per_channel(operands),
        weights=constants.add(oracle.pack_depthwise(weights)),
        out=out,
    )
    patches = oracle.windows(x, 3, 3, oh, ow, stride, 1, 1, 1, 5)
    products, sums = oracle.depthwise(patches, weights)
    scaled = oracle.bs_stage(products + zero_points * sums, bias, mul, 14, 14)
    expected = oracle.out_convert(scaled, out)
    assert np.unique(expected).size > 20
    run_and_compare(
        [layer("depthwise", task)],
        constants,
        [(x, align(c, 16) // 16)],
        [(expected, align(c, 64) // 16)],
    )


@pytest.mark.parametrize("summand", [None, 123_456_789])
@pytest.mark.parametrize("source", [Source.REGISTER, Source.MEMORY])
def test_a_bn_multiplier_and_a_register_operand(source, summand):
    """BN's summand is in units of the product."""
    rng = np.random.default_rng(7)
    x, weights, geometry, patches = dense_case(rng, **SHAPES["3x3 same"])
    oc = geometry["oc"]
    bias = rng.integers(-20000, 20000, oc)
    constants = Constants()
    operands = constants.add(oracle.pack_bias(bias, 32))
    if source is Source.MEMORY:
        mul = rng.integers(-0x4000, 0x4000, oc)
        place = constants.add(np.resize(mul, 32).astype("<i2").tobytes())
        bn = BnStage(mul=source, shift=13, shift_negative=12, operands=place)
    else:
        mul = 0x3210
        bn = BnStage(mul=source, mul_operand=mul, shift=13, shift_negative=12)
    bn = dataclasses.replace(bn, alu_operand=summand)
    out = OutConvert(0x4777, 24, 0)
    task = conv_task(
        **geometry,
        bs=BsStage(alu=Source.MEMORY, operands=operands),
        bn=bn,
        ew=EwStage(register_operand=-777, relu=True),
        weights=constants.add(oracle.pack_dense(weights)),
        out=out,
    )
    products, _ = oracle.dense(patches, weights)
    scaled = oracle.bn_stage(oracle.bs_stage(products, bias), summand or 0, mul, 13, 12)
    expected = oracle.out_convert(np.maximum(scaled - 777, 0), out)
    assert np.unique(expected).size > 20
    run_and_compare([layer("conv", task)], constants, [(x, 2)], [(expected, 2)])


@pytest.mark.parametrize("h", [1, 6])
def test_a_tile_of_columns_is_a_window_of_wider_rows(h):
    """GROUP_LINE_OFF and its units: the tile's rows are parts of the map's."""
    rng = np.random.default_rng(h)
    x, weights, geometry, _ = dense_case(
        rng, h=h, w=9, c=48, oc=32, kh=1, kw=2, oh=h, ow=5, pad_left=0
    )
    first, width = 2, 6
    constants = Constants()
    bias = rng.integers(-20000, 20000, 32)
    out = OutConvert(0x5A31, 25, 9)
    task = conv_task(
        **(geometry | {"w": width}),
        bs=BsStage(alu=Source.MEMORY, operands=constants.add(oracle.pack_bias(bias, 32))),
        weights=constants.add(oracle.pack_dense(weights)),
        out=out,
    )
    whole = conv_task(**geometry).feature
    feature = dataclasses.replace(
        whole,
        source=whole.source.moved(first * 16),
        width=width,
        entries_per_row=task.feature.entries_per_row,
    )
    products, _ = oracle.dense(
        oracle.windows(x[:, first : first + width], 1, 2, h, 5, 1, 1, 0, 0, 0), weights
    )
    expected = oracle.out_convert(oracle.bs_stage(products, bias), out)
    assert np.unique(expected).size > 20
    tile = dataclasses.replace(task, feature=feature)
    run_and_compare([layer("conv", tile)], constants, [(x, 3)], [(expected, 2)])
