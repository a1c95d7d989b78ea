"""The values that the tiler works on: axes and their windows, kernels in parts, CBUF entries of a
row.

Pure integers; knows no register and no operator. The rule of ``row_entries`` is read from
programs that run on silicon.

Estimate the cost of a task by formulas that need no task: MAC cycles, bytes on the bus, kicks.

Estimates, not measurements. The cycle rules agree with the vendor compiler's own table on every
convolution that was compared (347 of 347); the bus rate is the one that table implies. The tiler
chooses by them, and ``delegate.npu.perf`` counts finished tasks with the same functions.

Windows that slide over a map, of pooling and reductions: sizes, strides and borders.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, align


@dataclass(frozen=True, slots=True)
class Window:
    """Output rows (or columns) [output_start, + output_size) from input [input_start, +
    input_size). ``pad``: padding before the first input row that the window reaches over.
    """

    output_start: int
    output_size: int
    input_start: int
    input_size: int
    pad: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of a convolution. ``pad`` is the padding before the image; the one after it
    follows from ``output_size``. Output rows before ``begin`` are somebody else's. ``spread``: how
    many rows an input row takes, itself and such as hold nothing.
    """

    input_size: int
    output_size: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pad: int = 0
    begin: int = 0
    spread: int = 1

    @property
    def wanted(self) -> int:
        """Output rows to compute."""
        return self.output_size - self.begin

    @property
    def reach(self) -> int:
        """Input rows one output row reaches over."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def pad_after(self) -> int:
        """Return the padding behind the image that the last output row reaches."""
        end = (self.output_size - 1) * self.stride + self.reach
        return max(end - self.input_size - self.pad, 0)

    @property
    def padding(self) -> int:
        return self.pad + self.pad_after

    @property
    def padded(self) -> int:
        return self.input_size + self.padding

    def beside(self, inputs: int, outputs: int) -> Axis | None:
        """Return the axis where so many rows of input and of output lie side by side as channels;
        None: they do not divide it.
        """
        step = self.stride * outputs
        sizes = (self.input_size, inputs), (self.output_size, outputs), (step, inputs)
        is_close = self.dilation == self.spread == 1 and not self.begin
        if not is_close or any(size % count for size, count in sizes):
            return None
        # Taps are counted from the rows that lie beside row 0.
        first = -self.pad // inputs
        last = ((outputs - 1) * self.stride + self.kernel - 1 - self.pad) // inputs
        return Axis(
            self.input_size // inputs,
            self.output_size // outputs,
            last - first + 1,
            step // inputs,
            pad=-first,
        )

    def window(self, start: int, size: int) -> Window:
        """Return the input of output rows [start, + size), clipped to the image."""
        first = start * self.stride - self.pad
        last = (start + size - 1) * self.stride - self.pad + self.reach - 1
        begin = ceil_div(max(first, 0), self.spread)
        end = min(last // self.spread, self.input_size - 1)
        return Window(start, size, begin, end - begin + 1, begin * self.spread - first)

    def outputs_within(self, start: int, input_rows: int) -> int:
        """Return the most output rows from ``start`` that need at most ``input_rows``; 0: not even
        one.
        """
        remaining = self.output_size - start
        # Input rows end at row `end`, exclusive, unless the image ends before.
        end = ceil_div(max(start * self.stride - self.pad, 0), self.spread) + input_rows
        if end >= self.input_size:
            return remaining
        # Row o ends at o * stride - pad + reach, exclusive.
        last = (end * self.spread - self.reach + self.pad) // self.stride
        return max(0, min(remaining, last - start + 1))

    def windows(self, size: int) -> tuple[Window, ...]:
        """Windows of ``size`` output rows each; the last one may be smaller."""
        return tuple(
            self.window(start, min(size, self.output_size - start))
            for start in range(self.begin, self.output_size, size)
        )


@dataclass(frozen=True, slots=True)
class ConvGeometry:
    """The geometry of one image of a convolution.

    ``channels``: input channels as programmed (whole atoms), of which ``real_channels`` count for
    the MAC array's steps (0: all). ``kernels``: programmed kernels, or
    channels if depthwise; ``outputs``: the real output channels. ``images`` are convolved one after
    the other. ``node``: the one that is refused where no tile fits.
    """

    rows: Axis
    columns: Axis
    channels: int
    kernels: int
    outputs: int
    is_depthwise: bool = False
    element_bytes: int = 1
    images: int = 1
    real_channels: int = 0
    chip: Chip = field(kw_only=True)
    node: int = field(default=-1, compare=False)

    @property
    def taps(self) -> int:
        return self.rows.kernel * self.columns.kernel

    @property
    def group(self) -> int:
        """Output channels that are computed, and written, together."""
        return self.chip.groups.outputs(self.is_depthwise, self.element_bytes)

    @property
    def unit(self) -> int:
        """Kernels a part consists of multiples of: whole groups, or where the weights of one do
        not fit CBUF, the kernels of one surface.

        A task of the latter kind still writes a whole group: its last surfaces hold nothing of use
        until the next part overwrites them, and those of the last part need room.
        """
        cbuf, group = self.chip.cbuf, self.group
        if cbuf.data_banks or self.is_depthwise:
            return group
        # Banks for one output pixel of a group.
        part = Part(0, min(self.kernels, group), 1)
        reach = min(self.columns.reach, self.columns.input_size)
        rows = min(self.rows.reach, self.rows.input_size)
        entries = self.row_entries(reach, self.input_channels(part))
        weights = ceil_div(self.group_bytes(part), cbuf.bank_bytes)
        is_whole = cbuf.banks_of_image(rows, reach, entries) + weights <= cbuf.banks
        return group if is_whole else ATOM_BYTES // self.element_bytes

    def row_entries(self, width: int, channels: int) -> int:
        """CBUF entries of one row: whole entries of 64 bytes per pixel, and the rest of the
        channels packed.

        The rest is rounded up to 16, 32 or 64 bytes per pixel (exact on 34 of 34 observed shapes;
        C = 48 takes 64).
        """
        entry_bytes = self.chip.cbuf.entry_bytes
        whole, rest = divmod(channels * self.element_bytes, entry_bytes)
        rest_bytes = next(size for size in (0, 16, 32, 64) if size >= rest)
        return width * whole + ceil_div(width * rest_bytes, entry_bytes)

    def input_channels(self, part: Part) -> int:
        """Channels a task of ``part`` fetches."""
        return part.kernels if self.is_depthwise else self.channels

    def weight_bytes(self, part: Part) -> int:
        lanes = part.kernels if self.is_depthwise else part.kernels * self.channels
        per_weight = self.chip.groups.depthwise_weight_bytes if self.is_depthwise else 1
        return lanes * self.taps * self.element_bytes * per_weight

    def group_bytes(self, part: Part) -> int:
        """Weights of one group of kernels. Depthwise weights count as one group."""
        if self.is_depthwise:
            return self.weight_bytes(part)
        kernels = min(part.kernels, self.group)
        return kernels * self.channels * self.taps * self.element_bytes


@dataclass(frozen=True, slots=True)
class Part:
    """Kernels (depthwise: channels) [first, + kernels) of which ``outputs`` are real."""

    first: int
    kernels: int
    outputs: int

    def surfaces(self, group: int, lanes: int) -> range:
        """Surfaces, of ``lanes`` channels, of the result that a task of this part writes: whole
        groups of ``group`` channels from its first one on.
        """
        first = self.first // lanes
        return range(first, first + align(self.outputs, group) // lanes)


def ceil_div(value: int, group: int) -> int:
    """``value / group``, rounded up."""
    return -(-value // group)


def dense_cycles(
    chip: Chip, pixels: int, kernels: int, channels: int, taps: int, element_bytes: int = 1
) -> int:
    """Cycles of a dense convolution: ``pixels`` of output, ``taps`` = kh * kw."""
    steps = max(
        taps * ceil_div(channels, chip.groups.input_lanes),
        chip.rates.min_dense_steps // element_bytes,
    )
    groups = ceil_div(kernels, chip.groups.dense_kernels // element_bytes)
    return align(pixels, chip.rates.step_pixels) * groups * steps


def depthwise_cycles(
    chip: Chip, pixels: int, channels: int, taps: int, element_bytes: int = 1
) -> int:
    """Cycles of a depthwise convolution."""
    groups = ceil_div(channels, chip.groups.depthwise_channels // element_bytes)
    return align(pixels, chip.rates.step_pixels) * groups * taps


def ddr_cycles(chip: Chip, moved_bytes: int) -> int:
    """Cycles the memory port needs for ``moved_bytes``."""
    return ceil_div(moved_bytes * 10, chip.rates.bus_decibytes_per_cycle)


@dataclass(frozen=True, slots=True)
class Pooling:
    """The windows over rows and columns."""

    rows: Axis
    columns: Axis

    @property
    def padded(self) -> tuple[int, int]:
        """Rows and columns of the image with its border."""
        return self.rows.padded, self.columns.padded

    @property
    def is_padded(self) -> bool:
        return self.rows.padding + self.columns.padding > 0

    @property
    def is_whole(self) -> bool:
        """Return whether there is one window, and it is the image."""
        sides = self.rows, self.columns
        return all((s.kernel, s.output_size, s.padding) == (s.input_size, 1, 0) for s in sides)


LINE_BUFFER_COLUMNS = 128
"""Columns of a result whose windows do not overlap in rows, per pooling task: what the line buffer
holds (every one of 30 recorded programs of the vendor keeps to it; wider ones hung at others)."""


def pooled_columns(kernel_rows: int, stride_rows: int) -> int:
    """Return the most columns that one pooling task may give: rows of windows that overlap share
    the line buffer, their number rounded up to a power of two.
    """
    overlapping = -(-kernel_rows // stride_rows)
    return LINE_BUFFER_COLUMNS >> (overlapping - 1).bit_length()


def doublings(axis: Axis, gap: int = 1) -> tuple[int, ...]:
    """Return the shifts that make maxima of windows, of which points ``gap`` apart count, from
    single values: each is the maximum so far and itself shifted.
    """
    points, covered, shifts = (axis.kernel - 1) // gap + 1, 1, []
    while covered < points:
        step = min(covered, points - covered)
        shifts.append(step * gap)
        covered += step
    return tuple(shifts)
