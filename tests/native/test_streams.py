"""Several interpreters: no one's conversion waits for another's device."""

import itertools
import threading
import time

from delegate._native import start_run_log, take_run_log
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


def test_tensors_are_converted_while_another_stream_is_on_the_device(runtime, load, model):
    streams = []
    for _ in range(2):
        made = runtime.Interpreter(
            model_content=model, experimental_delegates=[load(device="simulator")]
        )
        made.allocate_tensors()
        invoke(made)
        streams.append(made)

    def work(made) -> None:
        for _ in range(50):
            made.invoke()

    found, end = 0, time.monotonic() + SECONDS
    while not found and time.monotonic() < end:
        start_run_log(1000)
        threads = [threading.Thread(target=work, args=(made,)) for made in streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = overlap(take_run_log())
    assert found


def test_runs_one_after_the_other_do_not_overlap(runtime, load, model):
    made = runtime.Interpreter(
        model_content=model, experimental_delegates=[load(device="simulator")]
    )
    made.allocate_tensors()
    start_run_log(100)
    for _ in range(10):
        invoke(made)
    runs = take_run_log()
    assert len(runs) >= 10
    assert not overlap(runs)
