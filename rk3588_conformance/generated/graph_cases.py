"""One random graph per seed, through the delegate, against the reference kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from delegate.model.tflite_reader import read_graph
from rk3588_conformance.generated.campaign import PASSED, SKIPPED, Outcome, in_child
from rk3588_conformance.generated.float_graphs import float_graph, float_inferences
from rk3588_conformance.generated.fused_graphs import fused_graph
from rk3588_conformance.generated.judge import Run, judge_left_to_cpu, judge_model
from rk3588_conformance.generated.judge_fast import judge_fast
from rk3588_conformance.generated.judge_float import judge_float
from rk3588_conformance.generated.mixed_graphs import MixedGraph, mixed_graph, mixed_inferences
from rk3588_conformance.generated.random_graphs import RandomGraph, random_graph

SECONDS = 60.0
OWN_SHAPES = 2  # of the inferences of a random graph, the first ones
LEFT_TO_CPU = 4  # one graph in so many also runs where no partition compiles


def inferences(graph: RandomGraph, seed: int) -> list[Mapping[int, Any]]:
    """Values for every input: uniform over the type, or its ends alone."""
    rng = np.random.default_rng([seed, 1])
    found = read_graph(graph.content)
    image = found.tensor(found.inputs[0]).shape[1:3]
    made: list[Mapping[int, Any]] = []
    for batch, (rows, columns) in zip(graph.batches, graph.stretches, strict=True):
        feeds: dict[int, Any] = {}
        for index in found.inputs:
            tensor = found.tensor(index)
            kind = np.dtype(tensor.dtype.name.lower())
            limits = np.iinfo(kind)
            is_resized = bool(tensor.shape_signature)
            images, h, w, channels = tensor.shape
            if is_resized:
                images = batch
            if (h, w) == image:
                h, w = max(h + rows, 1), max(w + columns, 1)
            shape = (images, h, w, channels)
            values = rng.integers(limits.min, limits.max + 1, shape)
            if rng.random() < 0.15:
                values = rng.choice((limits.min, limits.max), shape)
            feeds[index] = values.astype(kind)
        made.append(feeds)
    return made


def judge(seed: int, seconds: float = SECONDS, options: Mapping[str, str] = {}) -> Outcome:
    graph = random_graph(seed)
    made = inferences(graph, seed)
    if options.get("numerics") == "auto":
        return _judge_auto(seed, graph, made[:OWN_SHAPES], seconds, options)
    result = in_child(lambda: judge_model(graph.content, made, options=options), seconds)
    counts = {} if result.value is None else result.value
    if result.kind == PASSED and seed % LEFT_TO_CPU == 0:
        result = in_child(lambda: judge_left_to_cpu(graph.content, made), seconds)
        counts = {**counts, **result.value} if result.kind == PASSED else {}
    if result.kind == PASSED:
        resized = len(set(zip(graph.batches, graph.stretches, strict=True))) > 1
        return Outcome(seed, PASSED, counts={**counts, "models_resized": int(resized)})
    if in_child(lambda: _run_alone(graph.content, made), seconds).kind != PASSED:
        return Outcome(seed, SKIPPED, "the runtime alone does not survive it")
    return Outcome(seed, result.kind, f"{graph.description}\n{result.text}")


def judge_mixed(seed: int, seconds: float = SECONDS, options: Mapping[str, str] = {}) -> Outcome:
    graph = mixed_graph(seed)
    made = mixed_inferences(seed, graph.content)
    if options.get("numerics") == "auto":
        return _judge_auto(seed, graph, made, seconds, options)
    result = in_child(lambda: judge_model(graph.content, made, options=options), seconds)
    if result.kind == PASSED:
        return Outcome(seed, PASSED, counts=result.value)
    if in_child(lambda: _run_alone(graph.content, made), seconds).kind != PASSED:
        return Outcome(seed, SKIPPED, "the runtime alone does not survive it")
    return Outcome(seed, result.kind, f"{graph.description}\n{result.text}")


def judge_fused(seed: int, seconds: float = SECONDS, options: Mapping[str, str] = {}) -> Outcome:
    """Judge with ``numerics=auto``."""
    graph = fused_graph(seed)
    return _judge_auto(seed, graph, inferences(graph, seed), seconds, options)


def _judge_auto(
    seed: int,
    graph: RandomGraph | MixedGraph,
    made: list[Mapping[int, Any]],
    seconds: float,
    options: Mapping[str, str],
) -> Outcome:
    result = in_child(lambda: judge_fast(graph.content, made, options=options), seconds)
    if result.kind == PASSED:
        return Outcome(seed, PASSED, counts=result.value)
    if in_child(lambda: _run_alone(graph.content, made), seconds).kind != PASSED:
        return Outcome(seed, SKIPPED, "the runtime alone does not survive it")
    return Outcome(seed, result.kind, f"{graph.description}\n{result.text}")


def judge_floats(seed: int, seconds: float = SECONDS) -> Outcome:
    """Judge with ``float=fp16``."""
    graph = float_graph(seed)
    found = read_graph(graph.content)
    made = float_inferences(seed, [(t, found.tensor(t).shape) for t in found.inputs])
    result = in_child(lambda: judge_float(graph.content, made), seconds)
    if result.kind == PASSED:
        return Outcome(seed, PASSED, counts=result.value)
    return Outcome(seed, result.kind, f"{graph.description}\n{result.text}")


def _run_alone(content: bytes, made: list[Mapping[int, Any]]) -> None:
    """Run with both kinds of kernels: the default ones divide by the size of images, which may be
    0.
    """
    for reference_kernels in (False, True):
        alone = Run(content, is_delegated=False, reference_kernels=reference_kernels)
        for feeds in made:
            alone.refuses(feeds)
