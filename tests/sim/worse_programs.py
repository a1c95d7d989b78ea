"""Random programs of one kind of task that together show everything that a worse chip can break."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.sim import stream as s
from tests.sim.programs import align
from tests.sim.wide_programs import LUT_LO_END, LUT_LO_START, lut_registers, lut_words
from tests.sim.worse_tasks import KINDS, WEIGHT_REUSE, Maker

__all__ = ["KINDS", "pure_program", "worse_program"]


def plain(m: Maker) -> None:
    """Two tasks of the kind, and two behind one of the DPU alone."""
    for number in range(4):
        if number == 2:
            m.program.add(m.neighbour(), s.FLYING)
        m.program.add(m.task(), m.mask)


def kept_weights(m: Maker) -> None:
    """Two loads of weights, the second used twice, then a task of the kind."""
    if not m.is_conv:
        other = Maker("dense", m.rng, m.memory, m.program, m.tasks)
        load_and_keep(other)
        m.tasks = other.tasks
        m.program.add(m.task(), m.mask)
        return
    last = load_and_keep(m)
    m.program.add(last, m.mask)
    m.program.add(m.neighbour(), s.FLYING)
    m.program.add(m.task(), m.mask)


def load_and_keep(m: Maker) -> s.Registers:
    """Three tasks, the third of which keeps the second's weights; returns a fourth of the shape."""
    m.shape = m.conv()
    first, second, third, last = (m.task() for _ in range(4))
    m.shape = None
    for r in (first, second, third, last):
        r[s.CBUF_CON0] &= ~WEIGHT_REUSE
    third |= {s.DCOMP_ADDR0: second[s.DCOMP_ADDR0]}
    third[s.CBUF_CON0] |= WEIGHT_REUSE
    for r in (first, second, third):
        m.program.add(r, m.mask)
    return last


def streamed_weights(m: Maker) -> None:
    """More weights than one bank holds."""
    if not m.is_conv:
        plain(m)
        return
    # 64 taps of 16 channels for 70 kernels, or of 134 channels twice as often.
    changes = {"kh": 8, "kw": 8, "h": 12, "w": 12, "oh": 6, "ow": 6, "dh": 1, "dw": 1}
    if not m.kind.endswith("dense"):
        changes |= {"kh": 16, "kw": 16, "h": 18, "w": 18, "c": 134, "depthwise": True}
    m.shape = replace(m.conv(), **changes)
    r = m.task()
    r[s.CBUF_CON0] = 1 << 4 | 11
    m.program.add(r, m.mask)


def tables(m: Maker) -> None:
    """Two loads, each by a task of the kind; look-ups right behind them and later."""
    registers = lut_registers(
        cfg=m.pick(0x68, 0x28, 0x18), le_scale=0x1234_0567, le_shift=12 << 5 | 9,
        lo_scale=0x0765_1432, lo_shift=8 << 5 | 10,
    )  # fmt: skip
    if m.rng.random() < 0.5:  # both tables hold some values
        registers |= {LUT_LO_START: -512 & 0xFFFFFFFF, LUT_LO_END: 15872}
    for _ in range(2):
        is_small = m.rng.random() < 0.5
        most = 100 if is_small else (1 << 15)
        words = [m.rng.integers(-most, most, 513).astype(np.int16) for _ in range(2)]
        words[0][100:140] = 500
        words[1][100:140] = -7000
        m.program.add(m.task(), m.mask, extra=lut_words(*words))
        for _ in range(2):
            r = m.task() | registers
            r |= {s.OUT_SCALE: 0x4ABC, s.OUT_SHIFT: 22, s.BN_CFG: 0x53}
            if is_small:
                r |= {s.OUT_SCALE: 1, s.OUT_SHIFT: 0, s.OUT_OFFSET: 0}
            if m.is_half:
                r |= {s.OUT_SCALE: 0x10001, s.OUT_SHIFT: 15 << 12}
                r |= {s.BS_CFG: 0x20042, s.BS_MUL_CFG: int(np.float16(6000).view(np.uint16)) << 16}
            elif not m.is_conv:
                r |= {s.BS_CFG: 0x20042, s.BS_MUL_CFG: 170 << 16}
            m.program.add(r, m.mask, pointer=s.CLEAR)


def halves(m: Maker) -> None:
    """Shifts by one bit of what has 8 bits, in one stage each."""
    if m.is_conv or m.is_half:
        plain(m)
        return
    negatives = {s.BS_CFG: 1 << 4, s.BN_CFG: 1 << 10, s.EW_CFG: 1 << 16, s.OUT_SHIFT: 0}
    for stage, negative in negatives.items():
        r = m.task()
        r |= {s.BS_CFG: 0x53, s.BN_CFG: 0x53, s.EW_CFG: 0x383, s.OUT_SCALE: 1, s.OUT_SHIFT: 0}
        r |= {s.DATA_FORMAT: negative, s.OUT_OFFSET: 0}
        r |= dict.fromkeys((s.BS_MUL_CFG, s.BN_MUL_CFG), 1 << 16 | 1 << 8)
        r |= {s.EW_CVT_SCALE: 1 << 22 | 1, s.NRDMA_CFG: 0, s.ERDMA_CFG: 1}
        r |= {s.EW_OP_VALUE_0 + 4 * i: 1 for i in range(8)}
        away = m.pick(0, 1) << 30
        cfg = {s.BS_CFG: 0x42, s.BN_CFG: 0x42, s.EW_CFG: 0x80000384, s.OUT_SHIFT: away | 1}
        r[stage] = cfg[stage]
        m.program.add(r, m.mask)


def other_sizes(m: Maker) -> None:
    """The writer's rows are groups of their own; one group of channels."""
    lanes = 8 if m.is_half else 16
    if m.is_conv:
        t = replace(m.conv(), oc=2 * lanes)
        m.shape = t = replace(t, c=4 * lanes) if t.depthwise else t
        r = m.task()
        rows, columns = t.oh, t.ow
    else:
        r = m.task()
        rows, columns = m.size
        r |= {s.CUBE_CHANNEL: (lanes - 1) << 16 | lanes - 1}
        r |= {s.WDMA_SIZE_0: lanes - 1, s.RDMA_CHANNEL: lanes - 1}
    surface = 2 * rows * columns * 16
    r |= {
        s.WDMA_SIZE_1: columns - 1,
        s.CUBE_NOTCH: 0,
        s.SURFACE_ADD: columns * 16,
        s.DST_SURF_STRIDE: surface,
        s.DST_BASE_ADDR: m.memory.add(f"sizes{m.tag()}", 8 * surface),
    }
    m.program.add(r, m.mask)


def wide_results(m: Maker) -> None:
    """int32 or int16 from int8, fp32 from fp16."""
    r = m.task()
    is_depthwise = r[s.FEATURE_MODE_CFG] >> 3 & 3 != 0
    # A group has 8 surfaces at most.
    code, ratio = (1, 2) if is_depthwise and not m.is_half else (4, 4)
    code, ratio = (5, 2) if m.is_half else (code, ratio)
    size = ((4 if is_depthwise else 2) * ratio if m.is_conv else 1) - 1
    cube = (r[s.CUBE_CHANNEL] & 0x1FFF) + 1
    real = (r[s.CUBE_CHANNEL] >> 16) + 1
    cube = cube if m.is_conv else align(real, 4)
    pixels = ((r[s.WDMA_SIZE_1] >> 16) + 1) * ((r[s.WDMA_SIZE_1] & 0x1FFF) + 1)
    form = 2 << 26 | 2 if m.is_half else r[s.DATA_FORMAT] & 0x03FFFFF0
    r |= {
        s.DATA_FORMAT: code << 29 | form,
        s.BS_OW_CFG: r[s.BS_OW_CFG] & 3 | size << 8 | size << 5 | size << 2,
        s.OUT_SCALE: 3,
        s.CUBE_NOTCH: 0,
        s.CUBE_CHANNEL: (real - 1) << 16 | cube - 1,
        s.WDMA_SIZE_0: cube - 1,
        s.RDMA_CHANNEL: cube - 1,
        s.DST_SURF_STRIDE: pixels * 16,
        s.SURFACE_ADD: pixels * 16 * (size + 1),
        s.DST_BASE_ADDR: m.memory.add(f"words{m.tag()}", (cube + 4) * 4 * pixels),
    }
    m.program.add(r, m.mask)


SCENES: tuple[Callable[[Maker], None], ...] = (
    plain, kept_weights, tables, streamed_weights, other_sizes, wide_results, halves, tables,
)  # fmt: skip


def pure_program(kind: str, seed: int) -> tuple[s.Memory, list[tuple[int, int, str]]]:
    """A program of tasks of one kind alone."""
    m = Maker(kind, np.random.default_rng(seed))
    for _ in range(3):
        m.program.add(m.task(), m.mask)
    return m.memory, m.program.place(m.memory)


def worse_program(
    kind: str, seed: int, size: tuple[int, int] = (5, 4)
) -> tuple[s.Memory, list[tuple[int, int, str]]]:
    """A program whose tasks, all or some, are of the kind. ``size``: without convolution."""
    m = Maker(kind, np.random.default_rng(seed), size=size)
    SCENES[seed % len(SCENES)](m)
    return m.memory, m.program.place(m.memory)
