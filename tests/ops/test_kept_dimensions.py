"""Sums over channels whose dimension a model drops, as layer normalisation from PyTorch has them.

The oracle is TensorFlow Lite's reference kernels; functions of 8 bits and means are equal to them.
"""

import numpy as np
import pytest

from delegate.compile.aot.rewrite import compile_ahead_of_time
from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from delegate.ops.shared.norm_means import with_kept_dimensions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.random_layers import Numbers
from tests.inferences import outputs
from tests.lower.reference import random_inputs
from tests.lower.test_aliases import run

EXACT = Options(numerics="exact", deny_ops=())
GIVEN = Quantization((0.05,), (3,))
MEANS = Quantization((0.01,), (-7,))
CURVE = Quantization((1 / 128,), (0,))


class Normalised:
    """``builder`` with two means without their dimension, what is between them, and a reshape."""

    def __init__(self, shape: tuple[int, ...], dtype: DType = DType.INT8) -> None:
        self.builder = builder = Net("normalised")
        self.x = builder.input("x", shape, dtype, GIVEN)
        kept = (*shape[:-1], 1)
        axes = (len(shape) - 1,)
        self.mean = builder.reduced("MEAN", self.x, MEANS, keep_dims=False, axes=axes)
        other = builder.function("TANH", (self.x,), CURVE)
        other = builder.reduced("MEAN", other, MEANS, keep_dims=False, axes=axes)
        one = builder.constant("one", np.array(5, np.int8), MEANS)
        shifted = builder.function("ADD", (other, one), MEANS, AddOptions(Activation.NONE))
        self.curve = builder.function("TANH", (shifted,), CURVE)
        both = builder.function("MAXIMUM", (self.mean, shifted), MEANS)
        numbers = {"numbers": (-1, *kept[1:])}
        self.last = builder.result("RESHAPE", (both,), "reshaped", kept, numbers=numbers)
        self.sum = builder.add(self.x, self.last, output_scale=0.1, output_zero_point=0)

    def model(self, *outputs: int) -> bytes:
        for output in outputs:
            self.builder.output(output)
        return self.builder.build()


def assert_equal(model: bytes, deny_ops: str = "NONE", compiled: bytes | None = None) -> None:
    """Compare ``compiled``, or the model itself, with the reference kernels."""
    graph = read_graph(model)
    arrays = random_inputs(graph, graph.inputs, np.random.default_rng(3))
    expected = outputs(model, *arrays)
    for ours, theirs in zip(run(compiled or model, arrays, deny_ops), expected, strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(ours.astype(int) - theirs).max() <= 1
        assert (ours != theirs).mean() < 0.25


SHAPES = [(1, 37, 96), (1, 5, 7, 33), (2, 3, 5, 16), (1, 2, 3, 5, 19), (1, 1, 64), (13, 40)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_means_without_their_dimension_are_one_partition(shape: tuple[int, ...]) -> None:
    given = Normalised(shape)
    model = given.model(given.sum)
    result = compile_model(model, EXACT)
    assert not result.rejections
    assert len(result.partitions) == 1
    assert_equal(model)


@pytest.mark.parametrize("denied", ["MEAN", "TANH", "MAXIMUM", "RESHAPE", "ADD", "1", "3", "NONE"])
def test_whoever_reads_them_sees_what_the_model_says(denied: str) -> None:
    """Edges of partitions, and outputs of the model."""
    given = Normalised((1, 5, 7, 33))
    assert_equal(given.model(given.sum, given.mean, given.curve), denied)


def test_compiled_ahead_of_time_outputs_keep_their_shape() -> None:
    given = Normalised((1, 37, 96))
    model = given.model(given.mean, given.sum)
    compiled = compile_ahead_of_time(model, EXACT).content
    shapes = [[g.tensor(t).shape for t in g.outputs] for g in map(read_graph, (model, compiled))]
    assert shapes[0] == shapes[1] == [(1, 37), (1, 37, 96)]
    assert_equal(model, compiled=compiled)


def test_a_dimension_that_is_expanded_is_the_one_that_was_kept() -> None:
    given = Normalised((1, 5, 7, 33))
    expanded = given.builder.expand_dims(given.mean, (1, 5, 7, 1))
    dropped = given.builder.squeeze(given.curve, (5, 7))
    model = given.model(given.sum, given.builder.function("TANH", (expanded,), CURVE), dropped)
    result = compile_model(model, EXACT)
    assert not result.rejections
    assert_equal(model)


@pytest.mark.parametrize("images", [1, 3])
def test_another_batch_is_compiled_anew(images: int) -> None:
    given = Normalised((2, 5, 7, 33))
    model = given.model(given.mean, given.sum)
    x = np.random.default_rng(4).integers(-128, 128, (images, 5, 7, 33)).astype(np.int8)
    made = outputs(model, x, device="simulator", deny_ops="NONE", log_level="error")
    for ours, theirs in zip(made, outputs(model, x), strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(ours.astype(int) - theirs).max() <= 1


def test_what_another_operator_reads_stays() -> None:
    """A line of channels to FULLY_CONNECTED."""
    given = Normalised((1, 37, 96))
    numbers = Numbers(output=GIVEN)
    dense = given.builder.fully_connected(given.mean, 5, numbers)
    model = given.model(given.sum, dense)
    graph = read_graph(model)
    assert with_kept_dimensions(graph) is graph
    assert_equal(model)


def test_a_constant_of_many_values_stays() -> None:
    given = Normalised((1, 37, 96))
    values = np.arange(37, dtype=np.int8).reshape(1, 37)
    line = given.builder.constant("line", values, MEANS)
    most = given.builder.function("MAXIMUM", (given.mean, line), MEANS)
    model = given.model(given.sum, most)
    graph = read_graph(model)
    assert with_kept_dimensions(graph) is graph
    assert_equal(model)
