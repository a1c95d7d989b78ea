"""Programs in forms that other compilers use and the project's own does not."""

import dataclasses

import numpy as np
import pytest

from delegate.errors import SimulatorFault
from tests.loops import for_each
from tests.sim import oracle
from tests.sim import programs as p
from tests.sim import stream as s
from tests.sim.test_float_oracle import from_atoms
from tests.sim.test_input_oracle import PACKED, packed_program
from tests.sim.test_lut import look_up, random_tables, upload
from tests.sim.wide_programs import half_alone, lut_registers

FACTOR = 2824.0  # of indices, as fp16


def indices(x: np.ndarray) -> np.ndarray:
    """Return what the tables are asked for: the product in fp32, to the nearest."""
    return np.rint(x.astype(np.float32) * np.float32(FACTOR)).astype(np.int64)


def table_task(
    memory: s.Memory, x: np.ndarray, out_bytes: int, changes: s.Registers
) -> s.Registers:
    """An fp16 task of the DPU alone from ``x`` [C, h, w] through the tables."""
    scales = {"lo_scale": 0x4032 << 16, "lo_shift": 13 << 5, "le_scale": 0xC123, "le_shift": 11}
    return half_alone(memory, x) | lut_registers(**scales) | {
        s.DST_BASE_ADDR: memory.add("result", x.size * out_bytes),
        s.BN_CFG: 0x42,
        s.BN_MUL_CFG: int(np.float16(FACTOR).view(np.uint16)) << 16,
    } | changes  # fmt: skip


def table_values(
    r: s.Registers, x: np.ndarray, tables: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """OUT_CVT of what the tables hold, still an integer."""
    v = look_up(r, *tables, indices(x)).astype(np.int64)
    product = v * oracle.signed(r[s.OUT_SCALE], 16)
    return oracle.half_even(product, r[s.OUT_SHIFT] & 63) + oracle.signed(r[s.OUT_OFFSET], 32)


@pytest.mark.parametrize(
    "changes",
    [
        {s.OUT_SCALE: 0x10001, s.OUT_SHIFT: 15 << 12, s.OUT_OFFSET: 1},  # as sigmoid and tanh
        {s.OUT_SCALE: 0x14ABC, s.OUT_SHIFT: 12 << 12 | 14, s.OUT_OFFSET: -300 & 0xFFFFFFFF},
    ],
)
def test_tables_in_half_precision_with_shift_and_offset(changes):
    """The result of a table is an integer, and is scaled, shifted and summed as one."""
    x = np.random.default_rng(1).normal(size=(16, 5, 7)).astype(np.float16) * np.float16(3)
    tables = random_tables(3)
    memory, program = s.Memory(), s.Program()
    upload(memory, program, *tables)
    r = table_task(memory, x, 2, changes)
    program.add(r, s.FLYING, pointer=s.CLEAR)
    s.run_all_ways(memory, program.place(memory), chained=True)
    found = from_atoms(memory.bytes("result"), np.float16, *x.shape)
    exponent = r[s.OUT_SHIFT] >> 12 & 0xFF
    expected = (table_values(r, x, tables) / 2.0**exponent).astype(np.float16)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 50


def test_unbounded_functions_take_a_second_task_over_fp32():
    """SiLU, ELU, hard swish: integers leave as fp32, four channels a surface; a second task, whose
    even surfaces MRDMA reads and whose odd ones ERDMA, multiplies twice by a root.
    """
    x = np.random.default_rng(2).normal(size=(16, 5, 7)).astype(np.float16) * np.float16(3)
    c, h, w = x.shape
    pixels = h * w
    tables = random_tables(4)
    memory, program = s.Memory(), s.Program()
    upload(memory, program, *tables)
    first = table_task(memory, x, 4, {
        s.DATA_FORMAT: 5 << 29 | 2 << 26 | 2, s.OUT_SCALE: 0x4ABC, s.OUT_SHIFT: 13, s.OUT_OFFSET: 7,
        s.BS_OW_CFG: 0x36E, s.SURFACE_ADD: 4 * pixels * 16,
    })  # fmt: skip
    program.add(first, s.FLYING, pointer=s.CLEAR)
    root = np.float16(0.0133)
    middle = first[s.DST_BASE_ADDR]
    factor = int(root.view(np.uint16)) << 16
    second = {s.RDMA_SRC_DMA: 0} | first | {
        s.DATA_FORMAT: 2 << 29 | 5 << 26 | 2,
        s.BS_OW_CFG: 2,
        s.SURFACE_ADD: pixels * 16,
        s.DST_BASE_ADDR: memory.add("rooted", c * pixels * 2),
        s.RDMA_SRC_BASE: middle,
        s.EW_BASE: middle + pixels * 16,
        s.SURF_NOTCH: pixels * 16,
        s.EW_SURF_NOTCH: pixels * 16,
        s.EW_SURF_STRIDE: pixels * 16,
        s.ERDMA_CFG: 0x4000000C,
        s.RDMA_FEATURE_MODE: 0x7801 & ~0x18000 | 5 << 15 | 2 << 5 | 3 << 8,
        s.BS_CFG: 0x42,
        s.BS_MUL_CFG: factor,
        s.BN_CFG: 0x42,
        s.BN_MUL_CFG: factor,
        s.EW_CFG: 0x383,
        s.OUT_SCALE: 0x10001,
        s.OUT_SHIFT: 0,
        s.OUT_OFFSET: 0,
    }  # fmt: skip
    program.add(second, s.FLYING)
    s.run_all_ways(memory, program.place(memory), chained=True)
    integers = table_values(first, x, tables).astype(np.float32)
    np.testing.assert_array_equal(from_atoms(memory.bytes("result"), np.float32, c, h, w), integers)
    root32 = np.float32(root)
    expected = (integers * root32 * root32).astype(np.float16)
    found = from_atoms(memory.bytes("rooted"), np.float16, c, h, w)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 50


def test_both_readers_of_the_main_operand_are_needed():
    x = np.ones((16, 2, 3), np.float16)
    memory, program = s.Memory(), s.Program()
    r = table_task(memory, x, 2, {s.EW_CFG: 0x383, s.OUT_SCALE: 0x10001, s.OUT_SHIFT: 0})
    r |= {s.OUT_OFFSET: 0, s.RDMA_FEATURE_MODE: 0x17841 | 3 << 8}
    program.add(r, s.FLYING)
    with pytest.raises(SimulatorFault, match="odd surfaces would be missing"):
        s.run(memory, program.place(memory))


@for_each("plain", [False, True])
@for_each("width, rows, columns", [(21, 1, 8), (20, 3, 2), (7, 2, 4)])
def test_the_writers_last_group_may_end_early(width, rows, columns, plain):
    """A cube of height 1, as resizing has it, whose stream of atoms ends inside a group of the
    writer: what is there is laid out like the rest.
    """
    t = p.Elementwise(c=16, h=1, w=width)
    data = p.random_elementwise(np.random.default_rng(width), t)
    groups = -(-width // (rows * columns))
    line = columns + 2
    group = rows * line + 3

    def program() -> tuple[s.Memory, list[tuple[int, int, str]], s.Registers]:
        memory, stream = s.Memory(), s.Program()
        r = p.elementwise_registers(t, memory, data) | {
            s.WDMA_SIZE_1: (rows - 1) << 16 | columns - 1,
            s.CUBE_NOTCH: 2 << 16 | 2,
            s.SURFACE_ADD: group * 16,
            s.DST_SURF_STRIDE: groups * group * 16,
        }
        # No byte behind the last atom.
        last = width - 1
        row = last // columns
        end = row // rows * group + row % rows * line + last % columns + 1
        r[s.DST_BASE_ADDR] = memory.add("target", end * 16)
        stream.add(r, s.FLYING)
        return memory, stream.place(memory), r

    memory, tasks, r = program()
    with pytest.raises(SimulatorFault) as fault:
        s.run(memory, tasks, plain=plain)
    assert (fault.value.kind, fault.value.register) == ("InconsistentSizes", "DPU.WDMA_SIZE_1")
    memory, tasks, r = program()
    before = memory.bytes("target").view(np.int8).reshape(-1, 16).copy()
    assert len(s.run(memory, tasks, plain=plain, lenient=True)["complaints"]) == 1
    values = oracle.elementwise(t, r, data)
    for i in range(width):
        row, column = divmod(i, columns)
        place = row // rows * group + row % rows * line + column
        before[place] = values[:, 0, i]
    np.testing.assert_array_equal(memory.bytes("target").view(np.int8).reshape(-1, 16), before)


@for_each("width", [9, 13, 30])
def test_tails_of_packed_rows_are_filled_in_place(width):
    """Rows of packed pixels begin every 16 pixels: a task of the DPU alone first writes the padding
    behind the last pixel of each, (x - pad) times a mask plus pad, in the atoms of the tail, where
    they lie; then the convolution reads the whole rows.
    """
    stride = -(-width // 16) * 16
    t = dataclasses.replace(PACKED, w=width, kw=3, pad_left=0, sw=1, ow=width)
    memory, _, data, conv = packed_program(t, stride)
    pixels = memory.bytes("pixels").view(np.int8).reshape(t.h, stride * t.c)
    pixels[:, width * t.c :] = 55  # what anybody left there
    first = width * t.c // 16  # atoms before those of the tail
    row_atoms = stride * t.c // 16
    columns = row_atoms - first
    mask = np.zeros((t.h, columns * 16), np.int8)
    mask[:, : width * t.c - first * 16] = 1
    flying = p.Elementwise(c=16, h=t.h, w=columns, second="pixel")
    fill = p.elementwise_registers(
        flying, memory, p.random_elementwise(np.random.default_rng(0), flying), "_unused"
    )
    place = conv[s.FEATURE_DATA_ADDR] + first * 16
    fill |= {
        s.RDMA_SRC_BASE: place, s.DST_BASE_ADDR: place, s.RDMA_SRC_DMA: first << 19,
        s.CUBE_NOTCH: first << 16 | first, s.DST_SURF_STRIDE: t.h * row_atoms * 16,
        s.SURFACE_ADD: t.h * row_atoms * 16,
        s.EW_BASE: memory.add("mask", mask), s.EW_CFG: 0x904002C4, s.EW_CVT_OFFSET: 0,
        s.EW_CVT_SCALE: 1, s.BS_CFG: 0x20050, s.BS_ALU_CFG: -t.pad & 0xFFFFFFFF, s.DATA_FORMAT: 0,
        s.OUT_SCALE: 1, s.OUT_SHIFT: 0, s.OUT_OFFSET: t.pad & 0xFFFFFFFF,
    }  # fmt: skip
    program = s.Program()
    program.add(fill, s.FLYING)
    program.add(conv)
    s.run_all_ways(memory, program.place(memory, "both"))
    filled = memory.bytes("pixels").view(np.int8).reshape(t.h, stride, t.c)
    assert (filled[:, width:] == t.pad).all()
    np.testing.assert_array_equal(filled[:, :width].transpose(2, 0, 1), data.x[: t.c])
    wide = np.full((t.c_al, t.h, stride), t.pad, np.int8)
    wide[t.c :] = 0
    wide[: t.c, :, :width] = data.x[: t.c]
    expected = oracle.conv(
        dataclasses.replace(t, w=stride), conv, dataclasses.replace(data, x=wide)
    )
    found = p.from_surfaces(memory.bytes("output"), t.oc, t.oh, t.ow, t.oh * t.ow)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("how", [{"plain": True}, {"threads": 2}])
def test_a_convolution_in_place(how):
    """All rows are in CBUF before computing (FEATURE_GRAINS): writing there harms nothing."""
    t = p.Conv(c=64, oc=64, h=6, w=7, kh=1, kw=1, pad_top=0, pad_left=0, oh=6, ow=7)
    data = p.random_tensors(np.random.default_rng(5), t)

    def program(grains: int) -> tuple[s.Memory, list[tuple[int, int, str]], s.Registers]:
        memory, stream = s.Memory(), s.Program()
        r = p.conv_registers(t, memory, data)
        r |= {s.DST_BASE_ADDR: r[s.FEATURE_DATA_ADDR], s.CONV_CON2: grains << 4}
        stream.add(r)
        return memory, stream.place(memory), r

    memory, tasks, r = program(t.h + 1)
    with pytest.raises(SimulatorFault) as fault:
        s.run(memory, tasks)
    assert fault.value.kind == "OutputOverlap"
    memory, tasks, r = program(t.h + 1)
    complaints = s.run(memory, tasks, lenient=True, **how)["complaints"]
    assert any("OutputOverlap" in line for line in complaints)
    found = p.from_surfaces(memory.bytes("input"), t.oc, t.oh, t.ow, t.oh * t.ow)
    np.testing.assert_array_equal(found, oracle.conv(t, r, data))
    memory, tasks, _ = program(t.h - 1)
    with pytest.raises(SimulatorFault, match="FEATURE_GRAINS"):
        s.run(memory, tasks, lenient=True)


@pytest.mark.parametrize("plain", [False, True])
def test_a_flat_cube_is_read_and_written_by_other_sizes(plain):
    """A cube of height 1 of as many pixels as DPU_RDMA reads in rows: each by its own sizes."""
    h, w, full_w = 3, 5, 8
    shape = p.Elementwise(c=37, h=h, w=w, second="pixel")
    data = p.random_elementwise(np.random.default_rng(6), shape)
    gaps = {
        name: np.random.default_rng(i).integers(-128, 128, (48, h, full_w)).astype(np.int8)
        for i, name in enumerate(("left", "right"))
    }
    gaps["left"][:, :, :w], gaps["right"][:, :, :w] = data.x, data.ew

    def program() -> tuple[s.Memory, list[tuple[int, int, str]], s.Registers]:
        memory, stream = s.Memory(), s.Program()
        notch = (full_w - w) * 16  # from the end of the last row's pixels
        r = p.elementwise_registers(shape, memory, data) | {
            s.CUBE_HEIGHT: 0,
            s.CUBE_WIDTH: h * w - 1,
            s.RDMA_SRC_DMA: (full_w - w) << 19,
            s.RDMA_HEIGHT: (full_w - w) << 16 | h - 1,
            s.SURF_NOTCH: notch,
            s.EW_SURF_NOTCH: notch,
            s.EW_SURF_STRIDE: h * full_w * 16,
        }
        for register, name in ((s.RDMA_SRC_BASE, "left"), (s.EW_BASE, "right")):
            r[register] = memory.add(name, p.to_surfaces(gaps[name], h * full_w))
        stream.add(r, s.FLYING)
        return memory, stream.place(memory), r

    memory, tasks, r = program()
    with pytest.raises(SimulatorFault) as fault:
        s.run(memory, tasks, plain=plain)
    assert fault.value.kind == "InconsistentSizes"
    memory, tasks, r = program()
    s.run(memory, tasks, plain=plain, lenient=True)
    found = p.from_surfaces(memory.bytes("output"), shape.c, h, w, h * w)
    np.testing.assert_array_equal(found, oracle.elementwise(shape, r, data))
