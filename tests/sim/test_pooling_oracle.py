"""Pooling against NumPy: method, kernel, stride, padding, int8 and fp16."""

from dataclasses import dataclass

import numpy as np
import pytest

from delegate.errors import SimulatorFault
from tests.sim import oracle
from tests.sim import stream as s
from tests.sim.programs import align, from_surfaces, to_surfaces
from tests.sim.wide_programs import AVERAGE, MAX, MIN, half_surfaces, pool_registers


@dataclass
class Pool:
    method: int
    kernel: tuple[int, int] = (3, 2)
    stride: tuple[int, int] = (2, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)  # top left bottom right
    c: int = 37
    h: int = 11
    w: int = 7
    pad_value: int = 0
    gap: int = 0

    @property
    def out(self) -> tuple[int, int]:
        top, left, bottom, right = self.pads
        return (
            (self.h + top + bottom - self.kernel[0]) // self.stride[0] + 1,
            (self.w + left + right - self.kernel[1]) // self.stride[1] + 1,
        )


CASES = {
    "max": Pool(MAX),
    "max with padding of 0": Pool(MAX, (3, 3), (2, 2), (1, 1, 1, 1)),
    "min with padding": Pool(MIN, (2, 3), (1, 2), (1, 0, 0, 1)),
    "average 2x2": Pool(AVERAGE, (2, 2), (2, 2), h=8, w=6),
    "average 3x3 with padding": Pool(AVERAGE, (3, 3), (1, 1), (1, 1, 1, 1), pad_value=-7),
    "average of 5x1, positive padding": Pool(AVERAGE, (5, 1), (3, 1), (2, 0, 2, 0), pad_value=100),
    "one pixel": Pool(MAX, (1, 1), (1, 1), c=16, h=1, w=1),
    "whole map": Pool(AVERAGE, (11, 7), (1, 1), c=64),
    "gaps": Pool(MAX, gap=3, c=48),
}


def windows(t: Pool, x: np.ndarray, fill: float) -> np.ndarray:
    """[C, oh, ow, kh * kw] with ``fill`` outside."""
    top, left, bottom, right = t.pads
    padded = np.pad(x.astype(np.float64), ((0, 0), (top, bottom), (left, right)),
                    constant_values=fill)  # fmt: skip
    view = np.lib.stride_tricks.sliding_window_view(padded, t.kernel, (1, 2))
    view = view[:, :: t.stride[0], :: t.stride[1]]
    return view.reshape(*view.shape[:3], -1)


@pytest.mark.parametrize("name", CASES)
def test_int8(name):
    t = CASES[name]
    x = np.random.default_rng(len(name)).integers(-128, 128, (align(t.c, 16), t.h, t.w))
    if t.method == MAX and t.pads[0]:
        x = -np.abs(x) - (x == 0)  # all below 0, so that a padding of 0 would show
    x = x.astype(np.int8)
    memory = s.Memory()
    surfaces = to_surfaces(x, t.h * t.w + t.gap, fill=55)
    r = pool_registers(
        memory, surfaces, (t.c, t.h, t.w), t.out, method=t.method, kernel=t.kernel,
        stride=t.stride, pads=t.pads, pad_value=t.pad_value,
    )  # fmt: skip
    s.run_one(memory, r, s.POOL)
    if t.method == AVERAGE:
        sums = windows(t, x, t.pad_value).sum(-1).astype(np.int64)
        recip = (65536 // t.kernel[0]) * (65536 // t.kernel[1])
        expected = oracle.half_away(sums * recip, 32)
        exact = windows(t, x, t.pad_value).mean(-1)
        assert np.abs(expected - exact).max() <= 0.51
    elif t.method == MAX:
        expected = windows(t, x, -1000).max(-1)
    else:
        expected = windows(t, x, 1000).min(-1)
    found = from_surfaces(memory.bytes("output"), t.c, *t.out, t.out[0] * t.out[1])
    np.testing.assert_array_equal(found, expected[: t.c])


@pytest.mark.parametrize("method", [MAX, MIN, AVERAGE])
def test_fp16(method):
    t = Pool(method, (2, 3), (2, 2), (0, 1, 0, 1), c=13, h=6, w=9)
    x = np.random.default_rng(method).normal(size=(16, t.h, t.w)).astype(np.float16)
    memory = s.Memory()
    r = pool_registers(
        memory, half_surfaces(x, t.h * t.w), (t.c, t.h, t.w), t.out, method=method,
        kernel=t.kernel, stride=t.stride, pads=t.pads, fp16=True,
    )  # fmt: skip
    s.run_one(memory, r, s.POOL)
    found = memory.bytes("output").view(np.float16).reshape(2, -1, 8)
    found = found.transpose(0, 2, 1).reshape(16, *t.out)[: t.c]
    if method == AVERAGE:
        expected = windows(t, x, 0).mean(-1)[: t.c]
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3)
    else:
        fill, reduce = (-1e9, np.max) if method == MAX else (1e9, np.min)
        np.testing.assert_array_equal(found, reduce(windows(t, x, fill), -1)[: t.c])


# Output columns of a task, by kernel height and vertical stride.
WIDEST = [(2, 2, 128), (2, 1, 64), (3, 2, 64), (3, 1, 32), (5, 1, 16), (7, 1, 16), (2, 3, 128)]


@pytest.mark.parametrize("fp16", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "widest"), WIDEST)
def test_output_columns_fit_the_line_buffer(kernel, stride, widest, fp16):
    for out_w in (widest, widest + 1):
        h, w = kernel + stride, out_w + 1
        memory, program = s.Memory(), s.Program()
        if fp16:
            x = half_surfaces(np.ones((8, h, w), np.float16), h * w)
        else:
            x = to_surfaces(np.ones((16, h, w), np.int8), h * w)
        r = pool_registers(memory, x, (8 if fp16 else 16, h, w), (2, out_w), method=MAX,
                           kernel=(kernel, 2), stride=(stride, 1), fp16=fp16)  # fmt: skip
        program.add(r, s.POOL)
        tasks = program.place(memory)
        if out_w == widest:
            s.run(memory, tasks)
            continue
        with pytest.raises(SimulatorFault) as fault:
            s.run(memory, tasks)
        assert fault.value.kind == "InvalidValue"
        assert fault.value.register == "PPU.DATA_CUBE_OUT_WIDTH.CUBE_OUT_WIDTH"
        assert str(widest) in str(fault.value)


def fault_of(offset: int, value: int) -> SimulatorFault:
    memory, program = s.Memory(), s.Program()
    x = to_surfaces(np.zeros((16, 6, 5), np.int8), 30)
    r = pool_registers(memory, x, (16, 6, 5), (4, 3), method=AVERAGE, kernel=(3, 3))
    r[offset] = value
    program.add(r, s.POOL)
    with pytest.raises(SimulatorFault) as fault:
        s.run(memory, program.place(memory))
    return fault.value


@pytest.mark.parametrize(
    ("offset", "value", "kind", "register"),
    [
        (0x6024, 0x13, "InvalidValue", "PPU.OPERATION_MODE_CFG.POOLING_METHOD"),
        (0x6024, 0x01, "UnsupportedFeature", "PPU.OPERATION_MODE_CFG.FLYING_MODE"),
        (0x6024, 1 << 30 | 0x10, "UnsupportedFeature", "PPU.OPERATION_MODE_CFG.INDEX_EN"),
        (0x6084, 1, "UnsupportedFeature", "PPU.DATA_FORMAT.PROC_PRECISION"),
        (0x7030, 2, "InconsistentSizes", "PPU_RDMA.RDMA_DATA_FORMAT.IN_PRECISION"),
        (0x700C, 5, "InconsistentSizes", "PPU_RDMA.RDMA_CUBE_IN_WIDTH.CUBE_IN_WIDTH + 1"),
        (0x601C, 4, "InconsistentSizes", "PPU.DATA_CUBE_OUT_HEIGHT.CUBE_OUT_HEIGHT"),
        (0x7024, 64, "InconsistentSizes", "PPU_RDMA.RDMA_SRC_LINE_STRIDE"),
        (0x6044, 200, "InvalidValue", "PPU.PADDING_VALUE_1_CFG"),
        (0x701C, 0x100, "UnmappedAccess", "PPU_RDMA.RDMA_SRC_BASE_ADDR"),
        (0x6070, 0x100, "UnmappedAccess", "PPU.DST_BASE_ADDR"),
        (0x6070, 0x1000_0000, "OutputOverlap", "PPU.DST_BASE_ADDR"),
        (0x6084, 0x10, "InconsistentSizes", "PPU.DATA_FORMAT.INDEX_ADD"),
    ],
)
def test_faults(offset, value, kind, register):
    fault = fault_of(offset, value)
    assert (fault.kind, fault.register) == (kind, register)
