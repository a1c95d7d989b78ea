"""Tests layer normalisation in fp16, as converters store it: its deviation is one operation, right
for rows of any magnitude, and what is beyond fp16 is no number.
"""

import numpy as np
import pytest

from delegate.model.graph import Activation, DType
from delegate.ops.add import AddOptions
from delegate.ops.mul import MulOptions
from delegate.ops.operator import GraphFacts
from delegate.ops.shared.half_deviations import Scales
from delegate.ops.shared.half_norms import deviation_of
from delegate.ops.shared.half_rows import shares
from delegate.ops.shared.reductions import ReducerOptions
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder import Net
from tests.inferences import interpreter_of, invoke
from tests.ops.half_models import compiled

SQUARES = ("SQUARED_DIFFERENCE", "turned", "SQUARE", "MUL")


class Norm:
    """One over the deviation of rows, and how it is stored. ``shown``: tensors that are outputs."""

    def __init__(
        self, shape, epsilon, squares="SQUARED_DIFFERENCE", shown=(), clamped=False, dropped=False
    ):
        self.builder = builder = Net("norm")
        whole = (*shape[:-1], 1)
        rows = shape[:-1] if dropped else whole
        x, m = (builder.input(n, s, DType.FLOAT32) for n, s in (("x", shape), ("m", whole)))
        self.tensors = {}
        if squares in SQUARES[:2]:
            pair = (m, x) if squares == "turned" else (x, m)
            self.put("SQUARED_DIFFERENCE", pair, "squares", shape)
        else:
            d = self.put("SUB", (x, m), "distances", shape, SubOptions())
            twice = {"SQUARE": ((d,), None), "MUL": ((d, d), MulOptions())}[squares]
            self.put(squares, twice[0], "squares", shape, twice[1])
        axis = builder.constant("axis", np.array([-1], np.int32))
        keeps = ReducerOptions(not dropped)
        self.put("MEAN", (self.tensors["squares"], axis), "mean", rows, keeps)
        small = builder.constant("epsilon", np.array(epsilon, np.float32))
        how = AddOptions(Activation.RELU if clamped else Activation.NONE)
        self.put("ADD", (small, self.tensors["mean"]), "sum", rows, how)
        self.put("RSQRT", (self.tensors["sum"],), "root", rows)
        if dropped:
            self.tensors["whole"] = builder.reshape(self.tensors["root"], whole)
        for name in ("root", *(("whole",) if dropped else ()), *shown):
            builder.output(self.tensors[name])
        self.model = builder.build()

    def put(self, op, inputs, name, shape, options=None):
        made = self.tensors[name] = self.builder.tensor(name, shape, DType.FLOAT32)
        self.builder.operator(op, inputs, (made,), options)
        return made


def ours(model, *arrays):
    interpreter = interpreter_of(model, device="simulator", float="fp16", deny_ops="NONE")
    return invoke(interpreter, *arrays)


def exact(x, m, epsilon):
    distances = x.astype(np.float64) - m.astype(np.float64)
    return 1 / np.sqrt((distances**2).mean(-1, keepdims=True) + epsilon)


def rows_of(rng, count, channels):
    """Rows of every magnitude, some with one channel that is far from the others, or two alike."""
    scale = np.exp2(rng.uniform(-24, 15, (1, count, 1, 1)))
    x = rng.normal(size=(1, count, 1, channels)) * scale
    kind = np.arange(count) % 5
    x[:, kind == 1] *= 1e-3
    x[:, kind == 1, :, rng.integers(channels)] = scale[:, kind == 1, :, 0]
    x[:, kind == 2] = np.sign(x[:, kind == 2]) * scale[:, kind == 2]
    x[:, kind == 3] = scale[:, kind == 3]
    return np.clip(x, -32000, 32000).astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("squares", SQUARES)
@pytest.mark.parametrize(
    ("channels", "epsilon"),
    [
        *((1, 1e-3), (2, 1e-6), (3, 1e-9), (24, 1.0), (97, 1e-5)),
        *((384, 1e-6), (300, 1.0), (1000, 2.0**-31)),
    ],
)
def test_deviations_of_any_magnitude_are_within_the_bound(squares, channels, epsilon):
    rng = np.random.default_rng(channels)
    x = rows_of(rng, 150, channels)
    m = x.mean(-1, keepdims=True).astype(np.float16).astype(np.float32)
    m[:, ::7] = x[:, ::7, :, :1]  # whatever it is, it need not be the mean
    if squares not in SQUARES[:2]:
        x, m = (x - m).astype(np.float16).astype(np.float32), np.zeros_like(m)
    norm = Norm(x.shape, epsilon, squares)
    (partition,) = compiled(norm.model, float="fp16", deny_ops="NONE").partitions
    (layer,) = [one for one in partition.layers if one.op == "RSQRT"]
    assert len(layer.nodes) == 4
    (found,) = ours(norm.model, x, m)
    wanted = exact(x, m, np.float32(epsilon).astype(np.float64))
    error = np.abs(found - wanted)
    most = layer.bound.relative * wanted + layer.bound.absolute
    assert layer.bound.relative < 0.005
    assert (error <= most).all()
    assert (error > most / 10).any()


@pytest.mark.parametrize("shape", [(1, 37, 96), (2, 5, 7, 33)], ids=str)
def test_a_dimension_that_means_drop_is_kept(shape):
    """As exports from PyTorch have layer normalisation."""
    norm = Norm(shape, 1e-5, dropped=True)
    x = norm.tensors["root"]
    result = compiled(norm.model, float="fp16", deny_ops="NONE")
    assert not result.rejections
    assert result.graph.tensor(x).stored_shape == shape[:-1]
    rng = np.random.default_rng(1)
    given = rng.normal(size=shape).astype(np.float16).astype(np.float32)
    middle = given.mean(-1, keepdims=True).astype(np.float16).astype(np.float32)
    root, whole = ours(norm.model, given, middle)
    wanted = exact(given, middle, 1e-5)
    assert root.shape == shape[:-1]
    np.testing.assert_allclose(root[..., np.newaxis], wanted, rtol=0.005)
    np.testing.assert_array_equal(whole, root[..., np.newaxis])


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_what_is_no_number_makes_its_row_none(odd):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1, 6, 1, 40)).astype(np.float32)
    m = np.zeros((1, 6, 1, 1), np.float32)
    x[0, 2, 0, 7] = odd
    m[0, 4] = odd
    (found,) = ours(Norm(x.shape, 1e-5).model, x, m)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(found)), [2, 4])
    x[0, 2, 0, 7], m[0, 2], m[0, 4] = 65504, -65504, 0
    (found,) = ours(Norm(x.shape, 1e-5).model, x, m)  # a distance that fp16 does not hold
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(found)), [2])


@pytest.mark.parametrize(
    ("how", "is_one"),
    [
        ({}, True),
        ({"shown": ("sum",)}, False),
        ({"shown": ("squares",)}, False),
        ({"clamped": True}, False),
        ({"epsilon": 2.0**-32}, False),
        ({"epsilon": 1.5}, False),
        ({"epsilon": 0.0}, False),
        ({"epsilon": np.nan}, False),
    ],
)
def test_what_a_deviation_is(how, is_one):
    norm = Norm((1, 3, 4, 24), **{"epsilon": 1e-5, **how})
    result = compiled(norm.model, float="fp16", deny_ops="NONE")
    root = next(node for node in result.graph.nodes if node.op == "RSQRT")
    assert (deviation_of(GraphFacts(result.graph), root) is not None) == is_one
    rules = {one.rule for one in result.rejections if one.op == "RSQRT"}
    assert rules == (set() if is_one else {"root_of_a_deviation"})


def test_the_deviation_of_a_partition_that_lacks_a_node_stays_on_the_cpu():
    result = compiled(Norm((1, 3, 4, 24), 1e-5).model, float="fp16", deny_ops="ADD")
    assert {one.op: one.rule for one in result.rejections}["RSQRT"] == "host_converts"


@pytest.mark.parametrize("channels", [1, 2, 3, 7, 126, 127, 255, 768, 1023, 4096])
@pytest.mark.parametrize("epsilon", [2.0**-31, 1e-6, 1.0])
def test_the_scales_hold_what_the_chain_can_give(channels, epsilon):
    """At the worst rows that there are: one distance, equal ones, none."""
    scales = Scales(channels, epsilon)
    one = np.zeros(channels)
    one[0] = 65504
    rows = [one, np.full(channels, 65504.0), np.zeros(channels), np.full(channels, epsilon**0.5)]
    for magnitudes in [*rows, one * 1e-4, one * 1e-7]:
        half = scales.magnitude_weight * magnitudes.sum() + scales.floor
        assert scales.reciprocal.least <= half <= scales.reciprocal.most
        products = magnitudes * scales.numerator / half
        assert products.max() ** 2 * (1 + 2.0**-9) < 65504
        scaled = epsilon * 2.0**scales.exponent * (scales.numerator / half) ** 2
        under = scales.square_weight * (products**2).sum() + scaled
        assert scales.least_square <= under * (1 - 2.0**-7)
        assert under * (1 + 2.0**-7) <= scales.root.most
    first, second = (np.float16(factor) for factor in scales.factors)
    product = float(first) * float(second) / (epsilon * 2.0**scales.exponent)
    assert abs(product - 1) <= 2.0**-11


@pytest.mark.parametrize("count", [1, 3, 96, 97, 1000, 4095])
def test_shares_make_one(count):
    found = shares(count).astype(np.float64)
    assert found.sum() == 1
    assert np.abs(found * count - 1).max() < 2.0**-9
