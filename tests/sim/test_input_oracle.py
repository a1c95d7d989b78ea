"""Packed pixels, the input converter, transposed convolution, unpooling and row notches."""

import dataclasses

import numpy as np
import pytest

from delegate.errors import SimulatorFault
from tests.loops import for_each
from tests.sim import oracle
from tests.sim import stream as s
from tests.sim.programs import (
    Conv,
    Elementwise,
    conv_registers,
    elementwise_registers,
    from_surfaces,
    random_elementwise,
    random_tensors,
    to_surfaces,
)
from tests.sim.wide_programs import CVT_CON1, CVT_CON5, pack_pixels

PACKED = Conv(c=3, oc=21, h=13, w=9, kh=3, kw=2, sh=2, sw=2, oh=7, ow=5, pad=-11, ow_operand=6)


def packed_program(
    t: Conv, stride: int, **changes: int
) -> tuple[s.Memory, list[tuple[int, int, str]], oracle.Tensors, s.Registers]:
    data = random_tensors(np.random.default_rng(t.c), t)
    data.x[t.c :] = 0  # the lanes that no pixel fills
    memory, program = s.Memory(), s.Program()
    r = conv_registers(t, memory, data)
    r |= {
        s.CONV_CON1: 0x6000_0000 | (7 + t.c) << 12,
        s.FEATURE_DATA_ADDR: memory.add("pixels", pack_pixels(data.x[: t.c], stride, t.pad)),
        s.DMA_CON1: t.w,
        s.DMA_CON2: t.w * (t.h - 1),
        s.CBUF_CON1: stride * t.h,
        s.OUT_SHIFT: 22,
    }
    r |= {{"cvt": s.CVT_CON0, "entries": s.CBUF_CON1, "con1": s.CONV_CON1,
           "line": s.DMA_CON1}[name]: value for name, value in changes.items()}  # fmt: skip
    program.add(r)
    return memory, program.place(memory), data, r


def check_conv(t: Conv, memory: s.Memory, data: oracle.Tensors, r: s.Registers) -> None:
    found = from_surfaces(memory.bytes("output"), t.oc, t.oh, t.ow, t.oh * t.ow)
    expected = oracle.conv(t, r, data)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 20


@for_each("width", [9, 16, 17])
@for_each("channels", [1, 2, 3, 4])
def test_packed_pixels(channels, width):
    """LINE_STRIDE holds the real width; rows in memory begin every 16 pixels."""
    t = dataclasses.replace(PACKED, c=channels, w=width, ow=-(-width // 2))
    memory, tasks, data, r = packed_program(t, stride=-(-width // 16) * 16)
    s.run_all_ways(memory, tasks)
    check_conv(t, memory, data, r)


def test_the_tail_of_packed_pixels_is_their_padding_on_the_right():
    """Not PAD_CON1, but what lies in memory behind the last pixel of a row."""
    t = dataclasses.replace(PACKED, pad_left=0, kw=3, sw=1, ow=9, pad=-11)
    memory, tasks, data, r = packed_program(t, stride=16)
    image = memory.bytes("pixels").view(np.int8).reshape(t.h, 16, t.c)
    image[:, t.w :] = np.random.default_rng(8).integers(-128, 128, (t.h, 7, t.c))
    s.run_all_ways(memory, tasks)
    wide = dataclasses.replace(t, w=16)
    x = np.zeros((t.c_al, t.h, 16), np.int8)
    x[: t.c] = image.transpose(2, 0, 1)
    check_conv(wide, memory, dataclasses.replace(data, x=x), r)


def test_many_entries_of_packed_pixels():
    """0x57e0 entries: more than the 2048 that rows of a cube may have."""
    t = dataclasses.replace(
        PACKED, h=100, w=220, oh=50, ow=110, kh=3, kw=3, registers={s.CBUF_CON0: 0x1B}
    )
    memory, tasks, data, r = packed_program(t, stride=224, entries=0x57E0)
    s.run(memory, tasks, threads=2)
    check_conv(t, memory, data, r)


def test_converted_pixels():
    """uint8 pixels minus 128, one channel, as (x - 128) * 16384 >> 14."""
    t = dataclasses.replace(PACKED, c=1, w=16, ow=8)
    memory = s.Memory()
    data = random_tensors(np.random.default_rng(1), t)
    data.x[1:] = 0
    pixels = (data.x[:1].astype(np.int16) + 128).astype(np.uint8)
    r = conv_registers(t, memory, data) | {
        s.CONV_CON1: 0x6000_8000, s.DMA_CON1: 16, s.DMA_CON2: 16 * (t.h - 1),
        s.CBUF_CON1: 16 * t.h, s.OUT_SHIFT: 22,
        s.FEATURE_DATA_ADDR: memory.add("pixels", pixels),
        s.CVT_CON0: 14 << 22 | 14 << 16 | 14 << 10 | 14 << 4 | 2,
        CVT_CON1: 16384 << 16 | 0xFF80, CVT_CON5: 0xFFFF,
    }  # fmt: skip
    s.run_one(memory, r)
    check_conv(t, memory, data, r)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (2, lambda x: oracle.half_even((x + 9) * 77, 6)),  # add first
        (0, lambda x: oracle.half_even(x * 77, 6) + 9),  # multiply first
        (6, lambda x: oracle.half_away((x + 9) * 77, 6)),
        (8 | 2, lambda x: oracle.half_even((x - (x > 127) * 256 + 9) * 77, 6)),  # signed
    ],
)
def test_converter_modes(mode, expected):
    """A 1x1 kernel of one weight 1 shows the converted pixels."""
    t = Conv(c=1, oc=2, h=16, w=16, kh=1, kw=1, pad_top=0, pad_left=0, oh=16, ow=16)
    data = random_tensors(np.random.default_rng(0), t)
    data.weights[:] = 0
    data.weights[0, 0] = 1
    data.alu[:] = 0
    memory = s.Memory()
    pixels = np.arange(256, dtype=np.uint8)
    r = conv_registers(t, memory, data) | {
        s.CONV_CON1: 0x6000_8000, s.DMA_CON1: 16, s.CBUF_CON1: 256,
        s.FEATURE_DATA_ADDR: memory.add("pixels", pixels),
        s.CVT_CON0: 6 << 4 | mode, CVT_CON1: 77 << 16 | 9, CVT_CON5: 1,
        s.OUT_SCALE: 1, s.OUT_SHIFT: 0, s.OUT_OFFSET: 0,
    }  # fmt: skip
    s.run_one(memory, r)
    found = from_surfaces(memory.bytes("output"), 1, 16, 16, 256).reshape(-1)
    wanted = np.clip(expected(pixels.astype(np.int64)), -128, 127)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("change", "kind", "register"),
    [
        ({"con1": 0x6000_7000}, "InvalidValue", "CNA.CONV_CON1.ARGB_IN"),
        ({"con1": 0x2000_A000}, "InvalidValue", "CNA.CONV_CON1.NONALIGN_DMA"),
        ({"con1": 0x4000_A000}, "InvalidValue", "CNA.CONV_CON1.GROUP_LINE_OFF"),
        ({"con1": 0x6000_0000}, "UnsupportedFeature", "CNA.CONV_CON1.NONALIGN_DMA"),
        ({"line": 0}, "InconsistentSizes", "CNA.DMA_CON1.LINE_STRIDE"),
        ({"entries": 116}, "CbufOverrun", "CNA.CBUF_CON1.DATA_ENTRIES"),
        ({"entries": 4096}, "CbufOverrun", "CNA.CBUF_CON0.DATA_BANK"),
        ({"con1": 0x6000_A010}, "UnsupportedFeature", "CNA.CONV_CON1.IN_PRECISION"),
    ],
)
def test_packed_faults(change, kind, register):
    memory, tasks, _, _ = packed_program(PACKED, 16, **change)
    with pytest.raises(SimulatorFault) as fault:
        s.run(memory, tasks)
    assert (fault.value.kind, fault.value.register) == (kind, register)


def transposed(x: np.ndarray, weights: np.ndarray, stride: int, crop: int, zero: int) -> np.ndarray:
    """Scatters every input pixel times the flipped kernel: a transposed convolution by definition.

    ``weights`` [O, I, kh, kw] are those of the convolution over the spread input.
    """
    o, _, kh, kw = weights.shape
    _, h, w = x.shape
    full = np.zeros((o, (h - 1) * stride + kh, (w - 1) * stride + kw), np.int64)
    flipped = weights[:, :, ::-1, ::-1].astype(np.int64)
    for y in range(h):
        for column in range(w):
            block = np.einsum("oikl,i->okl", flipped, x[:, y, column].astype(np.int64) - zero)
            full[:, y * stride : y * stride + kh, column * stride : column * stride + kw] += block
    return full[:, crop : full.shape[1] - crop, crop : full.shape[2] - crop]


@for_each("stride, k, p", [(2, 4, 1), (2, 3, 1), (3, 5, 0)])
def test_transposed_convolution(stride, k, p):
    """PAD = k - 1 - p; the pixels between and around hold the input's zero point."""
    h, w, zero = 5, 7, -9
    oh, ow = (h - 1) * stride + k - 2 * p, (w - 1) * stride + k - 2 * p
    t = Conv(c=24, oc=19, h=h, w=w, kh=k, kw=k, pad_top=k - 1 - p, pad_left=k - 1 - p,
             oh=oh, ow=ow, pad=zero)  # fmt: skip
    data = random_tensors(np.random.default_rng(stride), t)
    correction = -zero * data.weights[: t.oc].astype(np.int64).sum((1, 2, 3))
    bias = data.alu.copy()
    data.alu += correction
    memory = s.Memory()
    r = conv_registers(t, memory, data)
    r[s.CONV_CON1] = 0x10000
    r[s.CONV_CON3] = (stride - 1) << 11 | (stride - 1) << 8 | 9
    s.run_one(memory, r)
    acc = transposed(data.x, data.weights[: t.oc], stride, p, zero) + bias[:, None, None]
    product = acc * oracle.signed(r[s.OUT_SCALE], 16)
    expected = np.clip(oracle.half_even(product, r[s.OUT_SHIFT]) + 5, -128, 127)
    found = from_surfaces(memory.bytes("output"), t.oc, oh, ow, oh * ow)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 20


def test_depthwise_transposed_convolution():
    t = Conv(c=40, depthwise=True, h=4, w=3, kh=3, kw=3, pad_top=1, pad_left=1, oh=7, ow=5, pad=4)
    data = random_tensors(np.random.default_rng(2), t)
    memory = s.Memory()
    r = conv_registers(t, memory, data) | {s.CONV_CON1: 0x10003, s.CONV_CON3: 0x909}
    s.run_one(memory, r)
    spread = np.full((t.c_al, 7, 5), 4, np.int8)
    spread[:, ::2, ::2] = data.x
    wide = dataclasses.replace(t, h=7, w=5)
    expected = oracle.conv(wide, r, dataclasses.replace(data, x=spread))
    found = from_surfaces(memory.bytes("output"), t.c, 7, 5, 35)
    np.testing.assert_array_equal(found, expected)


@for_each("source_size", [True, False])
def test_nearest_by_two(source_size):
    h, w, c = 5, 7, 16
    t = Elementwise(c=c, h=2 * h, w=2 * w)
    data = random_elementwise(np.random.default_rng(0), t)
    memory = s.Memory()
    r = elementwise_registers(t, memory, data)
    source = data.x[:, :h, :w]
    r |= {s.RDMA_SRC_BASE: memory.add("small", to_surfaces(source, h * w)), s.RDMA_SRC_DMA: 0x1249}
    if source_size:
        r |= {s.RDMA_WIDTH: w - 1, s.RDMA_HEIGHT: h - 1}
    s.run_one(memory, r, s.FLYING)
    large = source.repeat(2, axis=1).repeat(2, axis=2)
    expected = oracle.elementwise(t, r, dataclasses.replace(data, x=large))
    found = from_surfaces(memory.bytes("output"), c, 2 * h, 2 * w, 4 * h * w)
    np.testing.assert_array_equal(found, expected)
