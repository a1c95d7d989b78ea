"""Rules, weights and records of operators that compute float32 tensors in fp16.

Imported for float models only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.lower.conv_tasks import tile_tasks
from delegate.lower.half.stages import HALF_MOST, half_conv_stages
from delegate.lower.lowered import EXACT
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.operation import ConstantPool, Operation, Plan, Planning
from delegate.lower.task import ConvTask
from delegate.model.graph import Activation, DType, Graph, Node
from delegate.ops.operator import (
    Constraint,
    Ends,
    GraphFacts,
    Operator,
    RangeOf,
    Ranges,
    Role,
    constraint,
    named,
)
from delegate.ops.shared import common, convolution, half_ranges
from delegate.ops.shared.common import weights_of
from delegate.ops.shared.half_ranges import behind_activation, half_range, of_sums

ACTIVATIONS: Final = (Activation.NONE, Activation.RELU, Activation.RELU6)


@constraint()
def float_features(facts: GraphFacts, node: Node) -> str | None:
    """Inputs and outputs of a node in fp16 must be float32."""
    return common.other_type(facts.features(node), DType.FLOAT32)


@constraint(activations=", ".join(a.name for a in ACTIVATIONS))
def half_activation(facts: GraphFacts, node: Node) -> str | None:
    """The fused activation of a node in fp16 must be one of {activations}."""
    activation = common.activation_of(facts.operator(node), node)
    return None if activation in ACTIVATIONS else f"it is {activation.name}"


def fits_half(values: npt.NDArray[np.generic] | None) -> bool:
    """Return whether constants are float32 or float16, and all are numbers within fp16's range."""
    if values is None or values.dtype not in (np.float32, np.float16):
        return False
    # A NaN makes both ends NaN, which no comparison holds for.
    return values.size > 0 and bool(values.min() >= -HALF_MOST and values.max() <= HALF_MOST)


@constraint(most=int(HALF_MOST))
def float_weights(facts: GraphFacts, node: Node) -> str | None:
    """Weights of a node in fp16 must be constants, float32, float16 behind DEQUANTIZE or int8 with
    scales, all from -{most} to {most}.
    """
    weights = weights_of(facts, node)
    if weights.constant is None:
        return f"{named(weights)} is computed while running"
    if weights.dtype is not DType.FLOAT32 or not fits_half(weights.constant):
        return f"{named(weights)} is {weights.dtype.name}, or has others"
    return None


@constraint()
def float_bias(facts: GraphFacts, node: Node) -> str | None:
    """The bias of a node in fp16 must be a constant of one finite float32 per output channel."""
    bias = facts.bias(node)
    if bias is None:
        return None
    channels = weights_of(facts, node).shape[facts.operator(node).weights_axis]
    values = bias.constant
    if values is None or values.shape != (channels,) or bias.dtype is not DType.FLOAT32:
        return f"{named(bias)} is {bias.dtype.name} of shape {list(bias.shape)}"
    is_finite = values.dtype in (np.float32, np.float16) and np.isfinite(values).all()
    return None if is_finite else f"{named(bias)} has others"


FIRST: Final = (
    common.tensors_as_defined,
    common.nodes_in_order,
    float_features,
    *(
        rule
        for rule in common.BEHIND_TYPES
        if rule not in (common.activation_supported, common.per_tensor_features)
    ),
    half_activation,
)


WITH_WEIGHTS: Final = (float_weights, float_bias)
"""Instead of ``common.WITH_WEIGHTS``."""


def half_record(
    operator: Operator,
    plan: Callable[[Planning, Operation], Plan],
    rules: tuple[Constraint, ...],
    ranges: Ranges,
) -> Operator:
    """Return ``operator`` for float32 tensors: tasks of its own, whatever it is for quantised ones.
    ``ranges``: of its results before the fused activation.
    """
    return replace(
        operator,
        rules=(*rules, half_range),
        ranges=behind_activation(operator, ranges),
        plan=plan,
        function=None,
        fold=None,
        maps=None,
        host_values=None,
        whole=None,
        real=None,
        half=None,
        shapes=operator.shapes or operator.broadcast_shapes,
    )


def constant_values(graph: Graph, index: int) -> npt.NDArray[np.generic]:
    """Return the values of a constant, float32 or float16."""
    constant = graph.tensor(index).constant
    assert constant is not None
    return constant


def sums_record(
    operator: Operator, before: tuple[Constraint, ...], behind: tuple[Constraint, ...]
) -> Operator:
    """Return the record of sums of products with weights; see ``half_records.sums``."""
    assert operator.plan is not None, operator.name
    rules = (*FIRST, *before, *WITH_WEIGHTS, *behind)
    ranges = of_sums(operator.inputs.index(Role.FEATURE), operator.weights_axis)
    return half_record(operator, operator.plan, rules, ranges)


def spread_tasks(
    planning: Planning,
    operation: Operation,
    source: DeviceTensor,
    target: DeviceTensor,
    taps: npt.NDArray[np.float64],
    padding: tuple[int, int],
    spread: tuple[int, int],
    constants: ConstantPool,
) -> list[ConvTask]:
    """Return the tasks of ``target`` from ``source``, both of one image: every channel by the same
    ``taps``, rows and columns, which fp16 holds, over pixels that lie ``spread`` apart. Raises
    LoweringError.
    """
    result = target.elements
    weights = np.repeat(taps[:, :, np.newaxis], result.channels, axis=2).astype(np.float16)
    bias = np.zeros(result.channels, np.float32)
    whole = convolution.convolution_of(
        *(planning, operation, convolution.AS_IT_IS, weights, bias, result, padding),
        is_depthwise=True,
        spread=spread,
    )
    conv = replace(whole, source=source, target=target, input_view=source.elements)
    return tile_tasks(conv, half_conv_stages(conv, constants), constants)


_MOVING: Final = tuple(common.no_activation if rule is half_activation else rule for rule in FIRST)


def exactly(
    plan: Callable[[Planning, Operation], Plan],
) -> Callable[[Planning, Operation], Plan]:
    """Return ``plan``, which moves bytes, with its bound."""

    def made(planning: Planning, operation: Operation) -> Plan:
        return plan(planning, operation).within(EXACT)

    return made


def moving_record(
    operator: Operator, rules: tuple[Constraint, ...], ranges: Ranges = half_ranges.of_means
) -> Operator:
    """Return ``operator``, whose tasks bring bytes elsewhere, for float32 tensors."""
    assert operator.plan is not None, operator.name
    rules = (*_MOVING, *rules)
    return half_record(operator, exactly(operator.plan), rules, ranges)


def alias_record(operator: Operator, rules: tuple[Constraint, ...]) -> Operator:
    """Return ``operator``, whose tensors lie in one another where they can, for float32 tensors."""

    def ranges(_: Graph, node: Node, range_of: RangeOf) -> Ends:
        """Return the range of values of all features."""
        low, high = np.transpose([range_of(tensor) for tensor in operator.feature_inputs(node)])
        return np.array([low.min()]), np.array([high.max()])

    return replace(
        operator,
        # Constants beside computed parts are packed as int8 alone.
        inputs=tuple(Role.FEATURE if r is Role.OPERAND else r for r in operator.inputs),
        rules=(*_MOVING, *rules),
        ranges=ranges,
        plan=None if operator.plan is None else exactly(operator.plan),
        half=None,
    )
