"""Rules that every operator on the NPU obeys, and those of operators with weights.

Each function's name is the rule, its docstring the sentence the user sees; it returns the value
that breaks the rule. Rules run in the order of ``ops``: a later one relies on the earlier ones.
"""

from __future__ import annotations

import math

import numpy as np

from delegate.graph import (
    Activation,
    DType,
    Node,
    Quantization,
    StridedSliceOptions,
    Tensor,
)
from delegate.partition.constraint import ABSENT, GraphFacts, constraint, named
from delegate.partition.views import VIEW_OPS, view_features

FEATURE_TYPES = (DType.INT8, DType.UINT8)
TYPE_RANGES = {DType.INT8: (-128, 127), DType.UINT8: (0, 255)}
ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)

# Inputs that may be there, by operator: (least, most). TensorFlow Lite's own definition.
INPUT_COUNTS = {
    "CONV_2D": (2, 3),
    "DEPTHWISE_CONV_2D": (2, 3),
    "FULLY_CONNECTED": (2, 3),
    "ADD": (2, 2),
    "PAD": (2, 2),
    "CONCATENATION": (1, 1024),
    "SPLIT": (2, 2),
    "SLICE": (3, 3),
    "STRIDED_SLICE": (4, 4),
}
MAX_OUTPUTS = {"SPLIT": 1024}
INPUT, WEIGHTS, BIAS = 0, 1, 2
WITH_WEIGHTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def features(facts: GraphFacts, node: Node) -> list[Tensor]:
    """Inputs and outputs that are feature maps: all but weights and bias."""
    if node.op in VIEW_OPS:
        return [facts.graph.tensor(t) for t in view_features(node)]
    count = len(node.inputs) if node.op == "ADD" else 1
    return [facts.graph.tensor(t) for t in (*node.inputs[:count], *node.outputs)]


def weights_of(facts: GraphFacts, node: Node) -> Tensor:
    return facts.graph.tensor(node.inputs[WEIGHTS])


@constraint()
def tensors_as_defined(facts: GraphFacts, node: Node) -> str | None:
    """The operator must have the inputs and outputs that TensorFlow Lite defines."""
    least, most = INPUT_COUNTS[node.op]
    if not least <= len(node.inputs) <= most:
        return f"it has {len(node.inputs)} inputs"
    if not 1 <= len(node.outputs) <= MAX_OUTPUTS.get(node.op, 1):
        return f"it has {len(node.outputs)} outputs"
    needed = node.inputs if node.op in VIEW_OPS else node.inputs[:2]
    if ABSENT in node.outputs or ABSENT in needed:
        return "a tensor that must be there is absent"
    return None


@constraint()
def options_known(facts: GraphFacts, node: Node) -> str | None:
    """The options must be there, with a padding scheme and an activation this version knows."""
    return "they are missing or have an unknown value" if node.options is None else None


@constraint(activations=", ".join(a.name for a in ACTIVATIONS))
def activation_supported(facts: GraphFacts, node: Node) -> str | None:
    """The fused activation must be one of {activations}."""
    options = node.options
    if options is None or isinstance(options, StridedSliceOptions):
        return None
    # The runtime refuses a concatenation with an activation.
    supported = (Activation.NONE,) if node.op in VIEW_OPS else ACTIVATIONS
    return None if options.activation in supported else f"it is {options.activation.name}"


@constraint()
def static_shapes(facts: GraphFacts, node: Node) -> str | None:
    """All shapes must be fixed, but for the batch; convert the model with fixed input shapes."""
    for tensor in (*facts.inputs(node), *facts.outputs(node)):
        if not tensor.has_fixed_image:
            shape = list(tensor.shape_signature or tensor.shape)
            return f"{named(tensor)} has the shape {shape}"
    return None


@constraint()
def not_behind_dynamic_shapes(facts: GraphFacts, node: Node) -> str | None:
    """No input may be computed from a tensor whose shape is known only while running."""
    for tensor in facts.inputs(node):
        if tensor.index in facts.behind_dynamic:
            return f"{named(tensor)} is"
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
    """Inputs and outputs must be quantised to int8 or uint8; convert the model with full integer
    quantisation.
    """
    for tensor in features(facts, node):
        if tensor.dtype not in FEATURE_TYPES:
            return f"{named(tensor)} is {tensor.dtype.name}"
        if tensor.quantization is None:
            return f"{named(tensor)} is {tensor.dtype.name} without quantisation parameters"
    return None


@constraint()
def same_feature_types(facts: GraphFacts, node: Node) -> str | None:
    """Inputs and output must have the same type."""
    types = [tensor.dtype.name for tensor in features(facts, node)]
    return f"they are {', '.join(types)}" if len(set(types)) > 1 else None


@constraint()
def per_tensor_features(facts: GraphFacts, node: Node) -> str | None:
    """Inputs and outputs must have one scale and one zero point each."""
    for tensor in features(facts, node):
        if tensor.quantization is not None and tensor.quantization.is_per_channel:
            return f"{named(tensor)} has {len(tensor.quantization.scales)} scales"
    return None


def _bad_scale(tensor: Tensor) -> float | None:
    scales = () if tensor.quantization is None else tensor.quantization.scales
    return next((s for s in scales if not (math.isfinite(s) and s > 0)), None)


@constraint()
def scales_positive(facts: GraphFacts, node: Node) -> str | None:
    """Scales must be finite and greater than zero."""
    for tensor in _quantized(facts, node):
        scale = _bad_scale(tensor)
        if scale is not None:
            return f"{named(tensor)} has the scale {scale}"
    return None


@constraint()
def zero_points_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Zero points must lie in the range of the tensor's type."""
    for tensor in _quantized(facts, node):
        low, high = TYPE_RANGES.get(tensor.dtype, (0, 0))
        quantization = tensor.quantization
        for zero_point in () if quantization is None else quantization.zero_points:
            if not low <= zero_point <= high:
                return f"{named(tensor)} is {tensor.dtype.name} with the zero point {zero_point}"
    return None


def _quantized(facts: GraphFacts, node: Node) -> list[Tensor]:
    """Feature maps and weights."""
    tensors = features(facts, node)
    return [*tensors, weights_of(facts, node)] if node.op in WITH_WEIGHTS else tensors


@constraint()
def features_computed(facts: GraphFacts, node: Node) -> str | None:
    """The input must be computed or be an input of the model, not a constant."""
    for tensor in features(facts, node)[: -len(node.outputs)]:
        # An operand of ADD may be constant, see add_constraints.
        if tensor.constant is not None and node.op != "ADD":
            return f"{named(tensor)} is a constant"
    return None


@constraint()
def weights_constant(facts: GraphFacts, node: Node) -> str | None:
    """Weights must be constants of the model."""
    weights = weights_of(facts, node)
    return None if weights.constant is not None else f"{named(weights)} is computed while running"


@constraint()
def weights_type(facts: GraphFacts, node: Node) -> str | None:
    """Weights must be quantised to the same type as the input."""
    weights = weights_of(facts, node)
    wanted = facts.graph.tensor(node.inputs[INPUT]).dtype
    if weights.dtype is not wanted:
        return f"{named(weights)} is {weights.dtype.name}, the input {wanted.name}"
    if weights.quantization is None:
        return f"{named(weights)} has no quantisation parameters"
    return None


def output_channel_axis(node: Node) -> int:
    """The axis of the weights that counts output channels: 1HWO for depthwise, else O first."""
    return 3 if node.op == "DEPTHWISE_CONV_2D" else 0


def _weight_quantization(facts: GraphFacts, node: Node) -> Quantization:
    quantization = weights_of(facts, node).quantization
    assert quantization is not None  # weights_type ran before
    return quantization


@constraint()
def per_channel_weights_are_int8(facts: GraphFacts, node: Node) -> str | None:
    """Weights with one scale per channel must be int8."""
    weights = weights_of(facts, node)
    if _weight_quantization(facts, node).is_per_channel and weights.dtype is not DType.INT8:
        return f"{named(weights)} is {weights.dtype.name}"
    return None


@constraint()
def per_channel_axis_is_output(facts: GraphFacts, node: Node) -> str | None:
    """Scales per channel must lie along the output channels."""
    quantization = _weight_quantization(facts, node)
    if not quantization.is_per_channel:
        return None
    axis = output_channel_axis(node)
    shape = weights_of(facts, node).shape
    if quantization.axis != axis or shape[axis] != len(quantization.scales):
        return f"{len(quantization.scales)} scales along axis {quantization.axis}"
    return None


@constraint()
def int8_weights_symmetric(facts: GraphFacts, node: Node) -> str | None:
    """int8 weights must have the zero point 0, as TensorFlow Lite defines."""
    weights = weights_of(facts, node)
    if weights.dtype is not DType.INT8:
        return None
    found = next((z for z in _weight_quantization(facts, node).zero_points if z != 0), None)
    return None if found is None else f"{named(weights)} has the zero point {found}"


@constraint()
def bias_int32_constant(facts: GraphFacts, node: Node) -> str | None:
    """The bias, if any, must be an int32 constant with one value per output channel."""
    bias = facts.operand(node, BIAS)
    if bias is None:
        return None
    if bias.dtype is not DType.INT32:
        return f"{named(bias)} is {bias.dtype.name}"
    if bias.constant is None:
        return f"{named(bias)} is no constant"
    channels = weights_of(facts, node).shape[output_channel_axis(node)]
    if bias.constant.shape != (channels,) or bias.constant.dtype != np.int32:
        return f"{named(bias)} has the shape {list(bias.shape)}, the channels are {channels}"
    return None
