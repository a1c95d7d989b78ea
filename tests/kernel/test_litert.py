"""LiteRT's dispatch library on the drivers' stand-ins: results, and programs of another chip."""

import json

import pytest

from tests.hosts.litert_standin import FAILED, OK
from tests.kernel.board import Board

DRIVERS = ("rocket", "rknpu")


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("chip", ["rk3588", "rk3576"])
def test_a_program_gives_the_simulators_bytes(board: Board, driver: str, chip: str) -> None:
    answer = board.add(driver, chip).work("litert", device=driver, chip=chip)
    assert answer == {"status": OK, "equal": True}


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_program_of_another_chip_is_refused_in_one_line(board: Board, driver: str) -> None:
    arguments = json.dumps({"device": driver, "chip": "rk3576"})
    done = board.add(driver).python("-m", "tests.kernel.work", "litert", arguments)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer == {"status": FAILED, "equal": None, "violations": []}
    lines = [line for line in done.stderr.splitlines() if line.startswith("rk3588 delegate:")]
    (line,) = lines
    assert "was compiled for chip rk3576" in line
    assert "compile the model for it" in line
