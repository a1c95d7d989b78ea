"""Operators on the simulator against TensorFlow Lite's reference kernels: beyond what the families
of the conformance suite draw.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_partition
from delegate.lower.numerics.addition import requantize_sum
from delegate.model.graph import DType, Graph
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from rk3588_conformance.builder import add_model, conv_model
from tests.loops import for_each
from tests.lower.reference import (
    differences,
    lower_model,
    random_inputs,
    tflite_outputs,
    whole_graph,
)
from tests.shared_folder import model_files, needs_models


@for_each("is_constant", [False, True])
@for_each("shape", [(2, 5, 3, 21), (3, 1, 5, 1), (2, 1, 1, 40)])
@for_each("kept", tuple(itertools.product((False, True), repeat=4)))
def test_an_operand_is_broadcast(kept, shape, is_constant):
    """Every choice of dimensions that are kept; the others are 1."""
    other = tuple(d if keep else 1 for d, keep in zip(shape, kept, strict=True))
    rng = np.random.default_rng([*shape, *kept])
    model = add_model(rng, shape, other_shape=other, is_constant=is_constant)
    (difference,) = differences(model, rng)
    assert not difference.any()


@pytest.mark.parametrize("other", [(), (1,), (21,), (3, 21), (5, 1, 21)])
def test_a_constant_of_lower_rank_is_broadcast(other):
    rng = np.random.default_rng(len(other))
    model = add_model(rng, (2, 5, 3, 21), other_shape=other, is_constant=True)
    (difference,) = differences(model, rng)
    assert not difference.any()


@pytest.mark.parametrize("batch", [2, 3])
def test_batches_share_the_weights(batch):
    rng = np.random.default_rng(batch)
    model = conv_model(rng, 6, 9, 12, 20, 3, 3, batch=batch)
    (difference,) = differences(model, rng)
    assert not difference.any()
    _, _, lowered = lower_model(model)
    reuse = [task.cbuf.weight_reuse for task in lowered.layers[0].tasks]
    assert reuse == [False] + [True] * (batch - 1)


def pairs_counted(graph: Graph) -> int:
    """Return how many of the 65,536 pairs of operands of an addition are one step off, by its
    proof.
    """
    (node,) = graph.nodes
    tensors = [graph.tensor(t) for t in (*node.inputs, *node.outputs)]
    moved = 128 if tensors[0].dtype is DType.UINT8 else 0
    scales = [t.quantization.scale for t in tensors]
    zero_points = [t.quantization.zero_point - moved for t in tensors]
    options = node.options_as(AddOptions)
    assert options is not None
    return int(
        requantize_sum(0, tuple(scales), tuple(zero_points), options.activation).proof.wrong.sum()
    )


@needs_models
@pytest.mark.parametrize(
    "path",
    [p for p in model_files("single_op") if p.name.startswith(("conv", "dw", "fc", "add"))][::5],
    ids=lambda p: p.stem,
)
def test_public_one_operator_models(path):
    rng = np.random.default_rng(1)
    model = path.read_bytes()
    graph = read_graph(model)
    partition = whole_graph(graph)
    arrays = random_inputs(graph, partition.inputs, rng)
    (theirs,) = tflite_outputs(model, graph, partition, arrays)
    compiled = compile_partition(graph, partition, numerics="exact")
    (ours,) = Executable(compiled.program, "simulator").run(arrays)
    is_other = ours != theirs
    if not path.name.startswith("add"):
        assert not is_other.any()
        return
    # Scales that are simple fractions of each other make ties, which no setting rounds as
    # TensorFlow Lite does: one step for pairs of operands that were counted when it was compiled.
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    pairs = np.stack([np.broadcast_to(array, ours.shape)[is_other] for array in arrays])
    assert len(np.unique(pairs, axis=1).T) <= pairs_counted(graph)
