"""The rules that show only when a node is lowered: limits of hardware, of numbers and of memory.

They stand on the page of supported operators like those that the partitioner checks beforehand.
"""

from __future__ import annotations

from delegate.errors import Rule

ACCUMULATOR_FITS_INT32 = Rule(
    "accumulator_fits_int32",
    "For no input may TensorFlow Lite's int32 wrap: the accumulator, it shifted left by a "
    "multiplier of 1 and more, the result with its zero point",
)
WITHIN_ONE_LSB = Rule(
    "within_one_lsb",
    "For every input the NPU's result must be proven within one LSB of TensorFlow Lite's reference "
    "kernels",
)
MULTIPLIERS_KEEP_BITS = Rule(
    "multipliers_keep_bits",
    "Where a chip multiplies once, by 15 bits, no more than one result in 256, which is "
    "what these explain, may differ from TensorFlow Lite's: channels share a shift, so that their "
    "scales must not be far apart",
)
EQUAL_IF_EXACT = Rule(
    "equal_if_exact",
    "With numerics=exact an operator stays on the CPU of whose results more than one in a hundred "
    "may be a step off",
)
PRODUCT_CLAMPED_AT_ZERO = Rule(
    "product_clamped_at_zero",
    "A product of two feature maps can be clamped below at zero only: no fused RELU_N1_TO_1",
)
AVERAGE_IS_EQUAL = Rule(
    "average_is_equal",
    "For every sum of values the average must be proven equal to TensorFlow Lite's reference "
    "kernels'",
)
KERNEL_SIZE_IN_RANGE = Rule(
    "kernel_size_in_range",
    "The kernel's sides must fit the register fields, also where a fully connected node reads "
    "whole images",
)
ROW_FITS_CBUF = Rule(
    "row_fits_cbuf",
    "The pixels of a row that one output reaches over must fit the on-chip buffer's entries",
)
TILE_FITS_CBUF = Rule(
    "tile_fits_cbuf",
    "The rows that one output row reaches over and one group of kernels must fit the on-chip "
    "buffer, their products the array's sum",
)
FORM_IS_KNOWN = Rule(
    "form_is_known",
    "Programs of the chip must be known to have such a form: some have equal sides of kernels, "
    "strides and dilations and whole rows only",
)
TASKS_IN_RANGE = Rule(
    "tasks_in_range", "A layer must take no more tasks than the program controller counts"
)
BUFFERS_IN_RANGE = Rule(
    "buffers_in_range",
    "A program's buffers must fit the address space that its registers reach, and be written in "
    "few boxes",
)
TASKS_KEEP_MEMORY = Rule(
    "tasks_keep_memory", "Tasks must leave alone what others need, and read what was written"
)
ROWS_MATCH_PIXELS = Rule(
    "rows_match_pixels",
    "The weights of a fully connected node must read single pixels or whole images; reshape the "
    "input before",
)
REORDERED_ALONE = Rule(
    "reordered_alone",
    "A node that gives elements another order must do so by itself where no neighbour does a "
    "part of it",
)

RULES = (
    ACCUMULATOR_FITS_INT32,
    WITHIN_ONE_LSB,
    MULTIPLIERS_KEEP_BITS,
    EQUAL_IF_EXACT,
    AVERAGE_IS_EQUAL,
    PRODUCT_CLAMPED_AT_ZERO,
    KERNEL_SIZE_IN_RANGE,
    ROW_FITS_CBUF,
    TILE_FITS_CBUF,
    FORM_IS_KNOWN,
    TASKS_IN_RANGE,
    BUFFERS_IN_RANGE,
    TASKS_KEEP_MEMORY,
    ROWS_MATCH_PIXELS,
    REORDERED_ALONE,
)
