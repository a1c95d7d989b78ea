"""For each rule graphs that obey all but that one, and the value that its message names."""

import math
from collections.abc import Callable

import numpy as np

from delegate.model.graph import Activation, DType, Graph, Node, Padding, Quantization
from rk3588_conformance.builder import Arithmetic
from tests.partition.moving_rule_cases import MOVING
from tests.partition.rule_graphs import (
    ADD,
    B,
    W,
    X,
    addition,
    as_input,
    behind_dynamic,
    bias_shared,
    bias_written,
    chosen_by_bytes,
    chosen_of_many,
    constants_joined,
    conv,
    cut,
    depthwise,
    fc,
    function,
    joined,
    leaky,
    padding,
    per_channel_along,
    per_tensor,
    product,
    product_of_two,
    quotient,
    shown_negated,
    slopes,
    slopes_of,
    softmax,
    transposed,
    with_input,
    with_node,
    with_nodes,
    with_options,
    with_output,
    without_inputs,
)

CASES: dict[str, list[tuple[Callable[[], Graph], str]]] = {
    "tensors_as_defined": [
        (lambda: with_node(conv(), inputs=(0,)), "it has 1 inputs"),
        (lambda: with_node(conv(), inputs=(0, 1, 2, 2)), "it has 4 inputs"),
        (lambda: with_node(with_nodes(ADD(0, 1, 2)), outputs=(2, 3)), "it has 2 outputs"),
        (lambda: with_node(conv(), inputs=(0, -1, 2)), "absent"),
        (lambda: with_node(addition(), inputs=(0, -1)), "absent"),
    ],
    "eight_bit_features": [
        (lambda: with_input(conv(), X, dtype=DType.FLOAT32), "is FLOAT32"),
        (lambda: with_output(fc(), dtype=DType.INT16), "is INT16"),
        (lambda: with_input(addition(), 1, dtype=DType.INT32), "is INT32"),
        (lambda: with_input(conv(), X, quantization=None), "INT8 without quantisation"),
        (lambda: with_output(conv(), dtype=DType.UINT8), "they are INT8, UINT8"),
        (lambda: with_input(addition(), 1, dtype=DType.UINT8), "they are INT8, UINT8"),
    ],
    "quantised_or_float32_input": [
        (lambda: with_input(function("QUANTIZE"), X, dtype=DType.INT16), "is INT16"),
        (lambda: with_input(function("QUANTIZE"), X, quantization=None), "without quantisation"),
    ],
    "quantised_output": [
        (lambda: with_output(function("QUANTIZE"), dtype=DType.INT16), "is INT16"),
        (lambda: with_output(function("QUANTIZE"), quantization=None), "without quantisation"),
    ],
    "quantised_input": [
        (lambda: with_input(function("DEQUANTIZE"), X, dtype=DType.FLOAT16), "is FLOAT16"),
        (lambda: with_input(function("DEQUANTIZE"), X, quantization=None), "without quantisation"),
    ],
    "float32_output": [(lambda: function("DEQUANTIZE"), "is INT8")],
    "sparse_constant": [(lambda: function("DENSIFY"), "no sparse constant of a known kind")],
    "cast_constant": [(lambda: function("CAST"), "is no constant")],
    "options_known": [(lambda: with_node(conv(), options=None), "missing")],
    "activation_supported": [
        (lambda: with_options(conv(), activation=Activation.TANH), "it is TANH"),
        (lambda: with_options(addition(), activation=Activation.SIGN_BIT), "it is SIGN_BIT"),
    ],
    "no_activation": [(lambda: with_options(joined(), activation=Activation.RELU), "it is RELU")],
    "static_shapes": [
        (lambda: with_input(conv(), X, shape_signature=(-1, -1, 7, 5)), "[-1, -1, 7, 5]"),
        (lambda: with_output(fc(), shape=(-1, 5)), "[-1, 5]"),
        (behind_dynamic, "'input' is computed from"),
    ],
    "no_empty_tensors": [
        (lambda: with_input(conv(), X, shape=(1, 0, 7, 5)), "[1, 0, 7, 5]"),
        (lambda: with_input(fc(), W, shape=(5, 0), constant=None), "[5, 0]"),
    ],
    "nodes_in_order": [
        (lambda: with_output(addition(), is_variable=True), "'add', a variable"),
        (lambda: with_node(addition(), outputs=(0,)), "before it is written"),
        (lambda: with_nodes(ADD(0, 0, 2), ADD(2, 1, 2)), "writes tensor 2 'add' again"),
        (
            lambda: with_nodes(ADD(0, 0, 2), ADD(0, 1, 2)),
            "node 1 (ADD) writes tensor 2 'add' again",
        ),
        (lambda: with_nodes(ADD(0, 0, 1), ADD(0, 1, 2)), "an input of the model"),
        (lambda: with_nodes(ADD(0, 2, 3), ADD(3, 3, 2)), "reads tensor 2 'add' before"),
        (lambda: with_nodes(Node(0, "NEG", (3,), (3,)), ADD(0, 1, 2)), "reads tensor 3 'more'"),
    ],
    "no_variables": [
        (lambda: with_input(conv(), X, is_variable=True), "'input' is"),
        (lambda: with_input(conv(), B, is_variable=True), "is"),
        (lambda: with_input(padding(), 1, is_variable=True), "'padded/amounts' is"),
    ],
    "constants_unchanged": [
        (lambda: with_output(addition(), constant=np.zeros(1, np.int8)), "may be written"),
        (lambda: with_input(conv(), W, is_sparse=True), "is sparse; convert"),
        (lambda: with_input(padding(), 1, is_sparse=True), "is sparse"),
        (
            lambda: with_input(addition(), 1, constant=np.zeros((1, 3, 2, 4), np.int8)),
            "may be written",
        ),
        (lambda: as_input(conv(), W), "may be written"),
        (lambda: as_input(cut(), 1), "may be written"),
        (bias_shared, "may be written"),
        (bias_written, "may be written"),
    ],
    "per_tensor_features": [
        (
            lambda: with_input(conv(), X, quantization=Quantization((1.0,) * 5, (0,) * 5, 3)),
            "has 5 scales",
        )
    ],
    "features_computed": [
        (
            lambda: without_inputs(with_input(conv(), X, constant=np.zeros((1, 9, 7, 5), np.int8))),
            "a constant",
        ),
        (
            lambda: without_inputs(
                with_input(addition(is_constant=True), 0, constant=np.zeros((1, 3, 2, 4), np.int8))
            ),
            "all are constants",
        ),
        (constants_joined, "all are constants"),
    ],
    "quantization_in_range": [
        (lambda: with_input(conv(), X, quantization=per_tensor(0.0, 0)), "the scale 0.0"),
        (lambda: with_output(conv(), quantization=per_tensor(math.inf, 0)), "the scale inf"),
        (lambda: with_input(fc(), W, quantization=per_tensor(math.nan, 0)), "the scale nan"),
        (lambda: with_input(addition(), 1, quantization=per_tensor(-1.0, 0)), "scale -1.0"),
        (lambda: with_input(conv(), X, quantization=per_tensor(1.0, 128)), "zero point 128"),
        (
            lambda: with_output(conv(dtype=DType.UINT8), quantization=per_tensor(1.0, -1)),
            "is UINT8 with the zero point -1",
        ),
        (
            lambda: with_input(fc(dtype=DType.UINT8), W, quantization=per_tensor(1.0, 256)),
            "zero point 256",
        ),
    ],
    "convolution_rank": [
        (lambda: with_input(transposed(), 2, shape=(4, 6, 5)), "[4, 6, 5]"),
        (lambda: with_input(conv(), X, shape=(9, 7, 5)), "[9, 7, 5]"),
        (lambda: with_output(depthwise(), shape=(1, 1, 9, 7, 5)), "[1, 1, 9, 7, 5]"),
    ],
    "weights_constant": [(lambda: with_input(conv(), W, constant=None), "computed while running")],
    "weights_type": [
        (lambda: with_input(conv(), W, dtype=DType.INT4), "is INT4, the input INT8"),
        (lambda: with_input(conv(), W, dtype=DType.UINT8), "is UINT8, the input INT8"),
        (lambda: with_input(depthwise(), W, quantization=None), "no quantisation parameters"),
    ],
    "per_channel_weights": [
        (
            lambda: with_input(
                conv(dtype=DType.UINT8), W, quantization=Quantization((0.5,) * 4, (7,) * 4, 0)
            ),
            "is UINT8",
        ),
        (lambda: per_channel_along(3, 5), "5 scales along axis 3"),
        (lambda: per_channel_along(0, 5), "5 scales along axis 0"),
    ],
    "int8_weights_symmetric": [
        (lambda: with_input(conv(), W, quantization=per_tensor(0.5, 3)), "the zero point 3")
    ],
    "bias_int32_constant": [
        (lambda: with_input(conv(), B, dtype=DType.INT64), "is INT64"),
        (lambda: with_input(conv(), B, constant=None), "is no constant"),
        (lambda: with_input(fc(), B, constant=np.zeros(4, np.int32), shape=(4,)), "are 5"),
    ],
    "filter_covers_input_channels": [
        (lambda: with_input(conv(), X, shape=(1, 9, 7, 6)), "it covers 5 of 6"),
        (lambda: with_input(conv(), X, shape=(1, 9, 7, 15)), "for 4 outputs"),
    ],
    "filter_gives_output_channels": [
        (lambda: with_output(conv(), shape=(1, 9, 7, 3)), "it gives 4, the output has 3")
    ],
    "depth_multiplier_follows": [
        (lambda: with_options(depthwise(multiplier=3), depth_multiplier=2), "from 5 to 15"),
        (lambda: with_options(depthwise(), depth_multiplier=0), "it is 0"),
    ],
    "same_batch": [(lambda: with_output(conv(), shape=(2, 9, 7, 4)), "they are 1 and 2")],
    "kernel_in_range": [(lambda: conv(h=40, w=40, kh=32, kw=1), "the kernel is 32 x 1")],
    "strides_or_patches": [(lambda: conv(sh=8), "they are 8 x 1")],
    "strides_in_range": [(lambda: with_options(depthwise(), stride_w=0), "they are 1 x 0")],
    "dilation_in_range": [
        (lambda: conv(dw=33), "they are 1 x 33"),
        (lambda: with_options(depthwise(), dilation_h=-1), "they are -1 x 1"),
    ],
    "output_size_follows": [
        (lambda: with_output(conv(), shape=(1, 8, 7, 4)), "is 8 x 7, not 9 x 7"),
        (lambda: with_options(conv(), padding=Padding.VALID), "is 9 x 7, not 7 x 6"),
        (lambda: with_input(conv(padding=Padding.VALID), X, shape=(1, 2, 7, 5)), "not 0 x 6"),
    ],
    "padding_in_range": [(lambda: conv(h=40, w=40, kh=3, kw=3, dh=16), "top 16, left 1")],
    "weights_not_shuffled": [(lambda: with_options(fc(), weights_format=1), "shuffled")],
    "weights_rank": [(lambda: with_input(fc(), W, shape=(5, 3, 4)), "[5, 3, 4]")],
    "rows_divide_input": [
        (lambda: with_input(fc(), X, shape=(2, 13)), "[2, 13] to [2, 5] with weights [5, 12]"),
        (lambda: with_output(fc(), shape=(3, 5)), "[2, 12] to [3, 5]"),
        (lambda: with_output(fc(), shape=(5, 2)), "[2, 12] to [5, 2]"),
    ],
    "kernel_stays_inside": [
        (
            lambda: fc((12,), keep_num_dims=True, arithmetic=Arithmetic(per_channel=True)),
            "it is [5], with 5 outputs",
        ),
        (
            lambda: fc((1, 6, 12), keep_num_dims=True, arithmetic=Arithmetic(per_channel=True)),
            "it is [1, 6, 5], with 5 outputs",
        ),
    ],
    "operands_broadcast": [
        (lambda: addition((1, 300, 300, 4), other_shape=(1, 300, 1, 4)), "is [1, 300, 1, 4]"),
        (
            lambda: with_input(addition(), 1, shape=(1, 1, 5, 4)),
            "[1, 3, 2, 4], [1, 1, 5, 4], [1, 3, 2, 4]",
        ),
        (lambda: with_output(addition(), shape=(1, 3, 5, 4)), "[1, 3, 5, 4]"),
    ],
    "sum_scales_in_range": [
        (lambda: with_output(addition(), quantization=per_tensor(2.0**-30, 0)), "and 9.31323e-10")
    ],
    "rank_in_range": [
        (lambda: function("TANH", shape=(1, 1, 1, 1, 2, 3, 4)), "[1, 1, 1, 1, 2, 3, 4]"),
        (lambda: addition((1, 1, 1, 1, 3, 2, 4)), "[1, 1, 1, 1, 3, 2, 4]"),
    ],
    "same_shapes": [
        (lambda: with_output(function("RELU"), shape=(1, 2, 3)), "the output [1, 2, 3]")
    ],
    "probability_scale": [
        (lambda: function("LOGISTIC"), "has the scale 0.0078125 and the zero point 0")
    ],
    "classes_in_range": [(lambda: softmax((2, 512)), "there are 512")],
    "step_in_range": [
        (lambda: softmax(beta=2.0**-19), "it is 1.4901161193847656e-08"),
        (lambda: softmax(beta=-1.0), "it is -0.0078125"),
        (lambda: softmax(beta=math.inf), "it is inf"),
    ],
    "uint8_features": [(lambda: quotient(dtype=DType.INT8), "is INT8")],
    "divisor_constant": [
        (lambda: with_input(quotient(), 1, constant=None), "is [1], or computed"),
        (lambda: with_output(quotient(), shape=(1, 3, 2, 5)), "the output [1, 3, 2, 5]"),
    ],
    "between_eight_bits": [
        (lambda: function("NEG"), "all of its tensors have 8 bits"),
        (lambda: function("NEG", dtype=DType.FLOAT32), "'input' is FLOAT32"),
        (shown_negated, "'negated' is an output of the model"),
    ],
    "constants_of_one_value": [(chosen_of_many, "'limits' has the shape [4]")],
    "compares_float32": [(chosen_by_bytes, "'x' is INT8")],
    "int8_features": [(lambda: function("EXP", dtype=DType.UINT8), "is UINT8")],
    "slope_not_negative": [
        (lambda: with_options(leaky(), alpha=-0.5), "it is -0.5"),
        (lambda: with_options(leaky(), alpha=math.nan), "it is nan"),
    ],
    "slopes_constant": [
        (slopes, "is computed, or the input is constant"),
        (lambda: slopes_of((1, 2, 1, 4)), "[1, 3, 2, 4] and [1, 2, 1, 4] give [1, 3, 2, 4]"),
        (lambda: with_output(slopes_of((4,)), shape=(1, 3, 1, 4)), "give [1, 3, 1, 4]"),
    ],
    "product_ranks": [
        (lambda: product((5,)), "they have 1 and 2"),
        (lambda: product((1, 1, 2, 3, 5)), "they have 5 and 2"),
        (lambda: product((3, 5), (1, 5, 4)), "they have 2 and 3"),
    ],
    "computed_product_ranks": [
        (lambda: product_of_two((5,), (5, 3)), "they have 1 and 2"),
        (lambda: product_of_two((5, 4), (1, 1, 1, 4, 3)), "they have 2 and 5"),
    ],
    "rows_are_pixels": [
        (
            lambda: with_input(with_input(fc(), W, constant=None), X, shape=(2, 3, 4)),
            "[2, 3, 4] and weights of 12 inputs",
        )
    ],
    "bias_of_outputs": [
        (
            lambda: with_input(with_input(fc(), W, constant=None), B, constant=None),
            "is INT32 of shape [5]",
        )
    ],
    "turned_product_meets_its_own": [
        (
            lambda: with_options(product_of_two((2, 5, 3), (1, 7, 5)), adj_x=True),
            "they are [2] and [1]",
        )
    ],
    "first_operand_as_it_lies": [(lambda: product(adj_x=True), "it is")],
    "one_matrix": [(lambda: product(matrix=(2, 5, 4)), "has the shape [2, 5, 4]")],
    "product_shape_follows": [
        (lambda: product_of_two(y=(4, 7, 5)), "mismatch"),
        (lambda: product_of_two(y=(2, 7, 6)), "rows of 5 and columns of 6"),
        (lambda: with_output(product_of_two(), shape=(2, 7, 3)), "is [2, 7, 3], not [2, 3, 7]"),
        (lambda: product(matrix=(6, 4)), "[2, 3, 5] has no rows of 6"),
        (lambda: with_output(product(), shape=(2, 4, 4)), "is [2, 4, 4], not [2, 3, 4]"),
    ],
    "matrix_has_one_scale": [
        (
            lambda: with_input(product(), 1, quantization=Quantization((1.0,) * 4, (0,) * 4, 1)),
            "has others",
        )
    ],
    **MOVING,
}
