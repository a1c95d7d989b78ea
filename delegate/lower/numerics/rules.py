"""The rules that a node's numbers can break, and what users read about them."""

ACCUMULATOR_FITS_INT32 = "accumulator_fits_int32"
WITHIN_ONE_LSB = "within_one_lsb"

SENTENCES = {
    ACCUMULATOR_FITS_INT32: "For no input may TensorFlow Lite's int32 wrap: the accumulator, it"
    " shifted left by a multiplier of 1 and more, the result with its zero point",
    WITHIN_ONE_LSB: "For every input the NPU's result must be proven within one LSB of TensorFlow"
    " Lite's reference kernels",
}
