"""The large editions.

python -m rk3588_conformance.generated graphs --count 20000 [--seed 0] [--jobs 2] [--seconds 60]
    [--keep FOLDER] [--option chip=rk3576] [--option numerics=auto]

Graphs run with numerics=exact where no option says auto; "fused" is auto always. Every case is its
seed: ``--seed N --count 1 --keep FOLDER`` repeats one and keeps its file.
"""

import argparse
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rk3588_conformance.generated import campaign, graph_cases, mutation_cases
from rk3588_conformance.generated import random_graphs as graphs
from rk3588_conformance.generated.model_mutations import mutant
from rk3588_conformance.generated.region_graphs import region_graph

Kind = tuple[Callable[..., campaign.Outcome], Callable[[int], bytes]]
KINDS: dict[str, Kind] = {
    "graphs": (graph_cases.judge, lambda seed: graphs.random_graph(seed).content),
    "mixed": (graph_cases.judge_mixed, lambda seed: graphs.mixed_graph(seed).content),
    "regions": (graph_cases.judge_regions, lambda seed: region_graph(seed).content),
    "floats": (graph_cases.judge_floats, lambda seed: graphs.float_graph(seed).content),
    "fused": (graph_cases.judge_fused, lambda seed: graphs.fused_graph(seed).content),
    "mutations": (mutation_cases.judge, mutant),
}


def _option(text: str) -> tuple[str, str]:
    name, is_pair, value = text.partition("=")
    if not is_pair:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def main() -> int:
    os.environ.setdefault("RK3588_DELEGATE_NUMERICS", "exact")
    parser = argparse.ArgumentParser(
        description=__doc__, prog="python -m rk3588_conformance.generated"
    )
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=60, help="that a case may take")
    parser.add_argument("--stop-after", type=int, default=0, help="bad cases; 0: never")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", type=_option,
        help="of the delegate, for graphs, mixed, regions and fused; more than one may be given",
    )  # fmt: skip
    parser.add_argument("--keep", type=Path, help="a folder for the files, one per case")
    given = parser.parse_args()
    judge, build = KINDS[given.kind]
    seeds = range(given.seed, given.seed + given.count)
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        for seed in seeds:
            (given.keep / f"{given.kind}_{seed}.tflite").write_bytes(build(seed))
    bounded = functools.partial(judge, seconds=given.seconds)
    if given.option:
        if given.kind not in ("graphs", "mixed", "regions", "fused"):
            parser.error("--option is for graphs, mixed, regions and fused")
        if given.kind == "mixed" and ("float", "fp16") in given.option:
            parser.error("float operators of mixed graphs are judged to be exact; use: floats")
        bounded = functools.partial(bounded, options=dict(given.option))
    outcomes = campaign.run(bounded, seeds, given.jobs)
    return 1 if campaign.report(outcomes, given.count, stop_after=given.stop_after) else 0


if __name__ == "__main__":
    sys.exit(main())
