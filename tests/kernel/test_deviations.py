"""Chips that deviate in ways that were reported, or might be: what bring-up says of them."""

import json
from typing import Any

import pytest

from rk3588_conformance.self_test_cases import CASES
from tests.kernel.board import Board
from tests.kernel.test_commands import command
from tests.worse import everywhere

# What is wrong with the chip, and kinds of tasks some form of which only failing programs have.
SUSPECTS = {
    "table:lost": {"fly"},
    "bn:multiplier_ignored": {"conv"},
    "ew:operands_low_byte": {"conv"},
    "ew:shift_ignored": {"fly"},
    "cna:rows_packed": {"conv"},
    "cbuf:kept_weights_lost": {"conv"},
    "core:input_sums_ignored": {"conv"},
    "out:ties_even": set(),  # every program but the first few rounds so
    "write:surfaces_in_pairs": set(),  # what is wrong shows in one case only, which has others
}
ORDINARY = ("table:lost", "bn:multiplier_ignored", "ew:shift_ignored", "cbuf:kept_weights_lost")


def bring_up(board: Board, way: str) -> tuple[int, dict[str, Any]]:
    board.add_rocket(hang_ms=50)
    done = command(
        board, "bring-up", "--device", "rocket", "--json", RK3588_SIM_BREAK=everywhere(way)
    )
    return done.returncode, json.loads(done.stdout)


def here(document: dict[str, Any]) -> dict[str, str]:
    return {row["form"]: row["here"] for row in document["forms"]}


@pytest.mark.parametrize(
    "way",
    [way if way in ORDINARY else pytest.param(way, marks=pytest.mark.exhaustive)
     for way in SUSPECTS],
)  # fmt: skip
def test_bring_up_suspects_what_deviates(board: Board, way: str):
    code, document = bring_up(board, way)
    assert code == 1
    suspects = {
        name.rpartition("-")[0] for name, value in here(document).items() if value == "suspect"
    }
    assert SUSPECTS[way] <= suspects


def test_entries_of_tables_bear_the_reported_spikes(board: Board):
    """Values on entries do; ``numerics=auto`` looks between them, and so do curves in fp16."""
    code, document = bring_up(board, "table:spikes")
    assert code == 1
    failed = {step["name"] for step in document["steps"] if not step["passed"]}
    assert failed == {case.name for case in CASES if case.numerics == "auto"} | {"fp16_curve"}
    assert here(document)["kept-table"] == "agreed"
