"""FULLY_CONNECTED: a 1x1 convolution over single pixels. Filters are [outputs, inputs]."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from delegate.errors import LoweringError
from delegate.lower.memory.tensors import View, view_of
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.rules import ROWS_MATCH_PIXELS
from delegate.lower.weights import device_weights
from delegate.model.graph import Activation, DType, Graph, Node
from delegate.model.index_map import IndexMap
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import (
    GraphFacts,
    OnImage,
    Operator,
    Role,
    Shape,
    constraint,
    is_in_half,
    named,
)
from delegate.ops.shared import common, half_records
from delegate.ops.shared.common import feature_rank, other_rank, weights_of
from delegate.ops.shared.computed_products import (
    Factors,
    computed_record,
    half_computed_record,
)
from delegate.ops.shared.convolution import (
    AS_IT_IS,
    ConvolutionOptions,
    plan_convolution,
    requantized_sums,
    resolved,
)
from delegate.ops.shared.maps import moved

WEIGHTS_RANK = 2
WEIGHTS_FORMAT_DEFAULT = 0


@dataclass(frozen=True, slots=True)
class FullyConnectedOptions(Options):
    UNION_TYPE = 8

    activation: Activation = option(FieldKind.ACTIVATION, slot=0, offset=0)
    keep_num_dims: bool = option(FieldKind.BOOL, slot=2, offset=8)
    weights_format: int = option(FieldKind.ENUM, slot=1, offset=4)
    asymmetric_quantize_inputs: bool = option(FieldKind.BOOL, slot=3, offset=9)


@constraint()
def weights_not_shuffled(facts: GraphFacts, node: Node) -> str | None:
    """Weights must be in the default format, not shuffled."""
    options = node.options_as(FullyConnectedOptions)
    is_shuffled = options is not None and options.weights_format != WEIGHTS_FORMAT_DEFAULT
    return "they are shuffled" if is_shuffled else None


@constraint(rank=WEIGHTS_RANK)
def weights_rank(facts: GraphFacts, node: Node) -> str | None:
    """Weights must have rank {rank}: outputs, inputs."""
    return other_rank(facts.inputs(node)[1:2], WEIGHTS_RANK, WEIGHTS_RANK)


_RANKS = (weights_not_shuffled, weights_rank, feature_rank)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Rows of values for every output, or the input's shape with another last dimension."""
    options = node.known_options(FullyConnectedOptions)
    source = graph.tensor(node.inputs[0]).shape
    outputs, inputs = graph.tensor(node.inputs[1]).shape
    rows, rest = divmod(math.prod(source), inputs)
    if rest or (options.keep_num_dims and source[-1] != inputs):
        raise ValueError(f"{list(source)} holds no rows of {inputs}")
    return ((*source[:-1], outputs) if options.keep_num_dims else (rows, outputs),)


@constraint()
def rows_divide_input(facts: GraphFacts, node: Node) -> str | None:
    """The input must hold a whole number of weight rows, and the output one value per row and
    output.
    """
    x = facts.features(node)[0]
    y = facts.outputs(node)[0]
    weights = facts.inputs(node)[1].shape
    try:
        (shape,) = shapes(facts.graph, node)
    except ValueError:
        shape = ()
    # Models may have other dimensions of 1 than the runtime gives the output.
    if y.shape[-1:] == shape[-1:] and math.prod(y.shape) == math.prod(shape):
        return None
    return f"{list(x.shape)} to {list(y.shape)} with weights {list(weights)}"


@constraint()
def kernel_stays_inside(facts: GraphFacts, node: Node) -> str | None:
    """Scales per channel need an output of rank 2, or a second dimension up to the outputs: else
    kernels of 2.14 leave their memory.
    """
    weights, shape = weights_of(facts, node), facts.outputs(node)[0].shape
    assert weights.quantization is not None  # weights_type ran before
    # Kernels that round once came after those that take dimensions 0 and 1 for rows and outputs.
    if facts.graph.rounds_once or not weights.quantization.is_per_channel:
        return None
    is_inside = len(shape) > 1 and shape[1] <= weights.shape[0]
    return None if is_inside else f"it is {list(shape)}, with {weights.shape[0]} outputs"


def _factors(graph: Graph, node: Node) -> Factors:
    """Every image's pixels times the same weights. Raises ValueError where its channels are no row
    of them.
    """
    source = graph.tensor(node.inputs[0]).shape
    outputs, inputs = graph.tensor(node.inputs[1]).shape
    if source[-1] != inputs:
        raise ValueError(f"{list(source)} and weights of {inputs} inputs")
    view = view_of(source)
    pairs = tuple((image, 0) for image in range(view.images))
    return Factors(view.pixels, inputs, outputs, pairs, (False, False))


@constraint()
def rows_are_pixels(facts: GraphFacts, node: Node) -> str | None:
    """The last dimension of what computed weights are multiplied with must be their inputs."""
    try:
        _factors(facts.graph, node)
    except ValueError as error:
        return str(error)
    return None


@constraint()
def bias_of_outputs(facts: GraphFacts, node: Node) -> str | None:
    """The bias beside computed weights, if any, must be a constant with a value per output."""
    bias, outputs = facts.bias(node), facts.inputs(node)[1].shape[0]
    kind = DType.FLOAT32 if is_in_half(facts.graph, node) else DType.INT32
    if bias is None or (bias.dtype is kind and bias.constant is not None
                        and bias.constant.shape == (outputs,)
                        and np.isfinite(bias.constant).all()):  # fmt: skip
        return None
    return f"{named(bias)} is {bias.dtype.name} of shape {list(bias.shape)}, or has others"


def macs(graph: Graph, node: Node) -> int:
    """One per output element and column of the weights."""
    _, columns = graph.tensor(node.inputs[1]).shape
    return math.prod(graph.tensor(node.outputs[0]).shape) * columns


def _kernel(planning: Planning, operation: Operation) -> tuple[tuple[int, int], View]:
    """The kernel and the result of a convolution that reads its input's pixels in place.

    TFLite flattens the input to [rows, K]. If K is the channel count, every pixel is a row and the
    kernel is 1 x 1; if K is a whole image (height * width * channels), every image is a row and the
    kernel covers it, since OHWI weights are then in TFLite's own order. Anything else would need
    the input laid out anew and is refused.
    """
    node = operation.node
    outputs, columns = planning.graph.tensor(node.inputs[1]).shape
    view = planning.tensor(operation.operands[0]).elements
    if columns == view.channels:
        return (1, 1), View(view.images, view.height, view.width, outputs)
    if columns == view.pixels * view.channels:
        return (view.height, view.width), View(view.images, 1, 1, outputs)
    raise LoweringError(
        node.index,
        ROWS_MATCH_PIXELS,
        f"they have {columns} columns, the input has "
        f"{view.height} x {view.width} x {view.channels}",
    )


def on_image(graph: Graph, node: Node, image: Shape, order: IndexMap) -> OnImage | None:
    """See ``Operator.on_image``: weights flatten an image in any order, that of all images."""
    given = graph.tensor(node.inputs[1]).constant
    images, *sizes = image
    if given is None or given.ndim != WEIGHTS_RANK or given.shape[1] != math.prod(sizes):
        return None
    first, *others = moved(order, np.arange(order.size)).reshape(images, -1)
    if any((other != first + len(first) * n).any() for n, other in enumerate(others, 1)):
        return None

    def weights() -> npt.NDArray[np.generic]:
        made = np.empty_like(given)
        made[:, first] = given
        return made

    options = replace(node.known_options(FullyConnectedOptions), keep_num_dims=False)
    return OnImage(replace(node, options=options), weights)


def _as_convolution(node: Node) -> ConvolutionOptions:
    options = node.known_options(FullyConnectedOptions)
    return replace(AS_IT_IS, activation=options.activation)


def plan(planning: Planning, operation: Operation) -> Plan:
    """See ``_kernel``. Raises LoweringError."""
    graph, node = planning.graph, operation.node
    kernel, output_view = _kernel(planning, operation)
    outputs = output_view.channels
    weights = device_weights(graph, node, outputs, (outputs, *kernel, -1))
    conv = resolved(
        *(planning, operation, _as_convolution(node), weights),
        output_view=output_view,
        scales_in_float32=not graph.rounds_once,
        rounds_once=graph.rounds_once,
    )
    return plan_convolution(planning, operation, conv)


def _of_constants(graph: Graph, node: Node) -> npt.NDArray[np.generic] | None:
    x, given = (graph.tensor(t) for t in node.inputs[:2])
    assert x.constant is not None
    assert x.quantization is not None
    outputs, columns = given.shape
    weights = device_weights(graph, node, outputs, given.shape)
    rows = x.constant.reshape(-1, columns).astype(np.int64) - x.quantization.zero_point
    sums = rows @ (weights.values.astype(np.int64) - weights.zero_point).T + weights.bias
    return requantized_sums(
        *(graph, node, sums, node.known_options(FullyConnectedOptions).activation),
        scales_in_float32=not graph.rounds_once,
        rounds_once=graph.rounds_once,
    )


_COMPUTED = (*_RANKS, rows_divide_input, rows_are_pixels, bias_of_outputs)


def _computed(operator: Operator) -> Operator:
    return computed_record(operator, _factors, *_COMPUTED)


def _half(operator: Operator) -> Operator:
    found = half_records.sums(_RANKS, (rows_divide_input,))(operator)
    return replace(found, computed=lambda one: half_computed_record(one, _factors, *_COMPUTED))


OPERATOR = Operator(
    name="FULLY_CONNECTED",
    options=FullyConnectedOptions,
    inputs=(Role.FEATURE, Role.WEIGHTS, Role.BIAS),
    needed=2,
    shapes=shapes,
    macs=macs,
    plan=plan,
    of_constants=_of_constants,
    follows_runtime=True,
    on_image=on_image,
    half=_half,
    computed=_computed,
    rules=(
        *common.FIRST, *_RANKS, *common.WITH_WEIGHTS, rows_divide_input, kernel_stays_inside,
    ),
)  # fmt: skip
