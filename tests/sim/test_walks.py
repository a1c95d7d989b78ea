"""Tests how the readers and the writer walk over memory: windows of wider rows, notches, the
writer's own sizes. Expected bytes come from slices of NumPy arrays.
"""

import dataclasses

import numpy as np
import pytest

from delegate.errors import SimulatorFault
from tests.loops import for_each
from tests.sim import oracle
from tests.sim import programs as p
from tests.sim import stream as s

GROUP_LINE_OFF = 1 << 29
UNTOUCHED = np.int8(0xA5 - 256)


def paths(memory: s.Memory, program: s.Program, name: str) -> np.ndarray:
    """The named buffer after a run, which is the same by every path."""
    s.run_all_ways(memory, program.place(memory))
    return memory.bytes(name).view(np.int8)


def window(
    t: p.Conv, full: tuple[int, int], at: tuple[int, int], tag: str = ""
) -> tuple[s.Memory, s.Registers, oracle.Tensors]:
    """A convolution over a window of a larger map, that starts at a row and a column."""
    rng = np.random.default_rng(t.c)
    memory = s.Memory()
    data = p.random_tensors(rng, t)
    r = p.conv_registers(t, memory, data, tag)
    large = rng.integers(-128, 128, (t.c_al, *full)).astype(np.int8)
    large[:, at[0] : at[0] + t.h, at[1] : at[1] + t.w] = data.x
    place = memory.add(f"large{tag}", p.to_surfaces(large, full[0] * full[1]))
    r[s.FEATURE_DATA_ADDR] = place + (at[0] * full[1] + at[1]) * 16
    return memory, r, data


@pytest.mark.parametrize(
    ("t", "full", "at"),
    [
        # As in a vendor's program of bilinear phases: line 26, surface 651.
        (p.Conv(c=32, h=25, w=25, kh=2, kw=2, pad_top=0, pad_left=0, oh=24, ow=24), (26, 26),
         (0, 1)),
        (p.Conv(c=64, depthwise=True, h=7, w=5, kh=2, kw=2, oh=7, ow=5), (9, 8), (2, 3)),
        # A stride that never reaches the last column.
        (p.Conv(c=48, h=8, w=9, kh=1, kw=1, sh=2, sw=2, pad_top=0, pad_left=0, oh=4, ow=5), (8, 10),
         (0, 0)),
        # Rows of a matrix: height 1, SURF_STRIDE = M - tile.
        (p.Conv(c=80, h=1, w=11, kh=1, kw=1, pad_top=0, pad_left=0, oh=1, ow=11), (1, 30), (0, 11)),
        # The whole map, in the other units.
        (p.Conv(c=32), (7, 5), (0, 0)),
    ],
)  # fmt: skip
def test_group_line_off_counts_pixels(t, full, at):
    memory, r, data = window(t, full, at)
    r[s.CONV_CON1] |= GROUP_LINE_OFF
    r[s.DMA_CON1] = full[1]
    r[s.DMA_CON2] = full[0] * full[1] - t.w
    program = s.Program()
    program.add(r)
    found = p.from_surfaces(paths(memory, program, "output"), t.real, t.oh, t.ow, t.oh * t.ow)
    np.testing.assert_array_equal(found, oracle.conv(t, r, data))


@pytest.mark.parametrize("line", [4 * 8, 8])
def test_four_rows_at_once_are_whole_rows(line):
    t = p.Conv(c=32)
    memory, r, _ = window(t, (9, 8), (1, 2))
    r |= {s.DMA_CON1: line, s.DMA_CON2: 72 - line}
    program = s.Program()
    program.add(r)
    with pytest.raises(SimulatorFault, match="GROUP_LINE_OFF") as fault:
        s.run(memory, program.place(memory), lenient=True)
    assert fault.value.kind == "InconsistentSizes"
    assert fault.value.register == "CNA.DMA_CON1.LINE_STRIDE"


def test_every_second_pixel():
    """A phase of a bilinear resize: the writer's groups are the rows of the output."""
    h, w = 5, 6
    t = p.Conv(
        c=64, depthwise=True, h=h + 1, w=w + 1, kh=2, kw=2, pad_top=0, pad_left=0, oh=h, ow=w
    )
    rng = np.random.default_rng(0)
    memory, program = s.Memory(), s.Program()
    data = p.random_tensors(rng, t)
    target = memory.add("target", 64 * 4 * h * w)
    r = p.conv_registers(t, memory, data) | {
        s.DST_BASE_ADDR: target + (2 * w + 1) * 16,  # the lower right phase
        s.WDMA_SIZE_1: (w - 1) << 16 | 0,
        s.CUBE_NOTCH: 1 << 16 | 1,
        s.SURFACE_ADD: 2 * 2 * w * 16,
        s.DST_SURF_STRIDE: 4 * h * w * 16,
    }
    program.add(r)
    image = p.from_surfaces(paths(memory, program, "target"), 64, 2 * h, 2 * w, 4 * h * w)
    np.testing.assert_array_equal(image[:, 1::2, 1::2], oracle.conv(t, r, data))
    assert (image[:, ::2] == UNTOUCHED).all()
    assert (image[:, :, ::2] == UNTOUCHED).all()


def divisor(rng: np.random.Generator, number: int) -> int:
    return int(rng.choice([n for n in range(1, number + 1) if number % n == 0]))


@for_each("seed", range(30))
def test_the_writer_walks_with_its_own_sizes(seed):
    """Atoms in the order group, row, pixel, surface of the group, laid out by its sizes."""
    rng = np.random.default_rng(seed)
    memory, program = s.Memory(), s.Program()
    kind = ("dense", "depthwise", "flying", "flying pairs")[seed % 4]
    h, w = int(rng.integers(1, 7)), int(rng.integers(1, 9))
    c = int(rng.integers(1, 140))
    if kind in ("dense", "depthwise"):
        t = p.Conv(c=c if kind == "depthwise" else 20, oc=c, depthwise=kind == "depthwise", h=h,
                   w=w, oh=h, ow=w, registers={s.OFFSET_PEND: 0x77})  # fmt: skip
        data = p.random_tensors(rng, t)
        r = p.conv_registers(t, memory, data)
        values, cube, k, mask = oracle.conv(t, r, data), t.cube, 2 + 2 * t.depthwise, s.CONV
    else:
        k = 2 if kind == "flying pairs" else 1
        t = p.Elementwise(c=c, h=h, w=w, registers={s.OFFSET_PEND: 0x77})
        cube = -(-c // (16 * k)) * 16 * k
        data = p.random_elementwise(rng, t)
        r = p.elementwise_registers(t, memory, data)
        r |= {s.BS_OW_CFG: 2 | sum((k - 1) << bit for bit in (2, 5, 8))}
        r |= {s.CUBE_CHANNEL: (c - 1) << 16 | cube - 1, s.WDMA_SIZE_0: cube - 1}
        r |= {s.RDMA_CHANNEL: cube - 1}
        values, mask = oracle.elementwise(t, r, data), s.FLYING
    atoms = np.full((cube // 16, h, w, 16), 0x77, np.int8)
    for channel in range(c):
        atoms[channel // 16, :, :, channel % 16] = values[channel]
    stream = atoms.reshape(-1, k, h, w, 16).transpose(0, 2, 3, 1, 4).reshape(-1, k, 16)
    pixels = len(stream)
    write_w = divisor(rng, pixels)
    write_h = divisor(rng, pixels // write_w)
    notch = int(rng.integers(0, 3))
    line = write_w + notch
    surface = write_h * line + int(rng.integers(0, 3))
    group = k * surface + int(rng.integers(0, 3))
    groups = pixels // (write_w * write_h)
    target = memory.add("target", groups * group * 16)
    r |= {
        s.WDMA_SIZE_1: (write_h - 1) << 16 | write_w - 1,
        s.CUBE_NOTCH: notch << 16 | notch,
        s.DST_SURF_STRIDE: surface * 16,
        s.SURFACE_ADD: group * 16,
        s.DST_BASE_ADDR: target,
    }
    program.add(r, mask)
    expected = np.full((groups * group, 16), UNTOUCHED, np.int8)
    for i, atom in enumerate(stream):
        row, pixel = divmod(i, write_w)
        row_group, row = divmod(row, write_h)
        for surface_index in range(k):
            place = row_group * group + row * line + pixel + surface_index * surface
            expected[place] = atom[surface_index]
    np.testing.assert_array_equal(paths(memory, program, "target").reshape(-1, 16), expected)


@pytest.mark.parametrize(
    ("size", "pitches", "register"),
    [
        ((1, 5), {}, "DPU.WDMA_SIZE_1"),  # 5 does not divide 4 * 6
        ((4, 6), {s.SURFACE_ADD: 16}, "DPU.SURFACE_ADD"),
        ((2, 6), {s.SURFACE_ADD: 11 * 16}, "DPU.SURFACE_ADD"),
    ],
)
def test_writers_that_never_finish_or_overwrite_themselves(size, pitches, register):
    t = p.Elementwise(c=32, h=4, w=6)
    memory, program = s.Memory(), s.Program()
    r = p.elementwise_registers(t, memory, p.random_elementwise(np.random.default_rng(0), t))
    program.add(r | {s.WDMA_SIZE_1: (size[0] - 1) << 16 | size[1] - 1} | pitches, s.FLYING)
    with pytest.raises(SimulatorFault) as fault:
        s.run(memory, program.place(memory))
    assert (fault.value.kind, fault.value.register) == ("InconsistentSizes", register)


@pytest.mark.parametrize("h", [1, 4])
@pytest.mark.parametrize("times", [2, 3])
def test_repeated_rows_leave_as_surfaces(times, h):
    """Nearest neighbour: DPU width of the output, height of the input, SIZE_E one less than the
    factor; surfaces one output row apart, a notch over the rows between. The bytes are declared as
    int16 and pass.
    """
    w = 5
    t = p.Elementwise(c=16, h=h, w=times * w)
    rng = np.random.default_rng(times)
    x = rng.integers(-128, 128, (16, h, w)).astype(np.int8)
    memory, program = s.Memory(), s.Program()
    row = times * w * 16
    kernel = sum((times - 1) << bit for bit in (0, 3, 6, 9))
    rows = (times - 1) * times * w if h > 1 else 0
    r = p.elementwise_registers(t, memory, p.random_elementwise(rng, t)) | {
        s.DATA_FORMAT: 1 << 26,
        s.RDMA_FEATURE_MODE: 0x7801 | 1 << 15,
        s.RDMA_SRC_BASE: memory.add("small", p.to_surfaces(x, h * w)),
        s.RDMA_SRC_DMA: 1 << 12 | kernel,
        s.RDMA_WIDTH: w - 1,
        s.RDMA_HEIGHT: h - 1,
        s.BS_CFG: 0x53,
        s.BS_OW_CFG: 2 | sum((times - 1) << bit for bit in (2, 5, 8)),
        s.CUBE_CHANNEL: (16 * times - 1) << 16 | 16 * times - 1,
        s.WDMA_SIZE_0: 16 * times - 1,
        s.RDMA_CHANNEL: 16 * times - 1,
        s.CUBE_NOTCH: rows << 16 | rows,
        s.DST_SURF_STRIDE: row,
        s.SURFACE_ADD: h * times * row,
        s.DST_BASE_ADDR: memory.add("target", 16 * times * times * h * w),
        s.OUT_SCALE: 1,
        s.OUT_SHIFT: 0,
        s.OUT_OFFSET: 0,
    }
    program.add(r, s.FLYING)
    shape = 16, times * h, times * w, times * times * h * w
    found = p.from_surfaces(paths(memory, program, "target"), *shape)
    np.testing.assert_array_equal(found, x.repeat(times, axis=1).repeat(times, axis=2))


@for_each("second", [False, True])
@for_each("pitch", [-3, 0, 2, 40])
def test_notches_lead_anywhere(second, pitch):
    """SURF_NOTCH is signed and counts from the end of the last row's pixels: surface after surface
    ``pitch`` pixels further, from the first one's start.
    """
    surfaces, h, w, full_w = 3, 3, 4, 7
    t = p.Elementwise(c=16 * surfaces, h=h, w=w, second="pixel" if second else "")
    data = p.random_elementwise(np.random.default_rng(pitch & 63), t)
    memory, program = s.Memory(), s.Program()
    atoms = np.random.default_rng(1).integers(-128, 128, (150, 16)).astype(np.int8)
    start = 20
    place = memory.add("atoms", atoms) + start * 16
    notch = pitch - ((h - 1) * full_w + w)
    r = p.elementwise_registers(t, memory, data)
    if second:
        r |= {s.EW_BASE: place, s.EW_SURF_NOTCH: notch * 16 & 0xFFFFFFFF}
        r |= {s.RDMA_HEIGHT: (full_w - w) << 16 | h - 1, s.EW_SURF_STRIDE: pitch * 16 & 0xFFFFFFFF}
    else:
        r |= {s.RDMA_SRC_BASE: place, s.SURF_NOTCH: notch * 16 & 0xFFFFFFFF}
        r |= {s.RDMA_SRC_DMA: (full_w - w) << 19}
    program.add(r, s.FLYING)
    read = np.zeros((16 * surfaces, h, w), np.int8)
    for surface in range(surfaces):
        for y in range(h):
            first = start + surface * pitch + y * full_w
            read[16 * surface : 16 * surface + 16, y] = atoms[first : first + w].T
    data = dataclasses.replace(data, **{"ew" if second else "x": read})
    found = p.from_surfaces(paths(memory, program, "output"), t.c, h, w, h * w)
    np.testing.assert_array_equal(found, oracle.elementwise(t, r, data))


@pytest.mark.parametrize("case", ["pixel", "channel", "fused"])
def test_the_operands_pitch_is_given_twice(case):
    memory, program = s.Memory(), s.Program()
    if case == "fused":
        conv = p.Conv(fused=True, oc=70, gap=2)
        mask = s.CONV
        r = p.conv_registers(conv, memory, p.random_tensors(np.random.default_rng(0), conv))
    else:
        t = p.Elementwise(c=40, gap=2, second=case)
        mask = s.FLYING
        r = p.elementwise_registers(t, memory, p.random_elementwise(np.random.default_rng(0), t))
    program.add(r, mask)
    right = memory.copy()
    s.run(right, program.place(right))
    program = s.Program()
    program.add(r | {s.EW_SURF_STRIDE: r[s.EW_SURF_STRIDE] + 16}, mask)
    strict = memory.copy()
    tasks = program.place(strict)
    with pytest.raises(SimulatorFault) as fault:
        s.run(strict, tasks)
    assert fault.value.kind == "InconsistentSizes"
    assert fault.value.register == "DPU_RDMA.RDMA_EW_SURF_STRIDE"
    lenient = memory.copy()
    s.run(lenient, program.place(lenient), lenient=True)
    np.testing.assert_array_equal(lenient.bytes("output"), right.bytes("output"))
