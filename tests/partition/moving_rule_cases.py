"""Cases of rules of what moves data, and of what is computed under windows."""

from collections.abc import Callable

import numpy as np

from delegate.model.graph import DType, Graph, Padding
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.shared.fixed_point import INT32_MAX
from tests.partition.rule_graphs import (
    X,
    averaged,
    blocks,
    bordered,
    cut,
    enlarged,
    enlarged_to,
    fc,
    flattened,
    flipped,
    gathered,
    halves,
    interpolated,
    joined,
    mirrored,
    packed_channels,
    padding,
    per_tensor,
    pooled,
    reshaped,
    shape_computed,
    side_by_side,
    summed,
    tall_average,
    tiled,
    transposed,
    turned,
    with_input,
    with_options,
    with_output,
)

MOVING: dict[str, list[tuple[Callable[[], Graph], str]]] = {
    "image_rank": [(lambda: with_input(blocks(), X, shape=(4, 6, 5)), "[4, 6, 5]")],
    "output_sides_in_range": [
        (lambda: padding(top=9000), "[9010, 9, 5]"),
        (lambda: enlarged((1, 4096, 1, 1)), "they are [8192, 2, 1]"),
    ],
    "keeps_quantization": [
        (lambda: with_output(padding(), quantization=per_tensor(2.0, 0)), "differ"),
        (lambda: with_output(blocks(), quantization=per_tensor(0.5, 4)), "differ"),
        (lambda: with_output(pooled(), quantization=per_tensor(0.25, 3)), "differ"),
        (lambda: with_output(cut(), quantization=per_tensor(0.5, 4)), "differ"),
    ],
    "feature_rank": [
        (lambda: with_input(fc(), X, shape=(1, 1, 1, 1, 1, 2, 12)), "[1, 1, 1, 1, 1, 2, 12]"),
        (lambda: with_input(joined(), 0, shape=(1, 1, 1, 1, 3, 2, 16)), "[1, 1, 1, 1, 3, 2, 16]"),
        (lambda: with_output(cut(), shape=()), "[]"),
        (
            lambda: with_input(tiled((1, 2, 1, 1)), X, shape=(1, 1, 1, 1, 3, 2, 32)),
            "[1, 1, 1, 1, 3, 2, 32]",
        ),
    ],
    "padded_rank": [(lambda: with_input(padding(), X, shape=(1, 1, 9, 7, 5)), "[1, 1, 9, 7, 5]")],
    "pad_amounts_known": [
        (lambda: padding(top=-1), "[-1, 1]"),
        (lambda: with_input(padding(), 1, constant=None), "does not hold two constants"),
        (lambda: with_output(padding(reader=False), shape=(1, 12, 9, 5)), "not [1, 11, 9, 5]"),
    ],
    "pad_value_constant": [
        (lambda: bordered(quantization=per_tensor(0.5, 4)), "differ"),
        (lambda: bordered(constant=None), "is [1]"),
    ],
    "mirrored_inside": [
        (lambda: mirrored(9, REFLECT), "[[9, 0], [0, 7], [0, 0]] of [9, 7]"),
        (lambda: mirrored(10, SYMMETRIC), "[[10, 0], [0, 7], [0, 0]] of [9, 7]"),
        (lambda: with_options(mirrored(), mode=2), "the mode is 2"),
    ],
    "int8_parts_keep_quantization": [
        (lambda: with_input(joined(), 1, quantization=per_tensor(0.25, 3)), "differ")
    ],
    "alias_position_known": [
        (lambda: joined(axis=4), "the axis is 4"),
        (lambda: with_output(joined(), shape=(1, 3, 2, 22)), "not [1, 3, 2, 21]"),
        (lambda: with_input(joined(), 1, shape=(1, 2, 2, 5)), "along axis 3"),
        (lambda: with_input(cut(), 1, constant=None), "does not hold 4 constants"),
        (lambda: with_input(cut(), 1, constant=np.zeros(4)), "is INT32"),
        (lambda: cut(begin=(0, 1, 0, 0)), "do not lie in [1, 3, 2, 32]"),
        (lambda: with_options(cut(strided=True), new_axis_mask=1), "adds dimensions"),
        (lambda: with_output(cut(), shape=(1, 3, 2, 8)), "not [1, 3, 2, 9]"),
        (lambda: with_output(cut(strided=True), shape=(1, 3, 2, 8)), "not [1, 3, 2, 9]"),
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
    "parts_are_reached": [
        (lambda: side_by_side(DType.UINT8, per_tensor(0.25, 3)), "'a' is requantised to tensor"),
        (packed_channels, "'a' is [1, 3, 2]"),
    ],
    "resize_possible": [
        # A task writes two columns.
        (lambda: interpolated(7, 1), "from [3, 2] to [7, 1]"),
        (lambda: interpolated(9, 7, shape=(80, 3, 2, 5)), "from [3, 2] to [9, 7]"),
    ],
    "block_in_range": [(lambda: blocks(0), "it is 0"), (lambda: blocks(9), "it is 9")],
    "blocks_fit": [
        (lambda: blocks(2, (1, 2, 3, 19)), "[1, 2, 3, 19]"),
        (lambda: blocks(3, (1, 2, 2, 45)), "4 x 6 pixels are no blocks of 3"),
    ],
    "transposed_size_known": [
        (lambda: with_input(transposed(), 0, constant=None), "does not hold 4 constants"),
        (lambda: transposed((1, 8, 12, 4)), "from 5 to 3 channels"),
        (lambda: with_output(transposed(), shape=(1, 7, 12, 3)), "not [1, 8, 12, 3]"),
    ],
    "transposed_strides": [(lambda: transposed(stride=4), "they are [4, 4]")],
    "transposed_reaches_outputs": [
        (lambda: transposed((1, 11, 12, 3)), "to [1, 11, 12, 3]"),
        (lambda: transposed((1, 8, 12, 3), kernel=31), "the kernel is 31 x 31"),
    ],
    "order_possible": [
        (lambda: reshaped((1, 1, 4, 48)), "[1, 1, 4, 48]"),
        (lambda: with_output(flattened(), shape=(1, 64)), "[1, 3, 2, 32] makes no [1, 64]"),
    ],
    "transposed_axes": [
        (lambda: turned((0, 1, 1, 2)), "the axes are [0, 1, 1, 2]"),
        (lambda: with_output(turned((0, 3, 1, 2)), shape=(1, 32, 2, 3)), "[1, 32, 2, 3]"),
    ],
    "repeated_as_known": [
        (lambda: with_output(tiled((1, 2, 1, 1)), shape=(1, 3, 2, 64)), "not [1, 6, 2, 32]"),
        (
            lambda: with_input(tiled((1, 2, 1, 1)), 1, constant=np.array([1, -1, 1, -2], np.int32)),
            "the factors are [1, -1, 1, -2]",
        ),
        (lambda: with_input(tiled((1, 2, 1, 1)), 1, constant=np.ones(3, np.int32)), "4 constants"),
    ],
    "reversed_axis": [
        (lambda: flipped(4), "the axis is 4"),
        (lambda: with_input(flipped(2), 1, constant=np.array([1, 2], np.int32)), "1 constants"),
        (lambda: with_output(flipped(2), shape=(1, 3, 32, 2)), "not [1, 3, 2, 32]"),
    ],
    "gathered_inside": [
        (lambda: gathered((0, 32)), "index 32 does not lie in the 32 along axis 3"),
        (lambda: gathered((-1,), 1), "index -1 does not lie in the 3"),
        (lambda: with_options(gathered((0, 2)), batch_dims=1), "batch_dims is not 0"),
        (lambda: with_options(gathered((0, 2)), axis=4), "the axis is 4"),
        (lambda: with_output(gathered((0, 2)), shape=(1, 3, 2, 3)), "not [1, 3, 2, 2]"),
    ],
    "new_shape_constant": [(shape_computed, "is computed")],
    "pool_rank": [
        (lambda: with_input(pooled(), X, shape=(9, 7, 5)), "[9, 7, 5] and [1, 9, 7, 5]"),
        (lambda: with_output(pooled(), shape=(1, 9, 7, 4)), "[1, 9, 7, 5] and [1, 9, 7, 4]"),
        (lambda: with_output(pooled(), shape=(2, 9, 7, 5)), "[2, 9, 7, 5]"),
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
    "summed_window_in_range": [(tall_average, "it is 32 x 1")],
    "maxima_sides_in_range": [
        (lambda: averaged((1, 8192, 1, 1), op="REDUCE_MAX"), "they are [8192, 1, 1]"),
    ],
    "reduced_over_pixels_or_channels": [
        (
            lambda: with_input(averaged(), X, shape=(9, 7, 5)),
            "the axes are [1, 2], the shape is [9, 7, 5]",
        ),
        (lambda: with_input(averaged(), 1, constant=None), "the axes are computed"),
        (lambda: averaged(axes=(3,)), "the axes are [3]"),
        (lambda: averaged(axes=(1, 3)), "the axes are [1, 3]"),
        (lambda: averaged(axes=(1, 6)), "the axes are [1, 6]"),
        (lambda: averaged(axes=(1, 3), op="REDUCE_MAX"), "the axes are [1, 3]"),
        (lambda: averaged(axes=(1, 6), op="REDUCE_MAX"), "the axes are [1, 6]"),
    ],
    "reduced_shape_follows": [
        (lambda: with_options(averaged(), keep_dims=True), "is [1, 5], not [1, 1, 1, 5]")
    ],
    "summed_type": [(summed, "tensor 0 'x' is INT8")],
    "reduced_sides_in_range": [
        (lambda: averaged((1, 37, 3, 5)), "they are 37 x 3"),
        (lambda: averaged((1, 256, 256, 5)), "they are 256 x 256"),
        (lambda: averaged((1, 1, 37, 5)), "they are 1 x 37"),
    ],
    "new_size_known": [
        (lambda: with_input(enlarged(), 1, constant=None), "does not hold 2 constants"),
        (lambda: with_output(enlarged(), shape=(1, 7, 4, 5)), "not [1, 6, 4, 5]"),
    ],
    "pixels_repeated": [
        (lambda: enlarged((160, 3, 2, 5), factor=9), "from [160, 3, 2, 5] to [160, 27, 18, 5]"),
        (
            lambda: with_options(enlarged((160, 3, 2, 5), factor=3), align_corners=True),
            "from [160, 3, 2, 5] to [160, 9, 6, 5]",
        ),
        (lambda: enlarged_to(5, 4, (190, 3, 2, 5)), "from [190, 3, 2, 5] to [190, 5, 4, 5]"),
    ],
    "pool_padding_in_range": [(lambda: pooled(size=17), "16 and 16")],
}
