"""Judge what ``numerics=auto`` gives for a model by the reference kernels and its own claims.

A layer that computes several nodes says how far it may be from TensorFlow Lite's result, given the
same inputs. So the results of all layers are made outputs, which leaves the same layers, and the
reference kernels compute node by node what lies between them: of a joined layer, from its inputs,
the tensors that vanish, and then its result.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

import numpy as np

from delegate.compile.compiler import compile_model
from delegate.lower.lowered import Layer
from delegate.model.graph import DType, Graph
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_conformance.cut_model import cut_model, exposed_model
from rk3588_conformance.generated.judge import (
    TOLERANCE,
    Array,
    BrokenContractError,
    Run,
    first_difference,
    largest_difference,
    reads_beyond,
    tolerance,
)

ROUNDED = (
    *TOLERANCE, "AVERAGE_POOL_2D", "MEAN", "SUM", "QUANTIZE", "CONCATENATION", "RELU", "RELU6",
    "RELU_N1_TO_1", "RELU_0_TO_1", "RESIZE_BILINEAR", "LEAKY_RELU",
)  # fmt: skip
"""Operators whose ties go to the even side in auto; all others move data or look it up."""


def judge_fast(
    model: bytes, inferences: Sequence[Mapping[int, Array]], *, options: Mapping[str, str] = {}
) -> dict[str, int]:
    """Runs ``inferences``, of the model's own shapes. ``options``: of the delegate, beside
    ``numerics=auto``. Counts of what was compared. Raises BrokenContractError.
    """
    graph = read_graph(model)
    options = {**options, "numerics": "auto"}
    layers = _layers(model, options)
    joined = _joined(layers)
    counts: collections.Counter[str] = collections.Counter(fast_models=1)
    exposed_content = exposed_model(model, _results(graph, layers))
    exposed_layers = _layers(exposed_content, options)
    if _joined(exposed_layers) != joined:
        counts["fast_models_that_outputs_change"] += 1
        return dict(counts)
    counts["fast_layers_joined"] += len(joined)
    ours = Run(model, is_delegated=True, options=options)
    exposed = Run(exposed_content, is_delegated=True, options=options)
    counts["delegated_nodes"] += ours.delegated_nodes
    apart = None
    # A kernel of the CPU rounds otherwise, and so may a layer whose neighbours are others: a
    # convolution that reads the parts of a join one by one takes another recipe.
    is_same = ours.rejected == exposed.rejected and _nodes(layers) == _nodes(exposed_layers)
    counts["fast_models_that_outputs_move"] += not is_same
    whole = Run(model, is_delegated=False)
    for number, feeds in enumerate(inferences):
        where = f"numerics=auto, inference {number}"
        if whole.refuses(feeds):
            continue
        results, values = ours.run(feeds), exposed.run(feeds)
        for tensor, result in results.items():
            if is_same and largest_difference(result, values[tensor]) != 0:
                raise BrokenContractError(f"{where}: output {tensor} is another if others are too")
        if apart is None:
            cut = cut_model(model)
            apart = Run(cut.content, is_delegated=False)
        known = {**feeds, **values}
        while True:
            given = {
                clone: known.get(t, np.zeros(graph.tensor(t).shape, _kind(graph, t)))
                for t, clone in cut.inputs
            }
            expected = apart.run(given)
            found = {
                tensor: expected[tensor]
                for node, tensor in cut.outputs
                if tensor not in known and _is_known(graph, node, known)
            }
            if not found:
                break
            known |= found
        if any(reads_beyond(graph, node, {}, known) for node in graph.nodes):
            continue
        for node, tensor in cut.outputs:
            if tensor not in values or not _is_known(graph, node, known):
                continue
            op = graph.node(node).op
            is_rounded = op in ROUNDED and graph.tensor(tensor).dtype is not DType.FLOAT32
            most = joined.get(node, max(tolerance(graph, node), int(is_rounded)))
            counts[f"elements_of_{op}"] += values[tensor].size
            difference = largest_difference(values[tensor], expected[tensor])
            if difference and node not in joined:
                counts[f"elements_of_{op}_off_by_one"] += int(
                    np.count_nonzero(values[tensor] != expected[tensor])
                )
            if difference > most:
                raise BrokenContractError(
                    f"{where}: node {node} ({op}) is off by more than {most}: "
                    f"{first_difference(values[tensor], expected[tensor])}"
                )
            if node in joined:
                counts["fast_elements"] += values[tensor].size
                differing = np.count_nonzero(values[tensor] != expected[tensor])
                counts["fast_elements_differing"] += int(differing)
    return dict(counts)


def _layers(model: bytes, options: Mapping[str, str]) -> list[Layer]:
    chosen = Options.from_mapping({"deny_ops": "", **options}, {})
    return [layer for p in compile_model(model, chosen).partitions for layer in p.layers]


def _nodes(layers: Sequence[Layer]) -> list[tuple[int, ...]]:
    return [tuple(layer.nodes) for layer in layers]


def _joined(layers: Sequence[Layer]) -> dict[int, int]:
    """Return, by the last node of each joined layer, how far it may be off."""
    found = [layer for layer in layers if layer.difference is not None]
    return {
        layer.nodes[-1]: max(
            other.difference.most_lsb
            for other in found
            if other.difference is not None and other.nodes[-1] == layer.nodes[-1]
        )
        for layer in found
    }


def _results(graph: Graph, layers: Sequence[Layer]) -> list[int]:
    """Return the results of all layers: the tensors that do not vanish."""
    return [t for layer in layers for t in graph.node(layer.nodes[-1]).outputs]


def _is_known(graph: Graph, node: int, known: Mapping[int, Array]) -> bool:
    inputs = (t for t in graph.node(node).inputs if t >= 0)
    return all(t in known or graph.tensor(t).constant is not None for t in inputs)


def _kind(graph: Graph, tensor: int) -> np.dtype[np.generic]:
    return np.dtype(graph.tensor(tensor).dtype.name.lower())
