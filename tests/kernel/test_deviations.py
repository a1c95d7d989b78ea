"""Chips that deviate in ways that were reported, or might be: what bring-up says of them."""

from __future__ import annotations

import json

import pytest

from delegate.chip.rk3588_features import FEATURES
from tests.kernel.board import Board
from tests.kernel.test_commands import command

# What is wrong with the chip, and features that only failing programs use there.
SUSPECTS = {
    "kept_table:lost": {"table", "table_load", "kept_table"},
    "bn_multiplier_per_channel:ignored": {"bn_multiplier_per_channel", "multiplier_per_channel"},
    "wide_ew_operand:low_byte": {"wide_ew_operand"},
    "ew_truncation:ignored": {"ew_product", "ew_truncation"},
    "window_of_columns:packed_rows": {"window_of_columns"},
    "kept_weights:lost": {"kept_weights"},
    "input_sums:ignored": {"input_sums"},
    "ties_away:even": set(),  # every program but the first few rounds so
    "element_wise_alone:32_lanes": set(),  # what is wrong shows in one case only, which has others
}


def results(board: Board, deviation: str) -> tuple[int, dict[str, str]]:
    board.add_rocket(hang_ms=50)
    done = command(board, "bring-up", "--device", "rocket", "--json", RK3588_SIM_BREAK=deviation)
    document = json.loads(done.stdout)
    return done.returncode, {row["name"]: row["here"] for row in document["features"]}


@pytest.mark.parametrize("deviation", SUSPECTS)
def test_bring_up_suspects_what_deviates(board: Board, deviation: str):
    code, here = results(board, deviation)
    assert code == 1
    assert SUSPECTS[deviation] <= {name for name, value in here.items() if value == "suspect"}


def test_entries_of_tables_bear_the_reported_spikes(board: Board):
    code, here = results(board, "table:spikes")
    assert code == 0
    assert here["table"] == "agreed"


def test_deviations_are_named_after_features():
    names = {feature.name for feature in FEATURES}
    assert {deviation.partition(":")[0] for deviation in SUSPECTS} <= names
