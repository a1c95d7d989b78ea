"""DPU and DPU_RDMA of RK3576 in one task, behind a convolution or alone.

Switches are registers as wholes, as the vendor's programs have them. Activations are clamps between
two registers; shifts, or all numbers that are the same for all channels, lie in a record in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from delegate.chip.chip import Chip
from delegate.lower.task import BnStage, ConvTask, DpuTask, OutputCube
from delegate.npu.regcmd import RegCmdWriter

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
CLAMPS: Final = 0x902
"""BN_CFG."""

_UNKNOWN_READERS: Final = (0x5048, 0x504C, 0x5064, 0x506C, 0x5078, 0x507C)

Fields = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Registers of switches (observed). ``bs_reader``, ``bn_reader``: fields of what reads numbers
    from memory; none: it is off.
    """

    feature: int
    writer: int
    writer_mode: int
    bs: int
    grouping: int
    bn: int = 0x903
    ew: int = 0x100_41C1
    unknown_40c0: int = 0x444_0000
    converter: int = 0
    table: int = 0
    rdma: int
    bs_reader: Fields = field(default_factory=dict)
    bn_reader: Fields = field(default_factory=dict)
    ew_reader: int = 0x41


def write_dpu(
    writer: RegCmdWriter,
    chip: Chip,
    task: DpuTask,
    form: Form,
    channels: int,
    following: int = 0,
    table_fields: Mapping[str, Fields] | None = None,
) -> None:
    """``channels``: of the result, as programmed. ``following``: bytes from behind the rows of a
    group's last surface to the next one. ``table_fields``: by registers of the tables.
    """
    _write_cube(writer, task.output, form, channels)
    _write_stages(writer, task, form)
    writer.write("DPU.SURFACE_ADD", SURF_ADD=following)
    behind = {
        "UNDOCUMENTED_40C0": {"MODE": form.unknown_40c0},
        "UNDOCUMENTED_40CC": {"MODE": form.converter},
        "UNDOCUMENTED_40D0": {"MODE": 0x40_FFFF},
        "LUT_CFG": {"MODE": form.table},
        **(table_fields or {}),
    }
    dpu = next(block for block in chip.registers.blocks if block.name == "DPU")
    last = chip.registers.register("DPU.SURFACE_ADD").offset
    for register in dpu.registers:
        if register.offset > last:
            writer.write(register.full_name, **behind.get(register.name, {}))


def _write_cube(writer: RegCmdWriter, output: OutputCube, form: Form, channels: int) -> None:
    height, width = output.height, output.width
    writer.write("DPU.FEATURE_MODE_CFG", MODE=form.feature)
    writer.write("DPU.DATA_FORMAT")
    writer.write("DPU.OFFSET_PEND")
    writer.write_address("DPU.DST_BASE_ADDR", output.target)
    writer.write("DPU.DST_SURF_STRIDE", DST_SURF_STRIDE=output.surface_stride_bytes)
    writer.write("DPU.DATA_CUBE_WIDTH", WIDTH=width)
    writer.write("DPU.DATA_CUBE_HEIGHT", HEIGHT=height)
    writer.write("DPU.DATA_CUBE_NOTCH_ADDR")
    writer.write("DPU.DATA_CUBE_CHANNEL", CHANNEL=channels)
    writer.write("DPU.WDMA_SIZE_0", CHANNEL_WDMA=channels, MODE=form.writer)
    writer.write("DPU.WDMA_SIZE_1", HEIGHT_WDMA=height, WIDTH_WDMA=width)
    writer.write("DPU.WDMA_MODE", MODE=form.writer_mode)
    writer.write("DPU.UNDOCUMENTED_403C")


def _write_stages(writer: RegCmdWriter, task: DpuTask, form: Form) -> None:
    ew, out = task.ew, task.out_convert
    writer.write("DPU.BS_CFG", MODE=form.bs)
    _write_limits(writer, "BS")
    writer.write("DPU.BS_OW_CFG", MODE=form.grouping)
    _write_limits(writer, "BN")
    writer.write("DPU.BN_CFG", MODE=CLAMPS if task.bn.relu else form.bn)
    for name in ("RELU", "RELU_2"):
        _write_limits(writer, name, task.bn)
    writer.write("DPU.EW_CFG", MODE=form.ew)
    writer.write("DPU.EW_CVT_OFFSET_VALUE", SUMMAND=ew.offset if ew is not None else 0)
    scale, shift = (ew.scale, ew.shift) if ew is not None else (1, 0)
    writer.write("DPU.EW_CVT_SCALE_VALUE", SHIFT=shift, SCALE=scale)
    _write_limits(writer, "EW")
    for name in ("EW_OP_VALUE_0", "EW_OP_VALUE_1", "UNDOCUMENTED_409C"):
        writer.write(f"DPU.{name}")
    _write_limits(writer, "OUT")
    is_flying = not isinstance(task, ConvTask)
    writer.write("DPU.OUT_CVT_OFFSET", OUT_CVT_OFFSET=out.offset)
    writer.write("DPU.OUT_CVT_SCALE", FLYING_EN=is_flying, OUT_CVT_SCALE=out.scale)
    writer.write("DPU.OUT_CVT_SHIFT", OUT_CVT_SHIFT=out.shift)


def _write_limits(writer: RegCmdWriter, name: str, clamp: BnStage | None = None) -> None:
    low, high = INT32_MIN, INT32_MAX
    if clamp is not None and clamp.relu:
        low = 0
        high = INT32_MAX if clamp.relux_max is None else clamp.relux_max
    writer.write(f"DPU.{name}_MIN", MIN=low)
    writer.write(f"DPU.{name}_MAX", MAX=high)


def write_rdma(writer: RegCmdWriter, task: DpuTask, form: Form, channels: int) -> None:
    """``channels``: see ``write_dpu``."""
    output, bs, ew = task.output, task.bs, task.ew
    writer.write("DPU_RDMA.RDMA_DATA_CUBE_WIDTH", WIDTH=output.width)
    writer.write("DPU_RDMA.RDMA_DATA_CUBE_HEIGHT", HEIGHT=output.height)
    writer.write("DPU_RDMA.RDMA_DATA_CUBE_CHANNEL", CHANNEL=channels)
    source = None if isinstance(task, ConvTask) else task.source
    writer.write_address("DPU_RDMA.RDMA_SRC_BASE_ADDR", source)
    writer.write("DPU_RDMA.RDMA_BRDMA_CFG", **form.bs_reader)
    writer.write_address("DPU_RDMA.RDMA_BS_BASE_ADDR", bs.operands)
    writer.write_address("DPU_RDMA.RDMA_BS_SCALAR_ADDR", bs.scalars if form.bs_reader else None)
    writer.write("DPU_RDMA.RDMA_NRDMA_CFG", **form.bn_reader)
    writer.write("DPU_RDMA.RDMA_BN_BASE_ADDR")
    writer.write_address("DPU_RDMA.RDMA_BN_SCALAR_ADDR", bs.scalars if form.bn_reader else None)
    writer.write("DPU_RDMA.RDMA_ERDMA_CFG", MODE=form.ew_reader)
    writer.write_address("DPU_RDMA.RDMA_EW_BASE_ADDR", None if ew is None else ew.operand)
    stride = 0 if ew is None else ew.surface_stride_bytes
    writer.write("DPU_RDMA.RDMA_EW_SURF_STRIDE", EW_SURF_STRIDE=stride)
    writer.write("DPU_RDMA.RDMA_FEATURE_MODE_CFG", MODE=form.rdma)
    for offset in _UNKNOWN_READERS:
        writer.write(f"DPU_RDMA.UNDOCUMENTED_{offset:04X}")
