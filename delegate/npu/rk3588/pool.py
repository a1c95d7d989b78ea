"""Encode a pooling task as one segment of 26 registers: the PPU, fed from memory.

The registers are those of the vendor's recorded pooling tasks (``whole_graph.md`` section 3).
"""

from __future__ import annotations

from collections.abc import Iterator

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, Element
from delegate.chip.register_model import BurstLength, ElementSize, PoolMethod
from delegate.lower.task import PoolTask
from delegate.lower.tiling.geometry import pooled_columns
from delegate.npu.regcmd import REARMED, RegCmdWriter, Segment
from delegate.npu.rk3588.dpu import PRECISIONS

ENABLE_MASK = 0x60
"""Blocks that start: PPU and PPU_RDMA."""

INT_MASK = 0xC00
"""Interrupts that mean completion: PPU, either register group."""

_FROM_MEMORY = 1
_RECIPROCAL = 1 << 16
_LEAST = {Element.INT8: -(1 << 7), Element.FP16: 0xFC00}
"""The value of padding: the least, of 35 bits; it takes no part in a maximum."""
_LOW_BITS, _HIGH_BITS = 32, 3


def encode_pool(chip: Chip, layer: str, task: PoolTask) -> Segment:
    """Return the segment of ``task``. Raises EncodingError."""
    writer = RegCmdWriter(layer, task.tile)
    writer.refuse(_problems(chip, task))
    for name in ("PPU.S_POINTER", "PPU_RDMA.RDMA_S_POINTER"):
        writer.write(name, **REARMED)
    _write_cubes(writer, task)
    _write_window(writer, task)
    _write_places(writer, task)
    return writer.finish(ENABLE_MASK, INT_MASK)


def _problems(chip: Chip, task: PoolTask) -> Iterator[tuple[str, str]]:
    output = task.output
    if output.channels % task.element.lanes:
        yield "PPU.DATA_CUBE_OUT_CHANNEL", f"= {output.channels} is not whole surfaces"
    sides = zip(("HEIGHT", "WIDTH"), task.kernel, task.strides, strict=True)
    for side, kernel, stride in sides:
        if stride > kernel:
            place = f"PPU.POOLING_KERNEL_CFG.KERNEL_STRIDE_{side}"
            yield place, f"= {stride} is more than the window's {kernel}, which hung"
    most = pooled_columns(task.kernel[0], task.strides[0])
    if output.width > most:
        yield "PPU.DATA_CUBE_OUT_WIDTH", f"= {output.width} is more than {most} columns"
    if max(output.height, output.width, task.height, task.width) > chip.limits.cube_size:
        yield "PPU.DATA_CUBE_IN_WIDTH", "a side is longer than the field"
    reached = [
        (count - 1) * stride + kernel
        for count, stride, kernel in zip(
            (output.height, output.width), task.strides, task.kernel, strict=True
        )
    ]
    sizes = (task.height, task.width)
    held = [sum(side) for side in zip(sizes, task.pad_before, task.pad_after, strict=True)]
    if reached != held:
        yield "PPU.DATA_CUBE_IN_HEIGHT", f"windows reach {reached} pixels of {held}"


def _write_cubes(writer: RegCmdWriter, task: PoolTask) -> None:
    output = task.output
    for prefix, name, height, width in (
        ("PPU.DATA_", "IN", task.height, task.width),
        ("PPU.DATA_", "OUT", output.height, output.width),
        ("PPU_RDMA.RDMA_", "IN", task.height, task.width),
    ):
        sides = {"WIDTH": width, "HEIGHT": height, "CHANNEL": output.channels}
        for side, value in sides.items():
            writer.write(f"{prefix}CUBE_{name}_{side}", **{f"CUBE_{name}_{side}": value})


def _write_window(writer: RegCmdWriter, task: PoolTask) -> None:
    (kernel_h, kernel_w), (stride_h, stride_w) = task.kernel, task.strides
    writer.write(
        "PPU.OPERATION_MODE_CFG",
        NOTCH_ADDR=task.output.row_gap_bytes // ATOM_BYTES,
        FLYING_MODE=_FROM_MEMORY,
        POOLING_METHOD=PoolMethod.MAX,
    )
    writer.write(
        "PPU.POOLING_KERNEL_CFG",
        KERNEL_STRIDE_HEIGHT=stride_h,
        KERNEL_STRIDE_WIDTH=stride_w,
        KERNEL_HEIGHT=kernel_h,
        KERNEL_WIDTH=kernel_w,
    )
    writer.write("PPU.RECIP_KERNEL_WIDTH", RECIP_KERNEL_WIDTH=_RECIPROCAL // kernel_w)
    writer.write("PPU.RECIP_KERNEL_HEIGHT", RECIP_KERNEL_HEIGHT=_RECIPROCAL // kernel_h)
    (top, left), (bottom, right) = task.pad_before, task.pad_after
    writer.write(
        "PPU.POOLING_PADDING_CFG", PAD_BOTTOM=bottom, PAD_RIGHT=right, PAD_TOP=top, PAD_LEFT=left
    )
    least = _LEAST[task.element]
    low, high = least & (1 << _LOW_BITS) - 1, least >> _LOW_BITS & (1 << _HIGH_BITS) - 1
    writer.write("PPU.PADDING_VALUE_1_CFG", PAD_VALUE_0=low)
    writer.write("PPU.PADDING_VALUE_2_CFG", PAD_VALUE_1=high)


def _write_places(writer: RegCmdWriter, task: PoolTask) -> None:
    output = task.output
    writer.write_address("PPU.DST_BASE_ADDR", output.target)
    writer.write("PPU.DST_SURF_STRIDE", DST_SURF_STRIDE=output.surface_stride_bytes)
    writer.write(
        "PPU.DATA_FORMAT",
        INDEX_ADD=output.surface_stride_bytes,
        PROC_PRECISION=PRECISIONS[task.element],
    )
    writer.write("PPU.MISC_CTRL", BURST_LEN=BurstLength.BURST_4)
    writer.write_address("PPU_RDMA.RDMA_SRC_BASE_ADDR", task.source)
    writer.write("PPU_RDMA.RDMA_SRC_LINE_STRIDE", SRC_LINE_STRIDE=task.source_line_stride_bytes)
    writer.write("PPU_RDMA.RDMA_SRC_SURF_STRIDE", SRC_SURF_STRIDE=task.source_surface_stride_bytes)
    size = ElementSize.BITS_8 if task.element is Element.INT8 else ElementSize.BITS_16
    writer.write("PPU_RDMA.RDMA_DATA_FORMAT", IN_PRECISION=size)
