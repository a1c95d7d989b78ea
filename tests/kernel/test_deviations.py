"""Chips that deviate in ways that were reported, or might be: what bring-up says of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from delegate.chip.rk3588_features import FEATURES
from delegate.insight.self_test_cases import CASES
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


def bring_up(board: Board, deviation: str) -> tuple[int, dict[str, Any]]:
    board.add_rocket(hang_ms=50)
    done = command(board, "bring-up", "--device", "rocket", "--json", RK3588_SIM_BREAK=deviation)
    return done.returncode, json.loads(done.stdout)


def here(document: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["here"] for row in document["features"]}


@pytest.mark.parametrize("deviation", SUSPECTS)
def test_bring_up_suspects_what_deviates(board: Board, deviation: str):
    code, document = bring_up(board, deviation)
    assert code == 1
    suspects = {name for name, value in here(document).items() if value == "suspect"}
    assert SUSPECTS[deviation] <= suspects


def test_entries_of_tables_bear_the_reported_spikes(board: Board):
    """Values that fall on entries do; ``numerics=fast`` looks between them, or adds to one, and so
    do curves in fp16.
    """
    code, document = bring_up(board, "table:spikes")
    assert code == 1
    failed = {step["name"] for step in document["steps"] if not step["passed"]}
    assert failed == {case.name for case in CASES if case.numerics == "fast"} | {"fp16_curve"}
    agreed = {name for name, value in here(document).items() if value == "agreed"}
    assert {"table", "table_load", "kept_table"} <= agreed


def test_deviations_are_named_after_features():
    names = {feature.name for feature in FEATURES}
    assert {deviation.partition(":")[0] for deviation in SUSPECTS} <= names
