"""Programs for RK3576: a hundred random convolutions against a second reading of the registers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from delegate.chip.register_model import Access
from delegate.chip.rk3576 import RK3576
from delegate.chip.rk3588 import RK3588
from delegate.errors import EncodingError
from delegate.lower.numerics.pipeline import EwOperation, OutConvert
from delegate.lower.task import (
    BnStage,
    BsStage,
    BufferId,
    CbufPlan,
    ConvTask,
    EwStage,
    FeatureInput,
    OutputCube,
    Ref,
    Source,
    Weights,
)
from delegate.npu.disasm import assemble, disassemble
from delegate.npu.regcmd import encode_task
from tests.loops import for_each
from tests.npu.rk3576_oracle import Layer, entries_of_row, registers

CASES = range(100)


def conv_layer(seed: int) -> Layer:
    """A tile that fits: odd sizes, strides, dilation, padding on every side."""
    rng = np.random.default_rng(seed)
    is_depthwise = bool(seed % 2)
    while True:
        kernel, stride = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        dilation = int(rng.integers(1, 3)) if kernel > 1 else 1
        reach = (kernel - 1) * dilation + 1
        blocks = int(rng.choice([1, 2, 4, 5, 6, 8, 12]))
        channels = 16 * blocks
        kernels = channels if is_depthwise else 32 * int(rng.integers(1, 9))
        width, rows = int(rng.integers(1, 120)), int(rng.integers(1, 60))
        left, top = int(rng.integers(0, reach)), int(rng.integers(0, reach))
        right, bottom = int(rng.integers(0, reach)), int(rng.integers(0, reach))
        if width + left + right < reach or rows + top + bottom < reach:
            continue
        if entries_of_row(width, channels) * rows <= 4096 and kernel**2 * channels <= 4608:
            break
    out_width = (width + left + right - reach) // stride + 1
    out_rows = (rows + top + bottom - reach) // stride + 1
    whole = out_width * (out_rows + int(rng.integers(0, 9)))
    return Layer(
        is_depthwise=is_depthwise,
        channels=channels,
        kernels=kernels,
        kernel=kernel,
        stride=stride,
        dilation=dilation,
        left=left,
        top=top,
        pad_value=int(rng.integers(-128, 128)),
        in_width=width,
        in_rows=rows,
        in_full_pixels=width * (rows + int(rng.integers(0, 9))),
        out_width=out_width,
        out_rows=out_rows,
        out_full_pixels=-(-whole // 4) * 4 if is_depthwise else whole,
        limits=(0, int(rng.integers(1, 1 << 20))) if seed % 3 else None,
        scale=int(rng.integers(1 << 14, 1 << 15)),
        shift=int(rng.integers(0, 40)),
        offset=int(rng.integers(-128, 128)),
        addresses={
            offset: 64 * int(rng.integers(1, 1 << 20))
            for offset in (0x1088, 0x1110, 0x4018, 0x5020, 0x5024)
        },
        second_core=bool(rng.integers(0, 2)),
    )


def conv_task(n: Layer) -> ConvTask:
    def place(offset: int) -> Ref:
        return Ref(BufferId.SCRATCH, n.addresses[offset])

    per_kernel = n.kernel**2 * n.channels
    group = 64 if n.is_depthwise else 32
    return ConvTask(
        tile="",
        feature=FeatureInput(
            source=place(0x1088),
            height=n.in_rows,
            width=n.in_width,
            channels=n.channels,
            channels_real=n.channels,
            line_stride_bytes=16 * n.in_width,
            surface_stride_bytes=16 * n.in_full_pixels,
            entries_per_row=entries_of_row(n.in_width, n.channels),
            pad_top=n.top,
            pad_left=n.left,
            pad_value=n.pad_value,
        ),
        weights=Weights(
            place(0x1110),
            per_kernel * (2 if n.is_depthwise else n.kernels),
            2 * per_kernel if n.is_depthwise else per_kernel,
            1 if n.is_depthwise else n.kernels,
            n.kernel,
            n.kernel,
        ),
        cbuf=CbufPlan(4, 3, weight_reuse=False),
        output=OutputCube(
            target=place(0x4018),
            height=n.out_rows,
            width=n.out_width,
            channels=-(-n.kernels // group) * group,
            channels_real=n.kernels,
            surface_stride_bytes=16 * n.out_full_pixels,
            surfaces_per_group=group // 16,
        ),
        bs=BsStage(
            alu=Source.MEMORY,
            mul=Source.MEMORY,
            ow=Source.OFF if n.is_depthwise else Source.MEMORY,
            shift=14,
            shift_negative=14,
            operands=place(0x5020),
            scalars=place(0x5024),
        ),
        bn=BnStage() if n.limits is None else BnStage(relu=True, relux_max=n.limits[1]),
        out_convert=OutConvert(n.scale, n.shift, n.offset),
        strides=(n.stride, n.stride),
        dilations=(n.dilation, n.dilation),
        is_depthwise=n.is_depthwise,
        core=int(n.second_core),
    )


def _read(text: str) -> dict[int, int]:
    """Offsets and numbers of a disassembly; a register that is written twice must stay equal."""
    found: dict[int, int] = {}
    for word in assemble(text, RK3576.registers):
        offset, value = word & 0xFFFF, word >> 16 & 0xFFFFFFFF
        assert found.setdefault(offset, value) == value
        block = {1: 0x201, 3: 0x801, 4: 0x1001, 5: 0x2001}[offset >> 12]
        assert word >> 48 == block
    return found


@for_each("seed", CASES)
def test_programs_agree_with_a_second_reading_of_the_registers(seed):
    layer = conv_layer(seed)
    segment = encode_task(RK3576, "layer", conv_task(layer))
    text = disassemble(segment.words, RK3576.registers)
    assert "word 0x" not in text
    assert "RESERVED" not in text
    found, expected = _read(text), registers(layer)
    assert {hex(k): hex(v) for k, v in found.items()} == {
        hex(k): hex(v) for k, v in expected.items()
    }
    assert len(segment.words) == 139
    assert assemble(text, RK3576.registers) == segment.words


def test_registers_are_in_the_order_of_the_vendors_programs():
    words = encode_task(RK3576, "layer", conv_task(conv_layer(0))).words
    offsets = [word & 0xFFFF for word in words]
    assert offsets[:5] == [0x1004, 0x3004, 0x1038, 0x4004, 0x5004]
    assert offsets[5:] == sorted(offsets[5:])


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda t: replace(t, weights=replace(t.weights, kw=t.weights.kh + 1)), "kernels, strides"),
        (lambda t: replace(t, dilations=(1, 2)), "or dilations that differ"),
        (lambda t: replace(t, strides=(1, 2)), "or dilations that differ"),
        (lambda t: replace(t, spread=(2, 1)), "CONV_MODE"),
        (
            lambda t: replace(t, feature=replace(t.feature, line_stride_bytes=1 << 14)),
            "a part of the columns",
        ),
        (lambda t: replace(t, cbuf=CbufPlan(5, 2, weight_reuse=False)), "DATA_BANK"),
        (lambda t: replace(t, cbuf=CbufPlan(4, 3, weight_reuse=True)), "weights kept"),
        (lambda t: replace(t, output=replace(t.output, element_bytes=4)), "int32 results"),
        (lambda t: replace(t, bs=replace(t.bs, ow=Source.REGISTER)), "BS_CFG"),
        (lambda t: replace(t, bs=replace(t.bs, scalars=None)), "numbers of BS"),
        (lambda t: replace(t, bs=replace(t.bs, relu=True)), "BS_MIN"),
        (lambda t: replace(t, bn=BnStage(alu_operand=1)), "BN_CFG"),
        (lambda t: replace(t, ew=EwStage(operation=EwOperation.ADD)), "EW_CFG"),
        (lambda t: replace(t, out_convert=replace(t.out_convert, ties_away=True)), "OUT_CVT_SHIFT"),
    ],
)
def test_what_is_in_no_known_program_is_refused(change, place):
    encode_task(RK3576, "layer", conv_task(conv_layer(4)))
    with pytest.raises(EncodingError, match=place):
        encode_task(RK3576, "layer", change(conv_task(conv_layer(4))))


def test_surfaces_of_depthwise_results_are_multiples_of_four_pixels():
    task = conv_task(conv_layer(1))
    odd = replace(task.output, surface_stride_bytes=task.output.surface_stride_bytes + 16)
    with pytest.raises(EncodingError, match="multiples of 4 pixels"):
        encode_task(RK3576, "layer", replace(task, output=odd))


def test_the_map_is_consistent_and_streams_arm_every_block():
    for item in RK3576.registers.by_name.values():
        mask = 0
        for field in item.fields:
            assert not mask & field.mask, item.full_name
            mask |= field.mask
    pointers = ("CNA.S_POINTER", "CORE.S_POINTER", "DPU.S_POINTER", "DPU_RDMA.RDMA_S_POINTER")
    assert [RK3576.registers.register(name).access for name in pointers] == [Access.STREAM] * 4
    assert [RK3588.registers.register(name).access for name in pointers[:2]] == [Access.HOST] * 2
