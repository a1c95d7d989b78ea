"""Refuse settings that no known convolution of RK3576 has: BLOCK.REGISTER.FIELD, what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES
from delegate.chip.limits import align
from delegate.lower.task import ConvTask, Source

PIXELS_AT_ONCE = 4
"""The unit, in pixels, of what is fetched of a surface, and of a depthwise surface."""


def problems(chip: Chip, task: ConvTask) -> Iterator[tuple[str, str]]:
    """Yield settings that no known program of this chip has: BLOCK.REGISTER.FIELD, and what is
    wrong there.
    """
    yield from _unknown_stages(task)
    yield from _cbuf_problems(chip, task)
    feature, weights, output = task.feature, task.weights, task.output
    if weights.kh != weights.kw:
        problem = f"for {weights.kh} x {weights.kw}: sources differ on which side is the height"
        yield "CNA.WEIGHT_SIZE2.WEIGHT_SIDE_1", problem
    if task.dilations[0] != task.dilations[1]:
        problem = "for different dilations: which field is which is not known"
        yield "CNA.CONV_CON3.ATROUS_Y_DILATION", problem
    if task.strides[0] != task.strides[1]:
        problem = "for different strides is in no known program"
        yield "CNA.CONV_CON3.CONV_Y_STRIDE", problem
    if task.spread != (1, 1):
        yield "CNA.CONV_CON1.CONV_MODE", "of transposed convolutions is not known"
    if feature.line_stride_bytes != feature.width * ATOM_BYTES:
        yield "CNA.DMA_CON1.LINE_STRIDE", "of a part of the columns is not known"
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
    if output.element_bytes != 1:
        problem = "of sums: they leave later jobs without results until power is off"
        yield "DPU.DATA_FORMAT.OUT_PRECISION", problem
    if output.row_gap_bytes:
        yield "DPU.DATA_CUBE_NOTCH_ADDR.MODE", "of gaps between rows is not known"
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
    if bs.operands is None or bs.scalars is None:
        yield "DPU_RDMA.RDMA_BS_SCALAR_ADDR", "needs a record of shifts in memory"
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
    cbuf, entries = task.cbuf, task.feature.entries_per_row
    if cbuf.weight_reuse or cbuf.data_reuse:
        yield "CNA.CBUF_CON1.WEIGHT_REUSE", "is not used: every task fetches its own"
    if (cbuf.data_banks, cbuf.weight_banks) != (chip.cbuf.data_banks, chip.cbuf.weight_banks):
        problem = f"= {cbuf.data_banks} of {cbuf.data_banks + cbuf.weight_banks} is not proven"
        yield "CNA.CBUF_CON0.DATA_BANK", problem
    if not 1 <= entries <= chip.cbuf.max_row_entries:
        problem = f"= {entries} exceeds the limit 1..{chip.cbuf.max_row_entries}"
        yield "CNA.CBUF_CON2.DATA_ENTRIES", problem
    if entries * task.feature.height > cbuf.data_banks * chip.cbuf.bank_entries:
        problem = f"= {cbuf.data_banks} cannot hold {task.feature.height} rows of {entries} entries"
        yield "CNA.CBUF_CON0.DATA_BANK", problem
    weights = task.weights
    group_bytes = weights.total_bytes
    if not task.is_depthwise:
        group_bytes = min(weights.kernels, chip.groups.dense_kernels) * weights.bytes_per_kernel
    if group_bytes > chip.cbuf.weight_slice_bytes:
        problem = f"of {group_bytes} bytes in a group exceed {chip.cbuf.weight_slice_bytes}"
        yield "CNA.WEIGHT_SIZE1.WEIGHT_BYTES_PER_KERNEL", problem
