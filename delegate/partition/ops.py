"""Which rules each operator obeys, in the order they are checked.

Goes to: the partitioner, and ``documentation``, which prints this table as a page. An operator that
is not here stays on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from delegate.graph import Node
from delegate.partition import add_constraints as add
from delegate.partition import constraints as common
from delegate.partition import convolution_constraints as convolution
from delegate.partition import fully_connected_constraints as fully_connected
from delegate.partition import pad_constraints as pad
from delegate.partition import view_constraints as view
from delegate.partition.constraint import Constraint, GraphFacts
from delegate.partition.types import Rejection

FIRST = (
    common.nodes_in_order,
    common.tensors_as_defined,
    common.eight_bit_features,
    common.options_known,
    common.activation_supported,
    common.static_shapes,
    common.not_behind_dynamic_shapes,
    common.no_empty_tensors,
    common.no_variables,
    common.constants_unchanged,
    common.same_feature_types,
    common.per_tensor_features,
    common.features_computed,
)

QUANTIZATION = (common.scales_positive, common.zero_points_in_range)

# After the ranks are known, since they index the weights' shape.
WEIGHTS = (
    common.weights_constant,
    common.weights_type,
    *QUANTIZATION,
    common.per_channel_weights_are_int8,
    common.per_channel_axis_is_output,
    common.int8_weights_symmetric,
    common.bias_int32_constant,
)

GEOMETRY = (
    convolution.same_batch,
    convolution.kernel_in_range,
    convolution.strides_in_range,
    convolution.dilation_in_range,
    convolution.output_size_follows,
    convolution.padding_in_range,
)

# Operators without a task: what they join or cut are parts of one tensor in memory.
VIEW = (
    *QUANTIZATION,
    view.view_rank,
    view.view_keeps_quantization,
    view.view_position_known,
    view.view_begins_at_surface,
    view.view_parts_differ,
)
FIRST_WITHOUT_OPTIONS = tuple(rule for rule in FIRST if rule is not common.options_known)

RULES: Mapping[str, tuple[Constraint, ...]] = MappingProxyType(
    {
        "CONV_2D": (
            *FIRST,
            convolution.convolution_rank,
            *WEIGHTS,
            convolution.filter_covers_input_channels,
            convolution.filter_gives_output_channels,
            *GEOMETRY,
        ),
        "DEPTHWISE_CONV_2D": (
            *FIRST,
            convolution.convolution_rank,
            *WEIGHTS,
            convolution.depth_multiplier_follows,
            *GEOMETRY,
        ),
        "FULLY_CONNECTED": (
            *FIRST,
            fully_connected.weights_not_shuffled,
            fully_connected.weights_rank,
            fully_connected.feature_rank,
            *WEIGHTS,
            fully_connected.rows_divide_input,
        ),
        "ADD": (
            *FIRST,
            *QUANTIZATION,
            add.operand_rank,
            add.one_operand_computed,
            add.one_operand_has_output_shape,
        ),
        "PAD": (
            *FIRST_WITHOUT_OPTIONS,
            *QUANTIZATION,
            pad.pad_rank,
            pad.pad_keeps_quantization,
            pad.pad_amounts_in_range,
            pad.pad_read_by_convolutions,
        ),
        "CONCATENATION": (*FIRST, *VIEW),
        "SPLIT": (*FIRST_WITHOUT_OPTIONS, *VIEW),
        "SLICE": (*FIRST_WITHOUT_OPTIONS, *VIEW),
        "STRIDED_SLICE": (*FIRST, *VIEW),
    }
)


def check_node(facts: GraphFacts, node: Node) -> Rejection | None:
    """The first rule that ``node`` breaks, or None if the NPU takes it."""
    rules = RULES.get(node.op)
    if node.op == "DELEGATE":
        detail = (
            "Another delegate took this part of the graph first; create the interpreter without "
            "default delegates (op resolver type BUILTIN_WITHOUT_DEFAULT_DELEGATES)"
        )
        return Rejection(node.index, node.op, "not_taken_already", detail)
    if rules is None:
        known = ", ".join(RULES)
        detail = f"The operator must be one of {known}: it is {node.op}"
        return Rejection(node.index, node.op, "operator_supported", detail)
    for rule in rules:
        violation = rule.violation(facts, node)
        if violation is not None:
            return Rejection(node.index, node.op, rule.rule, violation)
    return None
