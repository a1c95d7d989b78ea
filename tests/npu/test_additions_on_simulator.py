"""Hand-made additions, alone and fused, encoded and run on the simulator, against NumPy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from delegate.lower.lowered import Layer
from delegate.lower.numerics.pipeline import OutConvert
from delegate.lower.task import BsStage, BufferId, EwStage, Ref, Source
from tests.loops import for_each
from tests.machine.dpu_arithmetic import half_even
from tests.npu import oracle
from tests.npu.sample_tasks import add_task, align, conv_task, surface_bytes
from tests.npu.simulated import Constants, layer, random_int8, run_and_compare

pytest.importorskip("delegate._native", reason="the native module is not built")


@for_each("relu", [False, True])
@for_each("depthwise", [False, True])
def test_a_fused_operand_is_added_per_pixel(relu, depthwise):
    rng = np.random.default_rng(4)
    h, w, c = 7, 9, 64
    x, other = random_int8(rng, h, w, c), random_int8(rng, h, w, c)
    patches = oracle.windows(x, 3, 3, h, w, 1, 1, 1, 1, -7)
    constants = Constants()
    bias = rng.integers(-3000, 3000, c)
    operands = constants.add(oracle.pack_bias(bias, c))
    pitch = surface_bytes(h, w)
    if depthwise:
        weights = random_int8(rng, 3, 3, c)
        place, (products, _) = (
            constants.add(oracle.pack_depthwise(weights)),
            oracle.depthwise(patches, weights),
        )
    else:
        weights = random_int8(rng, c, 3, 3, c)
        place, (products, _) = (
            constants.add(oracle.pack_dense(weights)),
            oracle.dense(patches, weights),
        )
    ew = EwStage(
        operand=Ref(BufferId.INPUT, pitch * c // 16),
        surface_stride_bytes=pitch,
        offset=12,
        scale=0x4D21,
        shift=8,
        relu=relu,
    )
    out = OutConvert(0x5A31, 21 if depthwise else 24, -20)
    task = conv_task(
        h=h,
        w=w,
        c=c,
        oc=c,
        pad_value=-7,
        depthwise=depthwise,
        bs=BsStage(alu=Source.MEMORY, ow=Source.REGISTER, operands=operands),
        weights=place,
        ew=ew,
        out=out,
    )
    summed = oracle.bs_stage(products, bias) + half_even((other.astype(np.int64) + 12) * 0x4D21, 8)
    expected = oracle.out_convert(np.maximum(summed, 0) if relu else summed, out)
    assert np.unique(expected).size > 20
    run_and_compare(
        [layer("conv add", task)],
        constants,
        [(x, c // 16), (other, c // 16)],
        [(expected, c // 16)],
    )


@for_each("c", [16, 48, 21])
def test_elementwise_addition(c):
    rng = np.random.default_rng(5)
    h, w = 5, 11
    a, b = random_int8(rng, h, w, c), random_int8(rng, h, w, c)
    surfaces = align(c, 16) // 16
    out = OutConvert(0x5221, 30, 3)
    task = add_task(
        h=h,
        w=w,
        c=c,
        b=Ref(BufferId.INPUT, surfaces * surface_bytes(h, w)),
        bs=BsStage(
            alu=Source.REGISTER,
            alu_operand=17,
            mul=Source.REGISTER,
            mul_operand=0x4321,
            shift=1,
            shift_negative=1,
        ),
        ew=EwStage(
            operand=Ref(BufferId.INPUT, surfaces * surface_bytes(h, w)),
            surface_stride_bytes=surface_bytes(h, w),
            offset=-4,
            scale=0x6543,
            shift=2,
        ),
        out=out,
    )
    left = oracle.bs_stage(a, 17, 0x4321, 1, 1)
    right = half_even((b.astype(np.int64) - 4) * 0x6543, 2)
    expected = oracle.out_convert(left + right, out)
    assert np.unique(expected).size > 20
    run_and_compare(
        [layer("add", task)], Constants(), [(a, surfaces), (b, surfaces)], [(expected, surfaces)]
    )


def test_row_tiles_with_reused_weights_then_an_addition():
    """8 x 6 x 16 in tiles of 5 and 3 rows through SCRATCH, then added to the input."""
    rng = np.random.default_rng(6)
    h, w, c = 8, 6, 16
    pitch = surface_bytes(h, w)
    x, weights = random_int8(rng, h, w, c), random_int8(rng, c, 3, 3, c)
    bias = rng.integers(-3000, 3000, c)
    constants = Constants()
    operands = constants.add(oracle.pack_bias(bias, 32))
    place = constants.add(oracle.pack_dense(weights))
    bs = BsStage(alu=Source.MEMORY, ow=Source.REGISTER, operands=operands)
    out = OutConvert(0x5A31, 22, 1)

    def tile(first, rows, in_first, in_rows, reuse):
        task = conv_task(
            h=in_rows,
            w=w,
            c=c,
            oc=c,
            oh=rows,
            ow=w,
            pad_top=1 if first == 0 else 0,
            pad_value=-7,
            source=Ref(BufferId.INPUT, in_first * w * 16),
            target=Ref(BufferId.SCRATCH, first * w * 16),
            weights=place,
            bs=bs,
            out=out,
            weight_reuse=reuse,
        )
        return dataclasses.replace(
            task,
            feature=dataclasses.replace(task.feature, surface_stride_bytes=pitch),
            output=dataclasses.replace(task.output, surface_stride_bytes=pitch),
        )

    tiles = (tile(0, 5, 0, 6, False), tile(5, 3, 4, 4, True))
    add_out = OutConvert(0x4000, 27, 0)
    add = add_task(h=h, w=w, c=c, a=Ref(BufferId.SCRATCH, 0), b=Ref(BufferId.INPUT, 0), out=add_out)
    patches = oracle.windows(x, 3, 3, h, w, 1, 1, 1, 1, -7)
    middle = oracle.out_convert(oracle.bs_stage(oracle.dense(patches, weights)[0], bias), out)
    left = oracle.bs_stage(middle, 3, 0x4000, 2, 2)
    right = half_even((x.astype(np.int64) - 7) * 0x5000, 1)
    expected = oracle.out_convert(left + right, add_out)
    assert np.unique(expected).size > 20
    layers = [layer("conv", *tiles), Layer("add", "ADD", (1,), (add,))]
    run_and_compare(layers, constants, [(x, 1)], [(expected, 1)], scratch=2 * pitch)
