"""For each rule graphs that obey all but that one, and the value that its message names."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from delegate.model.graph import Activation, DType, Graph, Node, Padding, Quantization
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.shared.fixed_point import INT32_MAX
from tests.partition.rule_graphs import (
    ADD,
    B,
    W,
    X,
    addition,
    as_input,
    averaged,
    behind_dynamic,
    bias_shared,
    bias_written,
    blocks,
    bordered,
    conv,
    cut,
    depthwise,
    enlarged,
    enlarged_to,
    fc,
    function,
    halves,
    interpolated,
    joined,
    leaky,
    mirrored,
    padding,
    per_channel_along,
    per_tensor,
    pooled,
    product,
    product_of_two,
    reshaped,
    shape_computed,
    side_by_side,
    skipping,
    slopes,
    slopes_of,
    summed,
    tall_average,
    transposed,
    turned,
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
    "options_known": [(lambda: with_node(conv(), options=None), "missing")],
    "activation_supported": [
        (lambda: with_options(conv(), activation=Activation.TANH), "it is TANH"),
        (lambda: with_options(addition(), activation=Activation.SIGN_BIT), "it is SIGN_BIT"),
    ],
    "no_activation": [
        (lambda: with_options(joined(), activation=Activation.RELU), "it is RELU"),
    ],
    "static_shapes": [
        (lambda: with_input(conv(), X, shape_signature=(-1, -1, 7, 5)), "[-1, -1, 7, 5]"),
        (lambda: with_output(fc(), shape=(-1, 5)), "[-1, 5]"),
    ],
    "not_behind_dynamic_shapes": [(behind_dynamic, "'input' is")],
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
        (lambda: with_input(padding(), 1, is_variable=True), "'amounts' is"),
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
    "same_feature_types": [
        (lambda: with_output(conv(), dtype=DType.UINT8), "INT8, UINT8"),
        (lambda: with_input(addition(), 1, dtype=DType.UINT8), "INT8, UINT8, INT8"),
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
    ],
    "scales_positive": [
        (lambda: with_input(conv(), X, quantization=per_tensor(0.0, 0)), "the scale 0.0"),
        (lambda: with_output(conv(), quantization=per_tensor(math.inf, 0)), "the scale inf"),
        (lambda: with_input(fc(), W, quantization=per_tensor(math.nan, 0)), "the scale nan"),
        (lambda: with_input(addition(), 1, quantization=per_tensor(-1.0, 0)), "scale -1.0"),
    ],
    "zero_points_in_range": [
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
        (lambda: with_input(conv(), X, shape=(9, 7, 5)), "[9, 7, 5]"),
        (lambda: with_output(depthwise(), shape=(1, 1, 9, 7, 5)), "[1, 1, 9, 7, 5]"),
    ],
    "weights_constant": [(lambda: with_input(fc(), W, constant=None), "computed while running")],
    "weights_type": [
        (lambda: with_input(conv(), W, dtype=DType.INT4), "is INT4, the input INT8"),
        (lambda: with_input(conv(), W, dtype=DType.UINT8), "is UINT8, the input INT8"),
        (lambda: with_input(depthwise(), W, quantization=None), "no quantisation parameters"),
    ],
    "per_channel_weights_are_int8": [
        (
            lambda: with_input(
                conv(dtype=DType.UINT8), W, quantization=Quantization((0.5,) * 4, (7,) * 4, 0)
            ),
            "is UINT8",
        )
    ],
    "per_channel_axis_is_output": [
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
        (lambda: with_output(conv(), shape=(1, 9, 7, 3)), "it gives 4, the output has 3"),
    ],
    "depth_multiplier_follows": [
        (lambda: with_options(depthwise(multiplier=3), depth_multiplier=2), "from 5 to 15"),
        (lambda: with_options(depthwise(), depth_multiplier=0), "it is 0"),
    ],
    "same_batch": [(lambda: with_output(conv(), shape=(2, 9, 7, 4)), "they are 1 and 2")],
    "kernel_in_range": [(lambda: conv(h=40, w=40, kh=32, kw=1), "the kernel is 32 x 1")],
    "strides_in_range": [
        (lambda: conv(sh=8), "they are 8 x 1"),
        (lambda: with_options(depthwise(), stride_w=0), "they are 1 x 0"),
    ],
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
    "pad_rank": [(lambda: with_input(padding(), X, shape=(9, 7, 5)), "[9, 7, 5]")],
    "pad_amounts_known": [
        (lambda: padding(top=-1), "[-1, 1]"),
        (lambda: with_input(padding(), 1, constant=None), "does not hold two constants"),
        (lambda: with_output(padding(reader=False), shape=(1, 12, 9, 5)), "it gives [1, 11, 9, 5]"),
    ],
    "padded_sides_in_range": [(lambda: padding(top=9000), "[9010, 9, 5]")],
    "pad_value_constant": [
        (lambda: bordered(quantization=per_tensor(0.5, 4)), "differ"),
        (lambda: bordered(constant=None), "is [1]"),
    ],
    "mirrored_inside": [
        (lambda: mirrored(9, REFLECT), "[[9, 0], [0, 7], [0, 0]] of [9, 7]"),
        (lambda: mirrored(10, SYMMETRIC), "[[10, 0], [0, 7], [0, 0]] of [9, 7]"),
        (lambda: with_options(mirrored(), mode=2), "the mode is 2"),
    ],
    "pad_keeps_quantization": [
        (lambda: with_output(padding(), quantization=per_tensor(2.0, 0)), "differ"),
    ],
    "alias_rank": [
        (lambda: with_input(joined(), 0, shape=(1, 1, 3, 2, 16)), "[1, 1, 3, 2, 16]"),
        (lambda: with_output(cut(), shape=()), "[]"),
    ],
    "int8_parts_keep_quantization": [
        (lambda: with_input(joined(), 1, quantization=per_tensor(0.25, 3)), "differ"),
    ],
    "alias_keeps_quantization": [
        (lambda: with_output(cut(), quantization=per_tensor(0.5, 4)), "differ"),
    ],
    "alias_position_known": [
        (lambda: joined(axis=4), "the axis is 4"),
        (lambda: with_output(joined(), shape=(1, 3, 2, 22)), "parts of 21 make"),
        (lambda: with_input(joined(), 1, shape=(1, 2, 2, 5)), "along axis 3"),
        (lambda: with_input(cut(), 1, constant=None), "does not hold 4 constants"),
        (lambda: with_input(cut(), 1, constant=np.zeros(4)), "is INT32"),
        (lambda: cut(begin=(0, 1, 0, 0)), "do not lie in [1, 3, 2, 32]"),
        (lambda: with_options(cut(strided=True), shrink_axis_mask=1), "changes the rank"),
        (lambda: with_output(cut(), shape=(1, 3, 2, 8)), "it gives [1, 3, 2, 9]"),
        (lambda: with_output(cut(strided=True), shape=(1, 3, 2, 8)), "it gives [1, 3, 2, 9]"),
        (
            lambda: with_output(
                with_input(cut(strided=True), 3, constant=np.array([1, 1, 1, 2], np.int32)),
                shape=(1, 3, 2, 5),
            ),
            "the strides are [1, 1, 1, 2]",
        ),
        (lambda: with_input(halves(), 0, constant=np.array([3, 3], np.int32)), "1 constants"),
    ],
    "parts_defined": [
        (
            lambda: with_input(joined(dtype=DType.UINT8), 1, quantization=per_tensor(1e9, 0)),
            "no int32 in units of the output's scale",
        ),
        (
            lambda: with_output(joined(dtype=DType.UINT8), quantization=per_tensor(1e-39, 0)),
            "no int32 in units of the output's scale",
        ),
    ],
    "parts_are_consecutive": [(side_by_side, "takes a part of the rows")],
    "part_is_reached": [
        (lambda: cut(begin=(0, 0, 40, 0), size=(1, 3, 2, 32), width=50), "begins at column 40"),
        (lambda: skipping(9), "the strides are [9, 1]"),
    ],
    "resized_to_twice": [(interpolated, "from [3, 2] to [7, 4]")],
    "block_rank": [(lambda: with_input(blocks(), X, shape=(4, 6, 5)), "[4, 6, 5]")],
    "block_keeps_quantization": [
        (lambda: with_output(blocks(), quantization=per_tensor(0.5, 4)), "differ"),
    ],
    "block_in_range": [(lambda: blocks(0), "it is 0"), (lambda: blocks(9), "it is 9")],
    "blocks_fit": [
        (lambda: blocks(2, (1, 2, 3, 19)), "[1, 2, 3, 19]"),
        (lambda: blocks(3, (1, 2, 2, 45)), "4 x 6 pixels are no blocks of 3"),
    ],
    "transposed_rank": [(lambda: with_input(transposed(), 2, shape=(4, 6, 5)), "[4, 6, 5]")],
    "transposed_size_known": [
        (lambda: with_input(transposed(), 0, constant=None), "does not hold 4 constants"),
        (lambda: transposed((1, 8, 12, 4)), "from 5 to 3 channels"),
        (lambda: with_output(transposed(), shape=(1, 7, 12, 3)), "not [1, 7, 12, 3]"),
    ],
    "transposed_strides": [(lambda: transposed(stride=4), "they are [4, 4]")],
    "transposed_reaches_outputs": [
        (lambda: transposed((1, 11, 12, 3)), "to [1, 11, 12, 3]"),
        (lambda: transposed((1, 8, 12, 3), kernel=31), "the kernel is 31 x 31"),
    ],
    "order_possible": [
        (lambda: reshaped((3, 1, 2, 32)), "[3, 1, 2, 32]"),
        (lambda: reshaped((1, 1, 4, 48)), "[1, 1, 4, 48]"),
    ],
    "transposed_axes": [
        (lambda: turned((0, 1, 1, 2)), "the axes are [0, 1, 1, 2]"),
        (lambda: with_output(turned((0, 3, 1, 2)), shape=(1, 32, 2, 3)), "[1, 32, 2, 3]"),
    ],
    "new_shape_constant": [(shape_computed, "is computed")],
    "weights_not_shuffled": [(lambda: with_options(fc(), weights_format=1), "shuffled")],
    "weights_rank": [(lambda: with_input(fc(), W, shape=(5, 3, 4)), "[5, 3, 4]")],
    "feature_rank": [(lambda: with_input(fc(), X, shape=(1, 1, 1, 2, 12)), "[1, 1, 1, 2, 12]")],
    "rows_divide_input": [
        (lambda: with_input(fc(), X, shape=(2, 13)), "[2, 13] to [2, 5] with weights [5, 12]"),
        (lambda: with_output(fc(), shape=(3, 5)), "[2, 12] to [3, 5]"),
        (lambda: with_output(fc(), shape=(5, 2)), "[2, 12] to [5, 2]"),
    ],
    "operand_rank": [
        (lambda: addition((1, 1, 3, 2, 4)), "[1, 1, 3, 2, 4]"),
    ],
    "one_operand_computed": [
        (
            lambda: without_inputs(
                with_input(addition(is_constant=True), 0, constant=np.zeros((1, 3, 2, 4), np.int8))
            ),
            "both are constants",
        ),
    ],
    "one_operand_has_output_shape": [
        (lambda: addition(other_shape=(1, 1, 2, 4)), "of shape [1, 1, 2, 4] is to be broadcast"),
        (lambda: with_output(addition(), shape=(1, 3, 5, 4)), "[1, 3, 5, 4]"),
    ],
    "rank_in_range": [(lambda: function("TANH", shape=(1, 1, 2, 3, 4)), "[1, 1, 2, 3, 4]")],
    "same_shapes": [
        (lambda: with_output(function("RELU"), shape=(1, 2, 3)), "the output [1, 2, 3]"),
    ],
    "logistic_output_scale": [
        (lambda: function("LOGISTIC"), "has the scale 0.0078125 and the zero point 0"),
    ],
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
    "pool_rank": [
        (lambda: with_input(pooled(), X, shape=(9, 7, 5)), "[9, 7, 5] and [1, 9, 7, 5]"),
        (lambda: with_output(pooled(), shape=(1, 9, 7, 4)), "[1, 9, 7, 5] and [1, 9, 7, 4]"),
        (lambda: with_output(pooled(), shape=(2, 9, 7, 5)), "[2, 9, 7, 5]"),
    ],
    "pool_keeps_quantization": [
        (lambda: with_output(pooled(), quantization=per_tensor(0.25, 3)), "differ"),
    ],
    "window_in_range": [
        (lambda: with_options(pooled(), filter_w=0), "it is 3 x 0, the strides 1 x 1"),
        (lambda: with_options(pooled(), stride_h=8), "it is 3 x 3, the strides 8 x 1"),
        # The runtime rounds up in int32: (1 + stride - 1) / stride is the last one that is right.
        (lambda: with_options(pooled((1, 1, 1, 5)), stride_h=INT32_MAX), "2147483647 x 1"),
    ],
    "pooled_sides_in_range": [
        (lambda: pooled((1, 8192, 1, 1)), "they are [8192, 1, 1]"),
        (lambda: pooled((1, 1, 1, 8192)), "they are [1, 1, 8192]"),
    ],
    "pooled_size_follows": [
        (lambda: with_output(pooled(), shape=(1, 9, 6, 5)), "is 9 x 6, not 9 x 7"),
        (lambda: with_options(pooled(), padding=Padding.VALID), "not 7 x 5"),
    ],
    "summed_window_in_range": [
        (tall_average, "it is 32 x 1"),
    ],
    "reduced_over_pixels": [
        (lambda: with_input(averaged(), X, shape=(9, 7, 5)), "it is [9, 7, 5]"),
        (lambda: with_input(averaged(), 1, constant=None), "the axes are computed"),
        (lambda: averaged(axes=(1, 3)), "the axes are [1, 3]"),
        (lambda: averaged(axes=(1, 6)), "the axes are [1, 6]"),
    ],
    "reduced_shape_follows": [
        (lambda: with_options(averaged(), keep_dims=True), "is [1, 5], not [1, 1, 1, 5]"),
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
    "computed_product_follows": [
        (lambda: product_of_two(y=(4, 7, 5)), "mismatch"),
        (lambda: product_of_two(y=(2, 7, 6)), "rows of 5 and columns of 6"),
        (lambda: with_output(product_of_two(), shape=(2, 7, 3)), "is [2, 7, 3], not [2, 3, 7]"),
    ],
    "turned_product_meets_its_own": [
        (
            lambda: with_options(product_of_two((2, 5, 3), (1, 7, 5)), adj_x=True),
            "they are [2] and [1]",
        ),
    ],
    "first_operand_as_it_lies": [(lambda: product(adj_x=True), "it is")],
    "one_matrix": [(lambda: product(matrix=(2, 5, 4)), "has the shape [2, 5, 4]")],
    "product_shape_follows": [
        (lambda: product(matrix=(6, 4)), "[2, 3, 5] has no rows of 6"),
        (lambda: with_output(product(), shape=(2, 4, 4)), "[2, 3, 5] to [2, 4, 4], not [2, 3, 4]"),
    ],
    "matrix_has_one_scale": [
        (
            lambda: with_input(product(), 1, quantization=Quantization((1.0,) * 4, (0,) * 4, 1)),
            "has others",
        ),
    ],
    "summed_type": [(summed, "tensor 0 'x' is INT8")],
    "reduced_sides_in_range": [(lambda: averaged((1, 32, 3, 5)), "they are 32 x 3")],
    "new_size_known": [
        (lambda: with_input(enlarged(), 1, constant=None), "does not hold 2 constants"),
        (lambda: with_output(enlarged(), shape=(1, 7, 4, 5)), "they give [1, 6, 4, 5], tensor"),
    ],
    "resized_sides_in_range": [(lambda: enlarged((1, 4096, 1, 1)), "they are [8192, 2, 1]")],
    "pixels_repeated": [
        (lambda: enlarged(factor=9), "from [3, 2] to [27, 18]"),
        (lambda: with_options(enlarged(factor=3), align_corners=True), "from [3, 2] to [9, 6]"),
        (lambda: enlarged_to(5, 4), "from [3, 2] to [5, 4]"),
        (lambda: enlarged_to(2, 4), "from [3, 2] to [2, 4]"),
    ],
    "pool_padding_in_range": [(lambda: pooled(size=17), "16 and 16")],
}
