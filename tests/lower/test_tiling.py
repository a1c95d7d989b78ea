"""Tiles cover the output exactly once, hold every input pixel they need, and fit CBUF."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from delegate.chip.rk3588 import RK3588
from delegate.errors import LoweringError
from delegate.lower.memory.tensors import View
from delegate.lower.tiling.choices import equal_parts, weight_bank_choices
from delegate.lower.tiling.element_wise import map_parts
from delegate.lower.tiling.geometry import Axis, ConvGeometry
from delegate.lower.tiling.tiles import plan_tiles
from tests.lower.tile_checks import check_plan

# Of one image: more would make plans of 10^5 tasks, which take seconds to check.
MAX_ELEMENTS = 1 << 22


@st.composite
def axes(draw, largest):
    """Yield axes of a convolution, also a transposed one, whose kernel always meets an input."""
    spread = draw(st.sampled_from([1, 1, 2, 4]))
    kernel, dilation = draw(st.integers(spread, 9)), draw(st.integers(1, 4 if spread == 1 else 1))
    reach = (kernel - 1) * dilation + 1
    before, after = draw(st.integers(0, reach - 1)), draw(st.integers(0, reach - 1))
    least = max(1, reach - before - after)
    size = draw(st.integers((least - 1 + spread - 1) // spread + 1, largest))
    stride = draw(st.integers(1, 4 if spread == 1 else 1))
    outputs = ((size - 1) * spread + 1 + before + after - reach) // stride + 1
    return Axis(size, outputs, kernel, stride, dilation, before, spread=spread)


@st.composite
def geometries(draw):
    """Up to 2048 pixels a side and 4096 channels, but no more than MAX_ELEMENTS together."""
    channels = draw(st.integers(1, 4096))
    rows = draw(axes(min(2048, MAX_ELEMENTS // channels)))
    columns = draw(axes(max(33, min(2048, MAX_ELEMENTS // channels // rows.input_size))))
    element_bytes = draw(st.sampled_from([1, 2]))
    atom = 16 // element_bytes
    is_depthwise = draw(st.booleans())
    programmed = -(-channels // atom) * atom
    if is_depthwise:
        if element_bytes == 1 and programmed % 64 == 48:
            programmed += 16
        kernels, outputs = programmed, channels
    else:
        outputs = draw(st.integers(1, 4096))
        kernels = outputs + outputs % 2
    images = draw(st.integers(1, 3))
    return ConvGeometry(
        rows,
        columns,
        programmed,
        kernels,
        outputs,
        is_depthwise,
        element_bytes,
        images,
        chip=RK3588,
    )


def smallest_task_fits(g: ConvGeometry) -> bool:
    """Return whether one output pixel of the fewest kernels fits, written from the limits alone."""
    rows, columns = (min(a.reach, a.input_size) for a in (g.rows, g.columns))
    surface = 16 // g.element_bytes
    if g.is_depthwise:
        channels = kernels = min(g.kernels, 64 // g.element_bytes)
        weights = channels * g.taps * g.element_bytes
    else:
        channels, kernels = g.channels, min(g.kernels, surface)
        weights = kernels * channels * g.taps * g.element_bytes
    entries = g.row_entries(columns, channels)
    # More products of int8 could leave the int32 sum.
    products = g.taps * (1 if g.is_depthwise else channels)
    banks = -(-rows * entries // RK3588.cbuf.bank_entries) + -(-weights // RK3588.cbuf.bank_bytes)
    if columns == 1 and -rows * entries % RK3588.cbuf.bank_entries < 0.05 * 512:
        banks += 1  # the last one is nearly full
    return (
        max(rows, columns) <= RK3588.limits.feature_size
        and products < 2**17
        and entries <= RK3588.cbuf.max_row_entries
        and banks <= RK3588.cbuf.banks
    )


@given(geometries())
@settings(max_examples=150, deadline=None)
def test_tiles_cover_every_output_once_within_all_limits(geometry):
    try:
        plan = plan_tiles(geometry)
    except LoweringError as error:
        assert error.rule in ("row_fits_cbuf", "tile_fits_cbuf")
        assert not smallest_task_fits(geometry), "rejected without need"
        return
    check_plan(geometry, plan)


@given(geometries())
@settings(max_examples=50, deadline=None)
def test_costs_are_those_of_the_tiles(geometry):
    assume(smallest_task_fits(geometry))
    plan = plan_tiles(geometry)
    kicks = len(plan.tiles) * geometry.images
    assert plan.cost_cycles == plan.cycles + kicks * RK3588.rates.kick_cycles
    elements = geometry.rows.output_size * geometry.columns.output_size * geometry.outputs
    assert plan.moved_bytes >= elements * geometry.images * geometry.element_bytes


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
    assert plain(1, width, channels, 16, 1).row_entries(width, channels) == entries


@pytest.mark.parametrize(
    ("channels", "outputs", "banks"),
    [
        (1024, 96, (3, 2)),  # 3 banks, 1 of a group of 32 kernels
        (2048, 1024, (4,)),  # 64 and 2
        (8192, 256, ()),  # 64 and 8: two groups would take 16, so parts of them
    ],
)
def test_small_weights_stay_resident_and_large_ones_keep_two_groups(channels, outputs, banks):
    geometry = plain(1, 1, channels, outputs, 1)
    assert weight_bank_choices(geometry, *equal_parts(geometry, 1)) == banks


def plain(size_h, size_w, channels, outputs, kernel, *, is_depthwise=False):
    pad = kernel // 2
    rows = Axis(size_h, size_h, kernel, pad=pad)
    columns = Axis(size_w, size_w, kernel, pad=pad)
    kernels = channels if is_depthwise else outputs
    return ConvGeometry(rows, columns, channels, kernels, outputs, is_depthwise, chip=RK3588)


def test_a_window_that_cannot_fit_says_so():
    with pytest.raises(LoweringError, match="CBUF entries") as caught:
        plan_tiles(plain(99, 99, 8192, 64, 31))
    assert caught.value.rule == "row_fits_cbuf"


def test_depthwise_prefers_channel_parts_without_halo():
    plan = plan_tiles(plain(56, 56, 128, 128, 3, is_depthwise=True))
    assert [tile.rows.output_size for tile in plan.tiles] == [56, 56]
    assert [tile.part.outputs for tile in plan.tiles] == [64, 64]


def test_columns_too_far_apart_for_the_skip_between_rows_take_single_rows():
    near, far = plan_tiles(plain(6, 9000, 16, 32, 3)), plan_tiles(plain(6, 12007, 16, 32, 3))
    assert max(tile.rows.output_size for tile in near.tiles) > 1
    assert {tile.rows.output_size for tile in far.tiles} == {1}
    check_plan(plain(6, 12007, 16, 32, 3), far)


def test_more_outputs_than_a_cube_has_channels_are_parts():
    for is_depthwise in (False, True):
        geometry = plain(3, 5, 5008, 5008, 1, is_depthwise=is_depthwise)
        plan = plan_tiles(geometry)
        assert max(tile.part.outputs for tile in plan.tiles) <= 4096
        check_plan(geometry, plan)


@pytest.mark.parametrize(
    ("pixels", "parts"), [(4096, 1), (4684, 1), (4625, 1), (8191, 2), (20011, 2), (4096**2 + 1, 2)]
)
def test_pixels_in_a_row_are_rectangles_that_a_task_writes(pixels, parts):
    found = list(map_parts(RK3588, View(1, 1, pixels, 16)))
    assert len(found) == parts
    end = 0
    for part in found:
        assert part.first == end
        assert max(part.height, part.width) <= 4096
        end += part.height * part.width
    assert end == pixels


def test_wide_rows_are_cut_into_columns():
    plan = plan_tiles(plain(3, 5000, 16, 32, 1))
    assert max(tile.columns.input_size for tile in plan.tiles) <= RK3588.limits.feature_size
    assert sum(tile.columns.output_size for tile in plan.tiles) == 5000


@pytest.mark.parametrize("is_tall", [True, False])
def test_pixels_that_lie_apart_count_with_what_is_between_them(is_tall):
    """1,100 rows or columns fit CBUF and their registers, the 2,199 made of them do not."""
    long = Axis(1100, 2200, kernel=3, pad=1, spread=2)
    short = Axis(1, 2, kernel=3, pad=1, spread=2)
    rows, columns = (long, short) if is_tall else (short, long)
    geometry = ConvGeometry(rows, columns, channels=16, kernels=32, outputs=32, chip=RK3588)
    plan = plan_tiles(geometry)
    check_plan(geometry, plan)
    assert len(plan.tiles) == 2


def test_kernels_too_large_for_a_group_go_by_surfaces():
    plan = plan_tiles(plain(7, 7, 2048, 64, 3))
    assert [tile.part.kernels for tile in plan.tiles[:: len(plan.tiles) // 4]] == [16] * 4


def test_kernels_of_which_two_groups_do_not_fit_stay_a_group_at_a_time():
    """576 kernels of 9,216 bytes, of which a group takes nine banks."""
    geometry = plain(7, 7, 1024, 576, 3)
    plan = plan_tiles(geometry)
    check_plan(geometry, plan)
    assert {tile.part.kernels for tile in plan.tiles} == {32}
    assert all(tile.weights_resident for tile in plan.tiles)


@pytest.mark.parametrize(("rows", "banks"), [(486, 1), (487, 2), (512, 2), (998, 2), (999, 3)])
def test_an_image_of_one_column_leaves_a_part_of_its_last_bank_free(rows, banks):
    (tile,) = plan_tiles(plain(rows, 1, 64, 32, 1)).tiles
    assert tile.data_banks == banks
    (wide,) = plan_tiles(plain(rows // 2, 2, 64, 32, 1)).tiles
    assert wide.data_banks == -(-(rows // 2 * 2) // 512)


def test_rows_of_one_column_are_cut_before_the_last_bank_is_full():
    """352 rows of 16 entries fill eleven banks."""
    geometry = plain(700, 1, 1024, 32, 1)
    plan = plan_tiles(geometry)
    check_plan(geometry, plan)
    assert max(tile.rows.output_size for tile in plan.tiles) <= 350


def test_the_choice_is_explained():
    plan = plan_tiles(plain(112, 112, 96, 96, 3))
    assert "row tiles" in plan.choice
    assert "resident" in plan.choice


def test_weights_stream_where_one_tile_then_holds_all_rows():
    """768 x 20 x 20 take ten banks and 96 kernels three, twelve with two of them."""
    plan = plan_tiles(plain(20, 20, 768, 96, 1))
    (tile,) = plan.tiles
    assert (tile.data_banks, tile.weight_banks, tile.weights_resident) == (10, 2, False)
    check_plan(plain(20, 20, 768, 96, 1), plan)
    assert len(plan_tiles(plain(24, 20, 768, 96, 1)).tiles) == 2
