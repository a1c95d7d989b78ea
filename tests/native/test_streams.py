"""Several interpreters: no one's conversion waits for another's device."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor

from delegate._native import start_run_log, take_run_log
from tests.inferences import interpreter_of
from tests.native.inference import invoke

SECONDS = 30


def overlap(runs: list[tuple[str, int, int, int, int, int]]) -> int:
    """Count runs whose inputs were converted while another run was on the device."""
    return sum(
        converted < start_other and converted_other < done
        for (_, _, converted, _, done, _), (_, start_other, converted_other, *_) in (
            itertools.permutations(runs, 2)
        )
    )


def test_tensors_are_converted_while_another_stream_is_on_the_device(model):
    streams = [interpreter_of(model, device="simulator") for _ in range(2)]

    def work(made) -> None:
        for _ in range(50):
            made.invoke()

    found, end = 0, time.monotonic() + SECONDS
    while not found and time.monotonic() < end:
        start_run_log(1000)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, streams))
        found = overlap(take_run_log())
    assert found


def test_runs_one_after_the_other_do_not_overlap(model):
    made = interpreter_of(model, device="simulator")
    start_run_log(100)
    for _ in range(10):
        invoke(made)
    runs = take_run_log()
    assert len(runs) >= 10
    assert not overlap(runs)
