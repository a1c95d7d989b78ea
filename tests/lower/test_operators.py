"""Operators against the reference kernels, beyond what conformance families draw."""

import itertools

import numpy as np
import pytest

from rk3588_conformance.builder import add_model, conv_model
from tests.loops import for_each
from tests.lower.reference import differences, lower_model


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
