"""One random graph per seed, through the delegate, against the reference kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from delegate.model.tflite_reader import read_graph
from tests.generated.campaign import PASSED, Outcome, in_child
from tests.generated.judge import judge_model
from tests.generated.random_graphs import RandomGraph, random_graph

SECONDS = 60.0


def inferences(graph: RandomGraph, seed: int) -> list[Mapping[int, Any]]:
    """Values for every input: uniform over the type, or its ends alone."""
    rng = np.random.default_rng([seed, 1])
    found = read_graph(graph.content)
    made = []
    for batch in graph.batches:
        feeds = {}
        for index in found.inputs:
            tensor = found.tensor(index)
            kind = np.dtype(tensor.dtype.name.lower())
            limits = np.iinfo(kind)
            is_resized = bool(tensor.shape_signature)
            shape = (batch, *tensor.shape[1:]) if is_resized else tensor.shape
            values = rng.integers(limits.min, limits.max + 1, shape)
            if rng.random() < 0.15:
                values = rng.choice((limits.min, limits.max), shape)
            feeds[index] = values.astype(kind)
        made.append(feeds)
    return made


def judge(seed: int, seconds: float = SECONDS) -> Outcome:
    graph = random_graph(seed)
    made = inferences(graph, seed)
    result = in_child(lambda: judge_model(graph.content, made), seconds)
    if result.kind == PASSED:
        counts = {**result.value, "models_resized": int(len(set(graph.batches)) > 1)}
        return Outcome(seed, PASSED, counts=counts)
    return Outcome(seed, result.kind, f"{graph.description}\n{result.text}")
