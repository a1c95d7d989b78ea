"""Row tiles of a convolution: pure integers in, tiles out; knows no register and no operator.

Every input row of a tile takes ``entries_per_row`` CBUF entries of 64 bytes; the 12 banks are split
between rows and weights. The bank split is the rule read from programs that run on silicon (exact
on 281 of 281 convolutions of the vendor's compiler): weights of up to three banks stay resident,
larger ones keep two kernel groups and stream through; rows get what is left. Output channels are
never split: one task may stream megabytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from delegate.lower.hw import (
    CBUF_BANK_BYTES,
    CBUF_BANKS,
    CBUF_ENTRIES_PER_BANK,
    CBUF_ENTRY_BYTES,
    MAX_ENTRIES_PER_ROW,
    RESIDENT_WEIGHT_BANKS,
)


class TilingError(ValueError):
    """No tile fits. ``rule`` and the message are what the user sees."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


@dataclass(frozen=True, slots=True)
class ConvGeometry:
    """What tiling needs to know of one image of a convolution. ``channels`` is the programmed
    count.
    """

    input_height: int
    input_width: int
    channels: int
    output_height: int
    kernel_height: int
    stride_h: int
    dilation_h: int
    pad_top: int
    weight_bytes: int
    bytes_per_kernel_group: int

    @property
    def kernel_rows(self) -> int:
        """Input rows one output row reaches over."""
        return (self.kernel_height - 1) * self.dilation_h + 1


@dataclass(frozen=True, slots=True)
class RowTile:
    """Output rows [output_start, output_start + output_rows) from input rows [input_start, +
    input_rows).
    """

    output_start: int
    output_rows: int
    input_start: int
    input_rows: int
    pad_top: int


@dataclass(frozen=True, slots=True)
class TilePlan:
    """Tiles in order, and the bank split they share. ``weights_resident``: later tiles reuse the
    weights.
    """

    data_banks: int
    weight_banks: int
    entries_per_row: int
    weights_resident: bool
    tiles: tuple[RowTile, ...]


def entries_per_row(width: int, channels: int) -> int:
    """CBUF entries of one int8 row: whole entries of 64 channels per pixel, and the rest of the
    channels packed.

    The rest is rounded up to 16, 32 or 64 bytes per pixel (exact on 34 of 34 observed shapes; C =
    48 takes 64).
    """
    whole, rest = divmod(channels, CBUF_ENTRY_BYTES)
    rest_bytes = next(size for size in (0, 16, 32, 64) if size >= rest)
    return width * whole + -(-width * rest_bytes // CBUF_ENTRY_BYTES)


def weight_banks_needed(weight_bytes: int, bytes_per_kernel_group: int) -> int:
    """Banks that weights want: all of them up to three, else two kernel groups, at the least one
    group.
    """
    whole = -(-weight_bytes // CBUF_BANK_BYTES)
    if whole <= RESIDENT_WEIGHT_BANKS:
        return whole
    banks = min(whole, -(-2 * bytes_per_kernel_group // CBUF_BANK_BYTES))
    if banks > CBUF_BANKS - 1:
        banks = -(-bytes_per_kernel_group // CBUF_BANK_BYTES)
    return banks


def input_rows_for(geometry: ConvGeometry, output_start: int, output_rows: int) -> RowTile:
    """The tile of ``output_rows`` rows: its input rows, clipped to the image, and the padding
    above them.
    """
    first = output_start * geometry.stride_h - geometry.pad_top
    last = (output_start + output_rows - 1) * geometry.stride_h - geometry.pad_top
    last += geometry.kernel_rows - 1
    start, end = max(first, 0), min(last, geometry.input_height - 1)
    return RowTile(
        output_start=output_start,
        output_rows=output_rows,
        input_start=start,
        input_rows=end - start + 1,
        pad_top=start - first,
    )


def plan_tiles(geometry: ConvGeometry) -> TilePlan:
    """Chooses the bank split and the row tiles. Raises TilingError if not even one output row
    fits.
    """
    entries = entries_per_row(geometry.input_width, geometry.channels)
    if entries > MAX_ENTRIES_PER_ROW:
        raise TilingError(
            "row_fits_cbuf",
            f"one input row of {geometry.input_width} pixels x {geometry.channels} channels takes "
            f"{entries} CBUF entries, more than {MAX_ENTRIES_PER_ROW}",
        )
    weight_banks = weight_banks_needed(geometry.weight_bytes, geometry.bytes_per_kernel_group)
    one_group = -(-geometry.bytes_per_kernel_group // CBUF_BANK_BYTES)
    for banks in dict.fromkeys((weight_banks, one_group)):
        if banks >= CBUF_BANKS:
            continue
        tiles = _row_tiles(geometry, entries, CBUF_BANKS - banks)
        if tiles:
            break
    else:
        raise TilingError(
            "tile_fits_cbuf",
            f"{geometry.kernel_rows} input rows ({entries} CBUF entries each) and one group of "
            f"kernels ({geometry.bytes_per_kernel_group} bytes) do not fit the {CBUF_BANKS} banks "
            "of CBUF",
        )
    if len(tiles) == 1:
        data_banks = -(-tiles[0].input_rows * entries // CBUF_ENTRIES_PER_BANK)
    else:
        data_banks = CBUF_BANKS - banks
    weight_banks = CBUF_BANKS - data_banks
    return TilePlan(
        data_banks=data_banks,
        weight_banks=weight_banks,
        entries_per_row=entries,
        weights_resident=geometry.weight_bytes <= weight_banks * CBUF_BANK_BYTES,
        tiles=tiles,
    )


def _row_tiles(geometry: ConvGeometry, entries: int, data_banks: int) -> tuple[RowTile, ...]:
    """Greedy tiles of as many output rows as fit ``data_banks``; empty if one output row does
    not.
    """
    rows = data_banks * CBUF_ENTRIES_PER_BANK // entries
    tiles = []
    start = 0
    while start < geometry.output_height:
        count = _output_rows_within(geometry, start, rows)
        if count == 0:
            return ()
        tiles.append(input_rows_for(geometry, start, count))
        start += count
    return tuple(tiles)


def _output_rows_within(geometry: ConvGeometry, start: int, input_rows: int) -> int:
    """The most output rows from ``start`` whose input rows number at most ``input_rows``; 0 if
    not even one.
    """
    remaining = geometry.output_height - start
    first = max(start * geometry.stride_h - geometry.pad_top, 0)
    # Input rows end at row `reach`, exclusive, unless the image ends before.
    reach = first + input_rows
    if reach >= geometry.input_height:
        return remaining
    # Row o ends at o * stride - pad + kernel_rows, exclusive.
    last = (reach - geometry.kernel_rows + geometry.pad_top) // geometry.stride_h
    return max(0, min(remaining, last - start + 1))
