"""Tiles cover the output exactly once, hold every input row they need, and fit CBUF."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.lower.hw import CBUF_BANKS, CBUF_ENTRIES_PER_BANK
from delegate.lower.tiling import (
    ConvGeometry,
    TilingError,
    entries_per_row,
    plan_tiles,
    weight_banks_needed,
)


@st.composite
def geometries(draw):
    kernel, dilation = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    reach = (kernel - 1) * dilation + 1
    pad_top, pad_bottom = draw(st.integers(0, reach - 1)), draw(st.integers(0, reach - 1))
    height = draw(st.integers(max(1, reach - pad_top - pad_bottom), 400))
    stride = draw(st.integers(1, 4))
    channels = 16 * draw(st.integers(1, 64))
    kernels, per_kernel = draw(st.integers(1, 2048)), kernel * draw(st.integers(1, 5)) * channels
    return ConvGeometry(
        input_height=height,
        input_width=draw(st.integers(1, 500)),
        channels=channels,
        output_height=(height + pad_top + pad_bottom - reach) // stride + 1,
        kernel_height=kernel,
        stride_h=stride,
        dilation_h=dilation,
        pad_top=pad_top,
        weight_bytes=kernels * per_kernel,
        bytes_per_kernel_group=min(kernels, 32) * per_kernel,
    )


@given(geometries())
@settings(max_examples=500, deadline=None)
def test_tiles_cover_every_row_once_within_cbuf(geometry):
    try:
        plan = plan_tiles(geometry)
    except TilingError as error:
        assert error.rule in ("row_fits_cbuf", "tile_fits_cbuf")
        return
    assert plan.data_banks >= 1
    assert plan.weight_banks >= 1
    assert plan.data_banks + plan.weight_banks <= CBUF_BANKS
    next_row = 0
    for tile in plan.tiles:
        assert tile.output_start == next_row
        next_row += tile.output_rows
        assert tile.input_rows * plan.entries_per_row <= plan.data_banks * CBUF_ENTRIES_PER_BANK
        for row in range(tile.output_start, tile.output_start + tile.output_rows):
            top = row * geometry.stride_h - geometry.pad_top
            for tap in range(geometry.kernel_height):
                needed = top + tap * geometry.dilation_h
                held = range(tile.input_start, tile.input_start + tile.input_rows)
                assert needed in held or not 0 <= needed < geometry.input_height
                # The CNA counts rows from the padding above the tile.
                assert not needed < 0 or tile.input_start - tile.pad_top <= needed
    assert next_row == geometry.output_height


@given(geometries())
@settings(max_examples=200, deadline=None)
def test_halo_is_exactly_the_kernels_reach(geometry):
    try:
        plan = plan_tiles(geometry)
    except TilingError:
        return
    for before, after in zip(plan.tiles, plan.tiles[1:], strict=False):
        end = before.input_start + before.input_rows
        reach = (geometry.kernel_height - 1) * geometry.dilation_h + 1
        if end < geometry.input_height and after.pad_top == 0 and before.input_start > 0:
            assert end - after.input_start == reach - geometry.stride_h or (
                geometry.stride_h > reach
            )


@pytest.mark.parametrize(
    ("width", "channels", "entries"),
    # Observed in programs that run on silicon.
    [
        (112, 32, 56),
        (20, 96, 30),
        (40, 48, 40),
        (20, 240, 80),
        (14, 512, 112),
        (1, 16, 1),
        (7, 1024, 112),
        (26, 96, 39),
    ],
)
def test_entries_per_row(width, channels, entries):
    assert entries_per_row(width, channels) == entries


def test_small_weights_stay_resident_and_large_ones_keep_two_groups():
    assert weight_banks_needed(3 * 32768, 32768) == 3
    assert weight_banks_needed(64 * 32768, 2 * 32768) == 4
    assert weight_banks_needed(64 * 32768, 8 * 32768) == 8


def test_a_row_that_cannot_fit_says_so():
    geometry = ConvGeometry(9, 2047, 4096, 9, 3, 1, 1, 1, 4096 * 9, 4096 * 9)
    with pytest.raises(TilingError, match="CBUF entries") as caught:
        plan_tiles(geometry)
    assert caught.value.rule == "row_fits_cbuf"
