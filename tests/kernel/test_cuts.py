"""A job that the kernel cuts short is never taken for done, wherever it is cut."""

import pytest

from tests.kernel.board import Board
from tests.kernel.small_models import MODELS
from tests.memory_graphs import graph_count

GRAPHS = graph_count(40)
CHUNK = 250


@pytest.mark.parametrize("version", ["0.0.0", "1.1.0"])
def test_a_cut_after_every_task_is_reported(board: Board, version: str):
    """By the driver that kicks every task, and by the one that kicks a chain."""
    is_batched = version != "0.0.0"
    board.add_rocket(version, batch_switch=1 if is_batched else None, hang_ms=0)
    for first in range(0, GRAPHS, CHUNK):
        graphs = (first, min(first + CHUNK, GRAPHS))
        models = (
            [] if first else ["digits", "joined", "parts", "residual", "split inputs per channel"]
        )
        assert set(models) <= set(MODELS)
        answer = board.work("cuts", device="rocket", graphs=graphs, models=models, timeout=3000)
        assert answer["wrong"] == []
        assert answer["cuts"] == answer["tasks"] > answer["programs"]
