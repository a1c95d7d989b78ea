"""DPU and DPU_RDMA of RK3576 in one task, behind a convolution or alone.

Switches are registers as wholes, as the vendor's programs have them. Activations are clamps between
two registers; shifts, or all numbers that are the same for all channels, lie in a record in memory.

Refuse settings that no known convolution of RK3576 has: BLOCK.REGISTER.FIELD, what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, align
from delegate.lower.task import BnStage, ConvTask, DpuTask, ElementwiseTask, Source
from delegate.npu.regcmd import Table, cube, joined

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
CLAMPS: Final = 0x902
"""BN_CFG."""

Fields = Mapping[str, int]
_NO_CLAMP: Final[Fields] = {"MIN": INT32_MIN, "MAX": INT32_MAX}


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


def dpu_values(
    task: DpuTask,
    form: Form,
    channels: int,
    following: int = 0,
    tables: Table | None = None,
) -> Table:
    """Return the values of DPU and DPU_RDMA. ``channels``: of the result, as programmed.
    ``following``: bytes from behind the rows of a group's last surface to the next one. ``tables``:
    what the registers of the lookup tables have.
    """
    ew, is_flying = task.ew, isinstance(task, ElementwiseTask)
    scale, shift = (ew.scale, ew.shift) if ew is not None else (1, 0)
    activation = _clamp(task.bn)
    own: Table = {
        "DPU.WDMA_SIZE_0": {"MODE": form.writer},
        **{f"DPU.{name}": {"MODE": mode} for name, mode in _modes(form, task).items()},
        **{
            f"DPU.{stage}_{end}": {end: limit}
            for stage in ("BS", "BN", "RELU", "RELU_2", "EW", "OUT")
            for end, limit in (activation if stage.startswith("RELU") else _NO_CLAMP).items()
        },
        "DPU.EW_CVT_OFFSET_VALUE": {"SUMMAND": ew.offset if ew is not None else 0},
        "DPU.EW_CVT_SCALE_VALUE": {"SHIFT": shift, "SCALE": scale},
        "DPU.OUT_CVT_SCALE": {"FLYING_EN": is_flying},
        "DPU.SURFACE_ADD": {"SURF_ADD": following},
    }
    return joined(cube(task, channels), own, tables or {}, _rdma_values(task, form))


def _modes(form: Form, task: DpuTask) -> dict[str, int]:
    """Return the registers that are known as wholes."""
    return {
        "FEATURE_MODE_CFG": form.feature,
        "WDMA_MODE": form.writer_mode,
        "BS_CFG": form.bs,
        "BS_OW_CFG": form.grouping,
        "BN_CFG": CLAMPS if task.bn.relu else form.bn,
        "EW_CFG": form.ew,
        "UNDOCUMENTED_40C0": form.unknown_40c0,
        "UNDOCUMENTED_40CC": form.converter,
        "UNDOCUMENTED_40D0": 0x40_FFFF,
        "LUT_CFG": form.table,
    }


def _clamp(stage: BnStage) -> Fields:
    if not stage.relu:
        return _NO_CLAMP
    return {"MIN": 0, "MAX": INT32_MAX if stage.relux_max is None else stage.relux_max}


def _rdma_values(task: DpuTask, form: Form) -> Table:
    bs, ew = task.bs, task.ew
    values: Table = {
        "SRC_BASE_ADDR": task.source if isinstance(task, ElementwiseTask) else None,
        "BRDMA_CFG": form.bs_reader,
        "BS_SCALAR_ADDR": bs.scalars if form.bs_reader else None,
        "NRDMA_CFG": form.bn_reader,
        "BN_SCALAR_ADDR": bs.scalars if form.bn_reader else None,
        "ERDMA_CFG": {"MODE": form.ew_reader},
        "EW_BASE_ADDR": None if ew is None else ew.operand,
        "EW_SURF_STRIDE": {"EW_SURF_STRIDE": 0 if ew is None else ew.surface_stride_bytes},
        "FEATURE_MODE_CFG": {"MODE": form.rdma},
    }
    return {f"DPU_RDMA.RDMA_{name}": value for name, value in values.items()}


PIXELS_AT_ONCE = 4
"""The unit, in pixels, of what is fetched of a surface, and of a depthwise surface."""


def problems(chip: Chip, task: ConvTask) -> Iterator[tuple[str, str]]:
    """Yield settings that no known program of this chip has: BLOCK.REGISTER.FIELD, and what is
    wrong there.
    """
    yield from _unknown_stages(task)
    yield from _cbuf_problems(chip, task)
    feature, weights, output = task.feature, task.weights, task.output
    if task.spread != (1, 1):
        yield "CNA.CONV_CON1.CONV_MODE", "of transposed convolutions is not known"
    channels = feature.channels
    per_kernel = channels * weights.kh * weights.kw
    expected = 2 * per_kernel if task.is_depthwise else weights.kernels * per_kernel
    if weights.total_bytes != expected:
        problem = f"= {weights.total_bytes} is not the {expected} bytes of the kernels"
        yield "CNA.WEIGHT_SIZE0.WEIGHT_BYTES", problem
    # Both of the sources that differ on odd numbers of surfaces agree on whole groups.
    group = chip.groups.dense_kernels
    kernels = channels if task.is_depthwise else weights.kernels
    written = align(kernels, chip.groups.outputs(task.is_depthwise))
    if output.channels != written or (not task.is_depthwise and kernels % group):
        problem = f"= {output.channels} is not {kernels} kernels in whole groups"
        yield "DPU.DATA_CUBE_CHANNEL.CHANNEL", problem
    stride = output.surface_stride_bytes
    if task.is_depthwise and stride > ATOM_BYTES and stride % (PIXELS_AT_ONCE * ATOM_BYTES):
        problem = f"= {stride}: depthwise surfaces are multiples of 4 pixels, or one"
        yield "DPU.DST_SURF_STRIDE.DST_SURF_STRIDE", problem


def _unknown_stages(task: ConvTask) -> Iterator[tuple[str, str]]:
    bs, bn = task.bs, task.bn
    ow = Source.OFF if task.is_depthwise else Source.MEMORY
    if (bs.alu, bs.ow, bs.mul) != (Source.MEMORY, ow, Source.MEMORY):
        problem = "takes its operands from memory in every known program"
        yield "DPU.BS_CFG.MODE", problem
    if bs.relu or bs.relux_max is not None:
        yield "DPU.BS_MIN", "clamps in no known program"
    if bn.mul is not Source.OFF or bn.alu_operand is not None:
        yield "DPU.BN_CFG.MODE", "for a multiplier or a summand behind convolutions is not known"
    if bn.relux_max is not None and not bn.relu:
        yield "DPU.RELU_MAX.MAX", "without a lower limit is in no known program"
    if task.ew is not None or task.table is not None:
        yield "DPU.EW_CFG.MODE", "for operands and tables has no proven form"
    if task.out_convert.ties_away:
        yield "DPU.OUT_CVT_SHIFT.OUT_CVT_SHIFT", "with ties away from zero is not known"


def _cbuf_problems(chip: Chip, task: ConvTask) -> Iterator[tuple[str, str]]:
    banks, entries = (task.data_banks, task.weight_banks), task.feature.entries_per_row
    if banks != (chip.cbuf.data_banks, chip.cbuf.weight_banks):
        problem = f"= {task.data_banks} of {sum(banks)} is not proven"
        yield "CNA.CBUF_CON0.DATA_BANK", problem
    if not 1 <= entries <= chip.cbuf.max_row_entries:
        problem = f"= {entries} exceeds the limit 1..{chip.cbuf.max_row_entries}"
        yield "CNA.CBUF_CON2.DATA_ENTRIES", problem
    if entries * task.feature.height > task.data_banks * chip.cbuf.bank_entries:
        problem = f"= {task.data_banks} cannot hold {task.feature.height} rows of {entries} entries"
        yield "CNA.CBUF_CON0.DATA_BANK", problem
    weights = task.weights
    group_bytes = weights.total_bytes
    if not task.is_depthwise:
        group_bytes = min(weights.kernels, chip.groups.dense_kernels) * weights.bytes_per_kernel
    if group_bytes > chip.cbuf.weight_slice_bytes:
        problem = f"of {group_bytes} bytes in a group exceed {chip.cbuf.weight_slice_bytes}"
        yield "CNA.WEIGHT_SIZE1.WEIGHT_BYTES_PER_KERNEL", problem
