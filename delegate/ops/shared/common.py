"""Rules that every operator on the NPU obeys, and those of operators with weights.

Each function's name is the rule, its docstring the sentence the user sees; it returns the value
that breaks the rule. Rules run in the order of the operator's record: a later one relies on the
earlier ones.

Rules of operators that the host's conversion does: QUANTIZE and DEQUANTIZE of float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from delegate.lower.lowered import Affine
from delegate.model.graph import Activation, DType, Graph, Node, Tensor
from delegate.model.index_map import MapError
from delegate.ops.operator import ABSENT, GraphFacts, Operator, Role, Shape, constraint, named

FEATURE_TYPES = (DType.INT8, DType.UINT8)
TYPE_RANGES = {DType.INT8: (-128, 127), DType.UINT8: (0, 255)}
ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)

# More inputs or outputs than any network gives an operator; the runtime has no limit of its own.
MOST_TENSORS = 1024


def same_shape(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Return the shape of a result that is the first input's."""
    return (graph.tensor(node.inputs[0]).shape,)


def axis_of(axis: int, shape: Sequence[int]) -> int:
    """Return an axis, which may count from the end, from the front. Raises MapError."""
    if not -len(shape) <= axis < len(shape):
        raise MapError(f"the axis is {axis}, the shape {list(shape)}")
    return axis % len(shape)


def weights_of(facts: GraphFacts, node: Node) -> Tensor:
    """The weights of an operator that has some; ``tensors_as_defined`` ran before."""
    index = facts.operator(node).weights(node)
    assert index is not None
    return facts.graph.tensor(index)


@constraint()
def tensors_as_defined(facts: GraphFacts, node: Node) -> str | None:
    """The operator must have the inputs and outputs that TensorFlow Lite defines."""
    operator = facts.operator(node)
    needed = len(operator.inputs) if operator.needed is None else operator.needed
    most = MOST_TENSORS if operator.repeats else len(operator.inputs)
    if not needed <= len(node.inputs) <= most:
        return f"it has {len(node.inputs)} inputs"
    if not 1 <= len(node.outputs) <= operator.most_outputs:
        return f"it has {len(node.outputs)} outputs"
    required = node.inputs if operator.repeats else node.inputs[:needed]
    if ABSENT in node.outputs or ABSENT in required:
        return "a tensor that must be there is absent"
    return None


@constraint()
def options_known(facts: GraphFacts, node: Node) -> str | None:
    """The options must be there, with a padding scheme and an activation this version knows."""
    if facts.operator(node).options is None or facts.options(node) is not None:
        return None
    return "they are missing or have an unknown value"


def activation_of(operator: Operator, node: Node) -> Activation:
    """The fused activation, if the operator has one."""
    options = None if operator.options is None else node.options_as(operator.options)
    found: Activation = getattr(options, "activation", Activation.NONE)
    return found


@constraint(activations=", ".join(a.name for a in ACTIVATIONS))
def activation_supported(facts: GraphFacts, node: Node) -> str | None:
    """The fused activation must be one of {activations}."""
    activation = activation_of(facts.operator(node), node)
    return None if activation in ACTIVATIONS else f"it is {activation.name}"


@constraint()
def no_activation(facts: GraphFacts, node: Node) -> str | None:
    """There must be no fused activation, as the runtime demands."""
    activation = activation_of(facts.operator(node), node)
    return None if activation is Activation.NONE else f"it is {activation.name}"


@constraint()
def static_shapes(facts: GraphFacts, node: Node) -> str | None:
    """All shapes, of nodes before it too, must be fixed, but for the batch; convert the model with
    fixed input shapes.
    """
    for tensor in (*facts.inputs(node), *facts.outputs(node)):
        if not tensor.has_fixed_image:
            shape = list(tensor.shape_signature or tensor.shape)
            return f"{named(tensor)} has the shape {shape}"
        if tensor.index in facts.behind_dynamic:
            return f"{named(tensor)} is computed from a tensor of another shape in each run"
    return None


@constraint()
def no_empty_tensors(facts: GraphFacts, node: Node) -> str | None:
    """Every dimension must be at least 1."""
    for tensor in (*facts.inputs(node), *facts.outputs(node)):
        if any(dimension < 1 for dimension in tensor.shape):
            return f"{named(tensor)} has the shape {list(tensor.shape)}"
    return None


@constraint()
def nodes_in_order(facts: GraphFacts, node: Node) -> str | None:
    """In the whole graph, a tensor must be written once, before it is read, and not if it is a
    variable or an input.
    """
    return facts.disorder


@constraint()
def no_variables(facts: GraphFacts, node: Node) -> str | None:
    """No tensor may be a variable."""
    variable = next((tensor for tensor in facts.inputs(node) if tensor.is_variable), None)
    return None if variable is None else f"{named(variable)} is"


@constraint()
def constants_unchanged(facts: GraphFacts, node: Node) -> str | None:
    """Constants must be dense and share no memory with inputs of the model or outputs of nodes."""
    for tensor in (*facts.inputs(node), *facts.outputs(node)):
        if tensor.is_sparse:
            return f"{named(tensor)} is sparse; convert the model without sparsity"
        constant = tensor.constant
        if constant is None:
            continue
        if any(np.may_share_memory(constant, other) for other in facts.changing_constants):
            return f"{named(tensor)} may be written"
    return None


@constraint()
def eight_bit_features(facts: GraphFacts, node: Node) -> str | None:
    """Inputs and outputs must be quantised, all to int8 or all to uint8; convert the model with
    full integer quantisation.
    """
    features = facts.features(node)
    types = dict.fromkeys(tensor.dtype.name for tensor in features)
    others = f"they are {', '.join(types)}" if len(types) > 1 else None
    return next(filter(None, map(no_eight_bits, features)), others)


def no_eight_bits(tensor: Tensor) -> str | None:
    """Return why ``tensor`` is no quantised int8 or uint8; None: it is."""
    if tensor.dtype not in FEATURE_TYPES:
        return f"{named(tensor)} is {tensor.dtype.name}"
    if tensor.quantization is None:
        return f"{named(tensor)} is {tensor.dtype.name} without quantisation parameters"
    return None


def other_type(tensors: Iterable[Tensor], wanted: DType) -> str | None:
    """The first of ``tensors`` that is of another type; None: there is none."""
    found = next((tensor for tensor in tensors if tensor.dtype is not wanted), None)
    return None if found is None else f"{named(found)} is {found.dtype.name}"


def other_rank(tensors: Iterable[Tensor], least: int, most: int) -> str | None:
    """The first of ``tensors`` whose rank is not in the range; None: there is none."""
    found = next((tensor for tensor in tensors if not least <= len(tensor.shape) <= most), None)
    return None if found is None else f"{named(found)} has the shape {list(found.shape)}"


MOST_RANK = 6
"""Heads and shuffles of channels have five dimensions, windows of transformers six. Those between
height and channels are columns (``view_of``).
"""


@constraint(most=MOST_RANK)
def rank_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Inputs and outputs must have rank 0 to {most}."""
    return other_rank(facts.features(node), 0, MOST_RANK)


@constraint(most=MOST_RANK)
def feature_rank(facts: GraphFacts, node: Node) -> str | None:
    """Inputs and outputs must have rank 1 to {most}."""
    return other_rank(facts.features(node), 1, MOST_RANK)


@constraint()
def int8_features(facts: GraphFacts, node: Node) -> str | None:
    """Input and output must be int8: the runtime takes no uint8."""
    return other_type(facts.features(node), DType.INT8)


@constraint()
def per_tensor_features(facts: GraphFacts, node: Node) -> str | None:
    """Inputs and outputs must have one scale and one zero point each."""
    for tensor in facts.features(node):
        if tensor.quantization is not None and tensor.quantization.is_per_channel:
            return f"{named(tensor)} has {len(tensor.quantization.scales)} scales"
    return None


@constraint()
def quantization_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Scales must be finite and greater than zero, zero points in the range of the tensor's
    type.
    """
    weights = facts.operator(node).inputs_of(node, Role.WEIGHTS)
    for tensor in (*facts.features(node), *map(facts.graph.tensor, weights)):
        if tensor.quantization is None:
            continue
        low, high = TYPE_RANGES.get(tensor.dtype, (0, 0))
        for scale in tensor.quantization.scales:
            if not (math.isfinite(scale) and scale > 0):
                return f"{named(tensor)} has the scale {scale}"
        for zero_point in tensor.quantization.zero_points:
            if not low <= zero_point <= high:
                return f"{named(tensor)} is {tensor.dtype.name} with the zero point {zero_point}"
    return None


def other_shape(facts: GraphFacts, node: Node) -> str | None:
    """Return how an output's shape is not the one that follows from the inputs; None: all are."""
    try:
        shapes = facts.operator(node).output_shapes(facts.graph, node)
    except ValueError as error:
        return str(error)
    assert shapes is not None, node.op
    for output, shape in zip(facts.outputs(node), map(tuple, shapes), strict=True):
        if output.shape != shape:
            return f"{named(output)} is {list(output.shape)}, not {list(shape)}"
    return None


@constraint()
def keeps_quantization(facts: GraphFacts, node: Node) -> str | None:
    """Inputs and outputs must have the same scale and zero point."""
    first, *others = facts.features(node)
    other = next((t for t in others if t.quantization != first.quantization), None)
    return None if other is None else f"{named(first)} and {named(other)} differ"


@constraint()
def features_computed(facts: GraphFacts, node: Node) -> str | None:
    """The input, or one of several operands, must be computed or be an input of the model, not a
    constant.
    """
    operator, graph = facts.operator(node), facts.graph
    found = operator.feature_inputs(node)
    constants = [t for t in found if graph.tensor(t).constant is not None]
    wrong = next((t for t in operator.inputs_of(node, Role.FEATURE) if t in constants), None)
    if wrong is not None:
        return f"{named(graph.tensor(wrong))} is a constant"
    return "all are constants" if constants and len(constants) == len(found) else None


@constraint()
def weights_constant(facts: GraphFacts, node: Node) -> str | None:
    """Weights must be constants of the model."""
    weights = weights_of(facts, node)
    return None if weights.constant is not None else f"{named(weights)} is computed while running"


@constraint()
def weights_type(facts: GraphFacts, node: Node) -> str | None:
    """Weights must be quantised to the same type as the input."""
    weights = weights_of(facts, node)
    wanted = facts.features(node)[0].dtype
    if weights.dtype is not wanted:
        return f"{named(weights)} is {weights.dtype.name}, the input {wanted.name}"
    if weights.quantization is None:
        return f"{named(weights)} has no quantisation parameters"
    return None


@constraint()
def per_channel_weights(facts: GraphFacts, node: Node) -> str | None:
    """Weights with one scale per channel must be int8, and the scales those of output channels."""
    weights, axis = weights_of(facts, node), facts.operator(node).weights_axis
    quantization, shape = weights.quantization, weights.shape
    if quantization is None or not quantization.is_per_channel:
        return None
    if weights.dtype is not DType.INT8:
        return f"{named(weights)} is {weights.dtype.name}"
    if quantization.axis != axis or shape[axis] != len(quantization.scales):
        return f"{len(quantization.scales)} scales along axis {quantization.axis}"
    return None


@constraint()
def int8_weights_symmetric(facts: GraphFacts, node: Node) -> str | None:
    """int8 weights must have the zero point 0, as TensorFlow Lite defines."""
    weights = weights_of(facts, node)
    if weights.dtype is not DType.INT8 or weights.quantization is None:
        return None
    found = next((z for z in weights.quantization.zero_points if z != 0), None)
    return None if found is None else f"{named(weights)} has the zero point {found}"


@constraint()
def bias_int32_constant(facts: GraphFacts, node: Node) -> str | None:
    """The bias, if any, must be an int32 constant with one value per output channel."""
    bias = facts.bias(node)
    if bias is None:
        return None
    if bias.dtype is not DType.INT32:
        return f"{named(bias)} is {bias.dtype.name}"
    if bias.constant is None:
        return f"{named(bias)} is no constant"
    channels = weights_of(facts, node).shape[facts.operator(node).weights_axis]
    if bias.constant.shape != (channels,) or bias.constant.dtype != np.int32:
        return f"{named(bias)} has the shape {list(bias.shape)}, the channels are {channels}"
    return None


FIRST = (
    tensors_as_defined,
    nodes_in_order,
    eight_bit_features,
    options_known,
    activation_supported,
    static_shapes,
    no_empty_tensors,
    no_variables,
    constants_unchanged,
    per_tensor_features,
    features_computed,
)

BEHIND_TYPES = tuple(
    rule for rule in FIRST if rule not in (tensors_as_defined, nodes_in_order, eight_bit_features)
)
"""The rules of ``FIRST`` behind an operator's own rules for tensors of different types."""

# After the ranks are known, since they index the weights' shape.
WITH_WEIGHTS = (
    weights_constant,
    weights_type,
    quantization_in_range,
    per_channel_weights,
    int8_weights_symmetric,
    bias_int32_constant,
)


@constraint()
def quantised_input(facts: GraphFacts, node: Node) -> str | None:
    """The input must be quantised to int8 or uint8."""
    return no_eight_bits(facts.features(node)[0])


@constraint()
def quantised_or_float32_input(facts: GraphFacts, node: Node) -> str | None:
    """The input must be float32, or quantised to int8 or uint8."""
    source = facts.features(node)[0]
    return None if source.dtype is DType.FLOAT32 else no_eight_bits(source)


@constraint()
def quantised_output(facts: GraphFacts, node: Node) -> str | None:
    """The output must be quantised to int8 or uint8."""
    return no_eight_bits(facts.outputs(node)[0])


@constraint()
def float32_output(facts: GraphFacts, node: Node) -> str | None:
    """The output must be float32."""
    return other_type(facts.outputs(node), DType.FLOAT32)


def affine_of(tensor: Tensor) -> Affine:
    """Return how float32 stands for a quantised tensor."""
    assert tensor.quantization is not None
    scale, zero_point = tensor.quantization.scale, tensor.quantization.zero_point
    return Affine(scale, zero_point, tensor.dtype.element)


def is_float32(graph: Graph, node: Node) -> bool:
    """Return whether only the host can convert the node's tensors."""
    tensors = (graph.tensor(t) for t in (node.inputs[0], node.outputs[0]))
    return any(tensor.dtype is DType.FLOAT32 for tensor in tensors)
