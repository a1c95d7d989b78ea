"""One inference on three cores: what rows of each layer, shared among them, would give.

    python -m benchmarks.three_cores MODEL...

Modelled, for each driver from its best to its worst. A layer ends on all cores before the next one
begins. ``free``: cores meet at no cost, which no driver's interface offers: rocket's jobs and the
vendor's submits end in the process that waits for them. ``submits``: each layer is a submit of its
own to all cores, as both drivers would take it. Cores fetch kernels each for themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from delegate.chip.chip import Chip, Driver, Span
from delegate.chip.chips import DEFAULT
from delegate.compile.compiler import compile_model
from delegate.lower.task import ConvTask, Task
from delegate.npu.perf import TaskWork, Work, duration, work_of_tasks
from delegate.options import Options
from tools.script import ScriptParser, existing_file, run_script

CORES = 3


@dataclass(frozen=True)
class Shares:
    """Microseconds of all layers on one core, and on three that meet behind each of them."""

    one: Span
    free: Span
    submits: Span


def _third(chip: Chip, task: Task) -> Work:
    """Return what a core has of ``task``: a third of it, and all kernels."""
    (whole,) = work_of_tasks(chip, [task]).tasks
    kernels = 0
    if isinstance(task, ConvTask) and not task.weight_reuse:
        kernels = task.weights.total_bytes
    shared = whole.bytes - kernels
    numbers = whole.npu_cycles, whole.dpu_cycles, shared
    cycles, alone, moved = (math.ceil(number / CORES) for number in numbers)
    return Work((TaskWork(cycles, alone, moved + kernels),), 0)


def shares(chip: Chip, driver: Driver, layers: Sequence[Sequence[Task]]) -> Shares:
    """Return the estimate of ``layers``, the tasks of each."""
    one = duration(
        chip, [work_of_tasks(chip, [task for tasks in layers for task in tasks])], driver
    )
    free, submits = Span(0.0, 0.0), Span(0.0, 0.0)
    for tasks in layers:
        works = [_third(chip, task) for task in tasks]
        time = duration(chip, works, driver, CORES)
        # Tasks that lowering made for lack of room in CBUF have the room of three cores.
        launches = driver.kick_us.times(max(1, math.ceil(len(tasks) / CORES)))
        free = free + time.work + launches
        submits = submits + time.work + launches + driver.submit_us
    return Shares(one.total, free, submits)


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each model and driver."""
    parser = ScriptParser(__doc__)
    parser.add_argument("models", type=existing_file, nargs="+", metavar="MODEL")
    models: list[Path] = parser.parse_args(arguments).models
    print(
        "| model | driver | one core, ms | three cores, free | gain | a submit per layer | gain |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for path in models:
        result = compile_model(path, Options(deny_ops=()))
        layers = [layer.tasks for part in result.partitions for layer in part.layers]
        for driver in DEFAULT.rates.drivers:
            found = shares(DEFAULT, driver, layers)
            cells = [path.stem, driver.name, _ms(found.one)]
            for span in (found.free, found.submits):
                cells += [_ms(span), f"{found.one.least / span.least:.2f} to "
                          f"{found.one.most / span.most:.2f}"]  # fmt: skip
            print("|", " | ".join(cells), "|")
    return 0


def _ms(span: Span) -> str:
    return f"{span.least / 1e3:.2f} to {span.most / 1e3:.2f}"


if __name__ == "__main__":
    run_script(main)
