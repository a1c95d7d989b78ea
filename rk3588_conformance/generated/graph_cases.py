"""One random graph per seed, through the delegate, against the reference kernels."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from delegate.host.runtimes import find_runtime
from rk3588_conformance.generated import random_graphs as graphs
from rk3588_conformance.generated.campaign import PASSED, SKIPPED, Outcome, in_child
from rk3588_conformance.generated.generator import RandomGraph
from rk3588_conformance.generated.judge import judge_left_to_cpu, judge_model
from rk3588_conformance.generated.judge_float import judge_float
from rk3588_conformance.generated.judge_whole import judge_whole
from rk3588_conformance.generated.region_graphs import region_graph
from rk3588_conformance.generated.run import Run

find_runtime()  # before any fork: every case would load it anew
SECONDS = 60.0
OWN_SHAPES = 2  # of the inferences of a random graph, the first ones
LEFT_TO_CPU = 4  # one graph in so many also runs where no partition compiles

Options = Mapping[str, str]
NO_OPTIONS: Options = {}
Feeds = list[Mapping[int, Any]]


def _judged(
    seed: int, graph: RandomGraph, made: Feeds, judge: Callable[[], dict[str, int]], seconds: float
) -> Outcome:
    """The outcome of ``judge``; a graph that the runtime alone does not survive is skipped."""
    result = in_child(judge, seconds)
    if result.kind == PASSED:
        return Outcome(seed, PASSED, counts=result.value)
    if in_child(lambda: _run_alone(graph.content, made), seconds).kind != PASSED:
        return Outcome(seed, SKIPPED, "the runtime alone does not survive it")
    return Outcome(seed, result.kind, f"{graph.description}\n{result.text}")


def judge(seed: int, seconds: float = SECONDS, options: Options = NO_OPTIONS) -> Outcome:
    graph = graphs.random_graph(seed)
    is_auto, content = options.get("numerics") == "auto", graph.content
    made = graphs.inferences(graph, seed)[: OWN_SHAPES if is_auto else None]
    outcome = _judged(
        seed, graph, made, lambda: judge_model(content, made, options=options), seconds
    )
    counts = outcome.counts
    if outcome.kind == PASSED and seed % LEFT_TO_CPU == 0 and not is_auto:
        outcome = _judged(seed, graph, made, lambda: judge_left_to_cpu(content, made), seconds)
        counts = {**counts, **outcome.counts}
    if outcome.kind != PASSED:
        return outcome
    resized = len(set(zip(graph.batches, graph.stretches, strict=True))) > 1
    return Outcome(seed, PASSED, counts={**counts, "models_resized": int(resized)})


def judge_mixed(seed: int, seconds: float = SECONDS, options: Options = NO_OPTIONS) -> Outcome:
    return _judged_once(seed, graphs.mixed_graph(seed), seconds, options)


def judge_regions(seed: int, seconds: float = SECONDS, options: Options = NO_OPTIONS) -> Outcome:
    """Judge exactly, and then whole with ``numerics=auto``, which takes more operators."""
    graph = region_graph(seed)
    made = graphs.inferences(graph, seed)
    outcome = _judged_once(seed, graph, seconds, {**options, "numerics": "exact"})
    if outcome.kind != PASSED:
        return outcome
    auto = {**options, "numerics": "auto"}
    whole = _judged(seed, graph, made, lambda: judge_whole(graph.content, made, auto), seconds)
    return replace(whole, counts={**outcome.counts, **whole.counts})


def judge_fused(seed: int, seconds: float = SECONDS, options: Options = NO_OPTIONS) -> Outcome:
    """Judge with ``numerics=auto``."""
    auto = {**options, "numerics": "auto"}
    return _judged_once(seed, graphs.fused_graph(seed), seconds, auto)


def _judged_once(seed: int, graph: RandomGraph, seconds: float, options: Options) -> Outcome:
    made = graphs.inferences(graph, seed)
    check = lambda: judge_model(graph.content, made, options=options)  # noqa: E731
    return _judged(seed, graph, made, check, seconds)


def judge_floats(seed: int, seconds: float = SECONDS) -> Outcome:
    """Judge with ``float=fp16``."""
    graph = graphs.float_graph(seed)
    made = graphs.float_inferences(graph, seed)
    return _judged(seed, graph, made, lambda: judge_float(graph.content, made), seconds)


def _run_alone(content: bytes, made: Feeds) -> None:
    """Run with both kinds of kernels: the default ones divide by the size of images, which may be
    0.
    """
    for reference_kernels in (False, True):
        alone = Run(content, is_delegated=False, reference_kernels=reference_kernels)
        for feeds in made:
            alone.refuses(feeds)
