"""Checks what every plan of tiles must satisfy, whatever chose it."""

import itertools
from collections import Counter


def check_plan(geometry, plan):
    """The union of the tiles is exactly the output, and every tile is inside all limits."""
    parts = list(dict.fromkeys(tile.part for tile in plan.tiles))
    rows = sorted({(t.rows.output_start, t.rows.output_size) for t in plan.tiles})
    columns = sorted({(t.columns.output_start, t.columns.output_size) for t in plan.tiles})
    for spans, axis in ((rows, geometry.rows), (columns, geometry.columns)):
        assert spans[0][0] == 0
        for (start, size), (following, _) in itertools.pairwise(spans):
            assert start + size == following
        assert sum(spans[-1]) == axis.output_size
    cells = {part: Counter() for part in parts}
    for tile in plan.tiles:
        check_tile(geometry, tile)
        cells[tile.part][tile.rows.output_start, tile.columns.output_start] += 1
    covered = 0
    for part in parts:
        assert part.first == covered
        assert part.first % (16 // geometry.element_bytes) == 0
        assert 0 < part.outputs <= part.kernels
        covered += part.kernels
        assert set(cells[part].values()) == {1}
        assert len(cells[part]) == len(rows) * len(columns)
    assert covered == geometry.kernels
    for tile in plan.tiles:
        gap = geometry.columns.output_size - tile.columns.output_size
        assert gap <= geometry.chip.limits.notch or tile.rows.output_size == 1
    assert parts[-1].first + parts[-1].outputs == geometry.outputs


def check_tile(geometry, tile):
    assert tile.data_banks >= 1
    assert tile.weight_banks >= 1
    assert tile.data_banks + tile.weight_banks <= geometry.chip.cbuf.banks
    channels = tile.part.kernels if geometry.is_depthwise else geometry.channels
    width = tile.columns.input_size
    assert tile.entries_per_row == geometry.row_entries(width, channels)
    assert tile.entries_per_row <= geometry.chip.cbuf.max_row_entries
    needed = tile.rows.input_size * tile.entries_per_row
    assert needed <= tile.data_banks * geometry.chip.cbuf.bank_entries
    if width == 1:  # the last rows of an image of one column are lost in a last bank that is full
        before_last = (tile.data_banks - 1) * geometry.chip.cbuf.bank_entries
        assert needed - before_last <= 0.95 * geometry.chip.cbuf.bank_entries
    assert (-(-channels * geometry.element_bytes // 64) - 1) * width <= 2047
    outputs = tile.part.outputs
    assert max(tile.rows.output_size, tile.columns.output_size, outputs) <= 4096
    weights = tile.part.kernels * geometry.taps * geometry.element_bytes
    if not geometry.is_depthwise:
        weights *= geometry.channels
    if tile.weights_resident:
        assert weights <= tile.weight_banks * geometry.chip.cbuf.bank_bytes
    else:  # the array waits for ever where less than two groups of kernels are there
        two_groups = weights // tile.part.kernels * geometry.group * 2
        assert two_groups <= tile.weight_banks * geometry.chip.cbuf.bank_bytes
    for axis, window in ((geometry.rows, tile.rows), (geometry.columns, tile.columns)):
        assert window.input_size >= 1
        assert (window.input_size - 1) * axis.spread < geometry.chip.limits.feature_size
        assert 0 <= window.pad <= max(axis.pad, axis.spread - 1)
        held = range(window.input_start, window.input_start + window.input_size)
        assert held.start >= 0
        assert held.stop <= axis.input_size
        for output in (window.output_start, window.output_start + window.output_size - 1):
            first = output * axis.stride - axis.pad
            for tap in range(axis.kernel):
                needed, between = divmod(first + tap * axis.dilation, axis.spread)
                assert between or needed in held or not 0 <= needed < axis.input_size
        # The CNA counts rows and columns from the padding before the tile.
        first = window.output_start * axis.stride - axis.pad
        assert window.input_start * axis.spread - window.pad == first
