"""Coarse, saturated and extreme channels through the delegate, in numbers.

    python -m tests.lower.numerics.campaign --models 100000 --jobs 2 --seed 1

draws models of even seeds one way and of odd ones the other, and compares every result with
TensorFlow Lite's reference kernels. Exits 1 where one differs by more than an LSB, or at all
although it was proven equal, and says which seed gave it.
"""

import argparse
import os
import sys

from rk3588_conformance.generated import campaign
from rk3588_conformance.generated.campaign import BROKEN, PASSED, SKIPPED, Outcome
from tests.lower.numerics import drawn, solved
from tests.lower.numerics.judge import judge

GENERATORS = {"drawn": drawn.draw, "solved": solved.solve}


def judged(seed: int) -> Outcome:
    name = ("drawn", "solved")[seed % 2]
    verdict = judge(GENERATORS[name](seed))
    if verdict.rule is not None:
        return Outcome(seed, SKIPPED, counts={f"rejected by {verdict.rule}": 1})
    counts = {
        f"delegated, {name}": 1,
        "elements": verdict.elements,
        "elements off by one": verdict.different,
        "equal models": int(verdict.different == 0),
        "proven equal": int(verdict.claims_equality),
    }
    return Outcome(seed, PASSED if verdict.is_as_claimed else BROKEN, str(verdict), counts)


def main() -> int:
    os.environ.setdefault("RK3588_DELEGATE_NUMERICS", "exact")
    os.environ.setdefault("RK3588_DELEGATE_DENY_OPS", "NONE")  # the CPU would run these as fast
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    first = given.seed * 10_000_000
    seeds = range(first, first + given.models)
    return 1 if campaign.report(campaign.run(judged, seeds, given.jobs), given.models) else 0


if __name__ == "__main__":
    sys.exit(main())
