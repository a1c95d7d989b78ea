"""Coarse, saturated and extreme channels through the delegate, in numbers.

    python -m tests.lower.numerics.campaign --models 100000 --jobs 2 --seed 1

draws half of the models one way and half the other, and compares every result with TensorFlow
Lite's reference kernels. Exits 1 where one differs by more than an LSB, or at all
although it was proven equal, and says which seed of which generator gave it.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from delegate.progress import progress
from tests.lower.numerics import drawn, solved
from tests.lower.numerics.judge import Verdict, judge

GENERATORS = {"drawn": drawn.draw, "solved": solved.solve}
AT_ONCE = 100


def verdicts(generator: str, first: int, count: int) -> list[Verdict | str]:
    """Return the verdicts of ``count`` seeds from ``first`` on; a text for another error."""
    found: list[Verdict | str] = []
    for seed in range(first, first + count):
        try:
            found.append(judge(GENERATORS[generator](seed)))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def run(models: int, seed: int, jobs: int) -> tuple[Counter[str], list[str]]:
    """Counts, and what is wrong. Draws until ``models`` were delegated."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with (
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
        progress("models delegated", models) as bar,
    ):
        for batch in _batches(seed):
            work = [pool.submit(verdicts, *part) for part in batch]
            for part, future in zip(batch, work, strict=True):
                before = counts["delegated"], len(wrong)
                _count(part, future.result(), counts, wrong)
                bar.advance(counts["delegated"] - before[0])
                for text in wrong[before[1] :]:
                    bar.hide()
                    print(text, flush=True)
            if counts["delegated"] >= models:
                return counts, wrong
    raise AssertionError


def _batches(seed: int) -> Iterator[list[tuple[str, int, int]]]:
    first = seed * 10_000_000
    while True:
        yield [
            (generator, first + AT_ONCE * part, AT_ONCE)
            for part in range(8)
            for generator in GENERATORS
        ]
        first += 8 * AT_ONCE


def _count(
    part: tuple[str, int, int], found: list[Verdict | str], counts: Counter[str], wrong: list[str]
) -> None:
    for offset, verdict in enumerate(found):
        name = f"{part[0]} {part[1] + offset}"
        if isinstance(verdict, str):
            wrong.append(f"{name}: {verdict}")
        elif verdict.rule is not None:
            counts[f"rejected by {verdict.rule}"] += 1
        else:
            counts["delegated"] += 1
            counts[f"delegated, {part[0]}"] += 1
            counts["elements"] += verdict.elements
            counts["elements off by one"] += verdict.different
            counts["equal models"] += verdict.different == 0
            counts["proven equal"] += verdict.claims_equality
            if not verdict.is_as_claimed:
                wrong.append(f"{name}: {verdict}")


def main() -> int:
    os.environ.setdefault("RK3588_DELEGATE_NUMERICS", "exact")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000, help="models to delegate")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    counts, wrong = run(arguments.models, arguments.seed, arguments.jobs)
    for name, count in sorted(counts.items()):
        print(f"{count:12}  {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
