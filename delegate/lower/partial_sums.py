"""Tasks of a convolution whose input channels are split: int32 sums from pass to pass.

The BS ALU adds an int32 per channel from memory: the bias of an ordinary task. A pass that writes
its accumulators as int32 (``OutputCube.element_bytes`` 4) for one pixel leaves exactly such a
vector, dense, so the next pass takes it in place of the bias, and the last pass is the ordinary
task: the same stages, the same result, bit for bit.

Per-channel layers read BS operands as blocks of 8 channels: 32 bytes of summands, then 32 bytes of
multipliers (``pack_operand_blocks``). Their last sums are written into the blocks: four channels at
a time (a surface of int32), every 64 bytes. So one task writes the first halves of all summands,
another one the second halves, the kernels being sorted for that; and a copy brings the multipliers.

Certainty: int32 results of int8 convolutions, without OW and with groups of eight surfaces, were
measured on silicon by others; BS with summands from memory is in every program. That BRDMA reads
what an earlier task of a chain wrote is assumed, as CNA and MRDMA do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, CHANNELS_PER_SURFACE, align
from delegate.lower.conv_spec import Convolution
from delegate.lower.conv_stages import bs_multipliers, requantization, requantizing_stages, summands
from delegate.lower.numerics.pipeline import Int64Array, Pipeline
from delegate.lower.operation import ConstantPool
from delegate.lower.task import (
    BsStage,
    ConvTask,
    ElementwiseTask,
    FeatureInput,
    OutputCube,
    Ref,
    Source,
    Stages,
    Task,
)
from delegate.lower.tiling.choices import SUM_BYTES, InputGroups
from delegate.lower.tiling.sum_passes import (
    BLOCK_BYTES,
    HALF_BLOCK_BYTES,
    SUM_LANES,
    Pass,
    blocks_per_copy,
    check_range,
    kernel_order,
    pack_group,
    some_kernels,
    sorted_channels,
    sum_passes,
)
from delegate.lower.weights import OPERAND_BLOCK_CHANNELS, pack_operand_blocks, padded_operands


def cube_of_sums(
    chip: Chip, target: Ref, kernels: int, real: int, stride_bytes: int = ATOM_BYTES
) -> OutputCube:
    """int32 of a pixel, ``real`` of those of ``kernels``, in surfaces ``stride_bytes`` apart."""
    group = chip.groups.dense_kernels
    return OutputCube(
        target=target,
        height=1,
        width=1,
        channels=align(kernels, group),
        channels_real=real,
        surface_stride_bytes=stride_bytes,
        surfaces_per_group=group // SUM_LANES,
        element_bytes=SUM_BYTES,
    )


def adding(operands: Ref, used: int) -> BsStage:
    """BS that adds int32, the first ``used`` of which matter."""
    return BsStage(alu=Source.MEMORY, operands=operands, operands_used=used)


PLACES_OF_SUMS = 2
"""No task overwrites what it reads."""


def lower_input_groups(
    conv: Convolution,
    plan: InputGroups,
    constants: ConstantPool,
    work: Ref,
) -> tuple[list[Task], str]:
    """Tasks pass by pass, in each of them all pixels, and what they are. Raises LoweringError."""
    pipeline = requantization(conv, conv.wanted, is_in_parts=True)
    bias = summands(conv, pipeline)
    order = kernel_order(conv)
    groups, data_banks, _ = plan
    sums, reach = sum_passes(conv, groups, order, constants)
    check_range(conv, bias, reach)
    builder = _Builder(conv, data_banks, order, bias, len(sums), constants, work)
    tasks = [*builder.sums(sums), *builder.results(pipeline, groups[-1])]
    passes = len(sums) + 1
    choice = (
        f"input channels in {len(groups)} groups, {passes} passes per pixel with int32 sums "
        f"between them, {len(tasks)} tasks"
    )
    return tasks, choice


def _sizes(conv: Convolution, kernels: int) -> tuple[int, int]:
    """Return the bytes of a pixel's sums of ``kernels``, and of its block of operands."""
    channels = align(conv.output_view.channels, sorted_channels(conv.chip))
    vector = align(kernels, conv.chip.groups.dense_kernels) * SUM_BYTES
    return vector, channels // OPERAND_BLOCK_CHANNELS * BLOCK_BYTES


def work_bytes(conv: Convolution) -> int:
    """Return the bytes that sums take, in two places, and operands that are made of them."""
    vector, block = _sizes(conv, len(kernel_order(conv)))
    pixels = conv.output_view.images * conv.output_view.pixels
    return pixels * (PLACES_OF_SUMS * vector + (block if conv.per_channel else 0))


class _Builder:
    """Makes the tasks; output pixels are numbered over all images. The sums alternate between two
    places.
    """

    def __init__(
        self,
        conv: Convolution,
        data_banks: int,
        order: npt.NDArray[np.int64],
        bias: Int64Array,
        sum_count: int,
        constants: ConstantPool,
        work: Ref,
    ) -> None:
        self._conv = conv
        self._data_banks = data_banks
        self._constants = constants
        self._kernels = len(order)
        self._sum_count = sum_count
        self._vector_bytes, self._block_bytes = _sizes(conv, len(order))
        sorted_bias = np.zeros(self._kernels, np.int64)
        is_real = order < len(bias)
        sorted_bias[is_real] = bias[order[is_real]]
        kernels = align(len(order), conv.chip.groups.dense_kernels)
        self._bias = constants.add(padded_operands(sorted_bias, kernels, "<i4").tobytes())
        self._pixels = range(conv.output_view.images * conv.output_view.pixels)
        # Of which operands are read; those behind them only make two halves of whole groups.
        self._operand_channels = align(conv.output_view.channels, conv.chip.groups.dense_kernels)
        self._vectors = work
        self._blocks = work.moved(PLACES_OF_SUMS * len(self._pixels) * self._vector_bytes)

    def sums(self, passes: list[Pass]) -> Iterator[Task]:
        """All passes but the last."""
        for index, one in enumerate(passes):
            is_last = index == len(passes) - 1
            if is_last and self._conv.per_channel:
                half = self._kernels // 2
                for part in range(2):
                    narrowed = one[0], some_kernels(one[1], part * half, half)
                    for pixel in self._pixels:
                        yield self._sum(narrowed, index, pixel, part)
                continue
            for pixel in self._pixels:
                yield self._sum(one, index, pixel, None)

    def _sum(self, one: Pass, index: int, pixel: int, part: int | None) -> ConvTask:
        """Sum ``index``; ``part``: the half of the operand blocks that it fills, where fewer
        channels are read than kernels were sorted for.
        """
        before = self._bias if index == 0 else self._vector(index - 1, pixel)
        given = one[1].kernels
        target, stride = self._vector(index, pixel), ATOM_BYTES
        if part is not None:
            before = before.moved(part * given * SUM_BYTES)
            target, stride = self._block(pixel).moved(part * ATOM_BYTES), BLOCK_BYTES
        kernels = real = given
        if part is not None:
            real = self._operand_channels // 2
        elif not self._conv.per_channel:
            real = self._conv.output_view.channels
        output = cube_of_sums(self._conv.chip, target, kernels, real, stride)
        bs = adding(before, real if part is None else kernels)
        name = f"sum {index + 1}" if part is None else f"sum {index + 1} half {part}"
        return self._task(one, pixel, name, output, Stages(bs))

    def results(self, pipeline: Pipeline, group: range) -> Iterator[Task]:
        """The last pass: the operands of BS are the sums."""
        conv = self._conv
        outputs = conv.output_view.channels
        lanes = conv.weights[..., group.start : group.stop]
        order = np.arange(outputs)
        weights = pack_group(
            lanes, group, order, self._constants, conv.chip, conv.weight_zero_point
        )
        if conv.per_channel:
            yield from self._copies(bs_multipliers(pipeline))
        cube = align(outputs, conv.chip.groups.dense_kernels)
        last = self._sum_count - 1
        stages = requantizing_stages(conv, pipeline, self._vectors, cube, self._constants)
        for pixel in self._pixels:
            operands = self._block(pixel) if conv.per_channel else self._vector(last, pixel)
            output = OutputCube(
                target=conv.target.pixel(pixel),
                height=1,
                width=1,
                channels=cube,
                channels_real=outputs,
                surface_stride_bytes=conv.target.surface_stride_bytes,
                surfaces_per_group=conv.chip.groups.dense_kernels // CHANNELS_PER_SURFACE,
            )
            own = stages._replace(bs=replace(stages.bs, operands=operands))
            yield self._task((group, weights), pixel, "result", output, own)

    def _copies(self, multipliers: Int64Array) -> Iterator[ElementwiseTask]:
        """The second halves of all blocks, two atoms each, as surfaces of two pixels."""
        blocks, most = self._block_bytes // BLOCK_BYTES, blocks_per_copy(self._conv.chip)
        no_bias = np.zeros(0, np.int64)
        packed = pack_operand_blocks(no_bias, multipliers, blocks * OPERAND_BLOCK_CHANNELS)
        source = self._constants.add(packed).moved(HALF_BLOCK_BYTES)
        for pixel in self._pixels:
            target = self._block(pixel).moved(HALF_BLOCK_BYTES)
            for first in range(0, blocks, most):
                count = min(most, blocks - first)
                needed = self._operand_channels // OPERAND_BLOCK_CHANNELS - first
                yield ElementwiseTask(
                    tile=f"pixel {pixel} multipliers",
                    source=source.moved(first * BLOCK_BYTES),
                    source_surface_stride_bytes=BLOCK_BYTES,
                    output=OutputCube(
                        target=target.moved(first * BLOCK_BYTES),
                        height=1,
                        width=HALF_BLOCK_BYTES // ATOM_BYTES,
                        channels=count * CHANNELS_PER_SURFACE,
                        channels_real=min(count, max(needed, 0)) * CHANNELS_PER_SURFACE,
                        surface_stride_bytes=BLOCK_BYTES,
                        surfaces_per_group=1,
                    ),
                )

    def _vector(self, index: int, pixel: int) -> Ref:
        place = index % 2 * len(self._pixels) + pixel
        return self._vectors.moved(place * self._vector_bytes)

    def _block(self, pixel: int) -> Ref:
        return self._blocks.moved(pixel * self._block_bytes)

    def _task(
        self,
        one: Pass,
        pixel: int,
        name: str,
        output: OutputCube,
        stages: Stages,
    ) -> ConvTask:
        conv, (group, weights) = self._conv, one
        banks = conv.chip.cbuf.banks - self._data_banks
        is_resident = weights.total_bytes <= banks * conv.chip.cbuf.bank_bytes
        return ConvTask(
            tile=f"pixel {pixel} {name} input channels {group[0]}..{group[-1]}",
            feature=self._feature(group, pixel),
            weights=weights,
            data_banks=self._data_banks,
            weight_banks=banks,
            weight_reuse=is_resident and pixel > 0,
            output=output,
            strides=conv.strides,
            dilations=conv.dilations,
            is_depthwise=False,
            **stages._asdict(),
        )

    def _feature(self, group: range, pixel: int) -> FeatureInput:
        conv, view = self._conv, self._conv.input_view
        image, place = divmod(pixel, conv.output_view.pixels)
        row, column = divmod(place, conv.output_view.width)
        rows = self._conv.geometry.rows.window(row, 1)
        columns = self._conv.geometry.columns.window(column, 1)
        first = image * view.pixels + rows.input_start * view.width + columns.input_start
        stride = conv.source.surface_stride_bytes
        surfaces = group.start // CHANNELS_PER_SURFACE
        return FeatureInput(
            source=conv.source.pixel(first).moved(surfaces * stride),
            height=rows.input_size,
            width=columns.input_size,
            channels=len(group),
            channels_real=min(len(group), view.channels - group.start),
            line_stride_bytes=view.width * ATOM_BYTES,
            surface_stride_bytes=stride,
            entries_per_row=self._conv.geometry.row_entries(columns.input_size, len(group)),
            pad_top=rows.pad,
            pad_left=columns.pad,
            pad_value=conv.source.zero_point,
        )
