"""Tests that only harmless streams reach an NPU, whatever the file, read before a submit."""

import os

import pytest

from tests.kernel.board import Board
from tests.kernel.test_models import KERNELS

# A million before a release: KERNEL_TEST_STREAMS=1000000 pytest tests/kernel/test_verifier.py
STREAMS = int(os.environ.get("KERNEL_TEST_STREAMS", "1000"))


@pytest.mark.parametrize("device", ["rocket", "rknpu"])
def test_spoiled_programs_are_refused_or_harmless(board: Board, device: str):
    """The stand-in objects to every access outside the buffers of a job; it had nothing to say."""
    board.add_rocket(hang_ms=1).add_rknpu(hang_ms=1)
    answer = board.work(
        "fuzz", device=device, seed=1, streams=STREAMS, programs=STREAMS // 3, timeout=7200
    )
    counts = answer["counts"]
    assert counts["stream refused"] > STREAMS // 4
    assert counts["stream ran"] > STREAMS // 20
    assert not [outcome for outcome in counts if "error" in outcome], counts
    assert counts["program unreadable"] + counts["program refused"] > STREAMS // 10


@pytest.mark.parametrize(
    ("kernel", "inherits"), [("stock", "refused"), ("batched", "ran"), ("chain", "ran")]
)
def test_parts_of_a_chain_bring_all_their_registers(board: Board, kernel: str, inherits: str):
    """Between two kicks another program may use the core, and registers may not outlive one."""
    device, add = KERNELS[kernel]
    add(board)
    answer = board.work("kicks", device=device)
    assert answer["whole"] == "ran"
    assert answer["inherits too much"] == "refused"
    assert answer["inherits"] == inherits
    assert answer["inherits across kicks"] == "refused"
