"""The table of docs/simulator.md: every modelled feature, its certainty and its tests.

``python -m tests.sim.feature_table`` rewrites the page; test_feature_table.py fails if it is stale
or names a test that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"
BEGIN, END = "<!-- features: begin -->\n", "<!-- features: end -->\n"

SILICON, VENDOR, DOCUMENTED, ASSUMED = "silicon", "vendor", "documented", "assumed"


@dataclass(frozen=True)
class Feature:
    """``tests`` are "file::function" below tests/, without .py."""

    block: str
    text: str
    certainty: str
    tests: tuple[str, ...]


def feature(block: str, text: str, certainty: str, *tests: str) -> Feature:
    return Feature(block, text, certainty, tests)


CONV = "sim/test_conv_oracle::test_literal_path_equals_numpy"
FLYING = "sim/test_elementwise_oracle::test_literal_path_equals_numpy"
CAPTURES = "captures/test_replay::test_capture_meets_its_bounds"

FEATURES = (
    feature("PC", "tasks kicked one by one; words up to the operation enable", SILICON, CAPTURES),
    feature(
        "PC",
        "chains by PC.BASE_ADDRESS and REGISTER_AMOUNTS",
        f"{SILICON}, {VENDOR}",
        "sim/test_chain::test_tasks_run_in_order",
    ),
    feature(
        "PC",
        "barrier word and S_POINTER = 0xe in every task",
        SILICON,
        "sim/test_chain::test_incomplete_tails",
    ),
    feature(
        "PC",
        "S_POINTER = 0x30 sets a block back to its first group; that it stays there until "
        "the next 0xe is assumed",
        f"{VENDOR}, {ASSUMED}",
        "sim/test_delta::test_cleared_pointer",
    ),
    feature(
        "PC",
        "REGISTER_AMOUNTS bits 31:28 have no effect",
        f"{VENDOR}, {ASSUMED}",
        "sim/test_delta::test_tags_of_amounts",
    ),
    feature(
        "groups",
        "two per block; a register keeps its value of the task two before; only blocks "
        "that run advance",
        VENDOR,
        "sim/test_chain::test_unwritten_registers_keep_the_value_of_the_task_two_before",
        "sim/test_delta::test_long_chain_of_deltas",
    ),
    feature(
        "kernel",
        "rocket: a kick per task, tasks without the DPU never complete, registers are not known to "
        "outlive a kick; rknpu: a kick "
        "per job of at most 4095 tasks",
        f"{SILICON}, {DOCUMENTED}",
        "sim/test_kernels::test_rocket_never_sees_a_pooling_task_end",
        "sim/test_delta::test_the_mainline_kernel_as_it_is_runs_no_deltas",
        "sim/test_kernels::test_the_limit_of_a_chain",
    ),
    feature(
        "CNA",
        "NC1HWC2 int8, whole rows, four at once: LINE_STRIDE = 4 * DMA_WIDTH, surface pitch "
        "(LINE_STRIDE + SURF_STRIDE) * 16, sum modulo 2^28",
        f"{SILICON}, {VENDOR}; that other strides fail {ASSUMED}",
        CONV,
        "sim/test_walks::test_four_rows_at_once_are_whole_rows",
    ),
    feature(
        "CNA",
        "GROUP_LINE_OFF, rows that are windows of wider ones: row pitch LINE_STRIDE * 16, "
        "surface pitch (SURF_STRIDE + DMA_WIDTH) * 16",
        VENDOR,
        "sim/test_walks::test_group_line_off_counts_pixels",
    ),
    feature(
        "CNA",
        "kernels to 31x31, strides 1 to 7, dilation, padding top and left; right and "
        "bottom from the output size",
        f"{SILICON} (strides 1, 2), {VENDOR}",
        CONV,
    ),
    feature(
        "CNA",
        "padding value: first byte of PAD_CON1; depthwise odd lanes the second one unless "
        "the value is one sign-extended byte",
        f"{SILICON} (both forms with equal bytes); different bytes {ASSUMED}",
        CONV,
    ),
    feature(
        "CNA",
        "dense weights [O/32][I/32][kh][kw][32][32], depthwise [C/64][kh][kw][64]; the last input "
        "channels in 16, 32 or (depthwise) 64 lanes, the last kernels compact",
        f"{SILICON}, {VENDOR}",
        CONV,
    ),
    feature(
        "CNA",
        "packed pixels of 1 to 4 channels (ARGB_IN): LINE_STRIDE in pixels, rows begin every 16 "
        "(fp16: 8) pixels and their tail is padding; lanes without a channel 0",
        f"{VENDOR} (1, 3, 4 channels); zero lanes {ASSUMED}",
        "sim/test_input_oracle::test_packed_pixels",
        "sim/test_input_oracle::test_the_tail_of_packed_pixels_is_their_padding_on_the_right",
        "sim/test_input_oracle::test_many_entries_of_packed_pixels",
    ),
    feature(
        "CNA",
        "input converter of packed bytes: offset, scale, shift per channel, both orders, "
        "both roundings",
        f"{SILICON} (one setting), {DOCUMENTED}",
        "sim/test_input_oracle::test_converted_pixels",
        "sim/test_input_oracle::test_converter_modes",
    ),
    feature(
        "CNA",
        "transposed convolution, dense and depthwise; the inserted pixels hold the padding value",
        f"{VENDOR}; their value {ASSUMED}",
        "sim/test_input_oracle::test_transposed_convolution",
        "sim/test_input_oracle::test_depthwise_transposed_convolution",
    ),
    feature(
        "CBUF",
        "12 banks of 32 KiB; rows * DATA_ENTRIES must fit the data banks, at most 2048 "
        "entries per row of a cube",
        f"{SILICON}, {VENDOR}",
        "sim/test_faults::test_changed_convolution_faults",
    ),
    feature(
        "CBUF",
        "WEIGHT_REUSE and DATA_REUSE of what the last load left; weights larger than "
        "their banks stream",
        f"{SILICON} (weights), {DOCUMENTED} (data)",
        "sim/test_chain::test_reuse_of_cbuf_gives_the_same_result",
    ),
    feature(
        "CORE",
        "int32 accumulation; window sum of inputs over all programmed channels and padding (QD_EN)",
        SILICON,
        CONV,
    ),
    feature(
        "CORE",
        "CLIP_TRUNCATE: shift of accumulator and OW term together, ties away from zero",
        f"sum: {SILICON}; ties: {ASSUMED}",
        CAPTURES,
        CONV,
    ),
    feature(
        "DPU",
        "BS: ALU add and minus, OW, MUL with separate shifts by the product's sign, ties "
        "to even, 32-bit saturation, ReLU, RELUX",
        f"{SILICON}, {VENDOR}",
        CONV,
    ),
    feature(
        "DPU",
        "BN: MUL, then ALU in units of the product, then the shift by the sum's sign; both from "
        "registers, one of them per channel from memory; PReLU (without ALU), ReLU, RELUX",
        VENDOR,
        CONV,
        "sim/test_float_oracle::test_bn_multiplies_then_adds",
    ),
    feature(
        "DPU",
        "PReLU passes values >= 0 unchanged",
        f"{ASSUMED} (known programs shift them by 0)",
        CONV,
    ),
    feature(
        "DPU",
        "EW: add, minus, max, min, multiply with an operand per pixel, per channel or "
        "from eight registers by channel % 8; operand conversion",
        VENDOR,
        FLYING,
    ),
    feature(
        "DPU",
        "lookup tables, before the operation of EW: upload, LE and LO, hybrid, overflow and "
        "underflow priority, linear interpolation, slopes",
        f"{VENDOR}; rounding to even and the gap between tables {ASSUMED}",
        "sim/test_lut::test_table_behind_an_elementwise_task",
        "sim/test_lut::test_the_table_comes_before_the_operation_of_ew",
        "sim/test_lut::test_sigmoid_behind_a_convolution",
        "sim/test_float_oracle::test_sigmoid_by_tables",
    ),
    feature(
        "DPU",
        "OUT_CVT: signed 16-bit scale, shift, ties to even or away, then offset, 8-bit saturation",
        SILICON,
        CONV,
    ),
    feature(
        "DPU",
        "whole groups are written (32 dense, 64 depthwise, 16 element-wise); lanes behind "
        "ORIG_CHANNEL hold OFFSET_PEND",
        f"groups: {SILICON}; value: {DOCUMENTED}",
        CONV,
    ),
    feature(
        "DPU",
        "the writer takes atoms in the order group, row, pixel, surface of the group (SIZE_E + 1) "
        "and lays them out by WDMA_SIZE_1, SURFACE_ADD, notch and DST_SURF_STRIDE; equal notches",
        f"{SILICON}, {VENDOR} (sizes of its own, notches)",
        CONV,
        "sim/test_walks::test_the_writer_walks_with_its_own_sizes",
        "sim/test_walks::test_every_second_pixel",
        "sim/test_input_oracle::test_row_notches",
    ),
    feature(
        "DPU_RDMA",
        "BRDMA dense int32 summands, dense int16 multipliers, or blocks of 8 channels: 8 int32, "
        "8 int16, 8 int16",
        f"{SILICON}, {VENDOR}",
        CONV,
    ),
    feature(
        "DPU_RDMA",
        "NRDMA DATA_USE = 1: dense int32 summands, 4: dense int16 multipliers",
        VENDOR,
        CONV,
    ),
    feature(
        "DPU_RDMA",
        "operand surface pitch: from the first row's start to the last row's end, plus the signed "
        "notch; EW_SURF_STRIDE says the same; COMB_USE = 5: even surfaces from SRC_BASE, odd ones "
        "from EW_BASE",
        VENDOR,
        CONV,
        "sim/test_walks::test_notches_lead_anywhere",
        "sim/test_walks::test_the_operands_pitch_is_given_twice",
    ),
    feature(
        "DPU_RDMA",
        "row notches of both readers",
        f"{DOCUMENTED}, {VENDOR}",
        "sim/test_input_oracle::test_row_notches",
    ),
    feature(
        "DPU_RDMA",
        "unpooling: every pixel repeated kernel x kernel times; cube sizes of the "
        "source, or of the output; with as many surfaces per group the repeated rows leave as "
        "these",
        f"{VENDOR}; sizes {ASSUMED}",
        "sim/test_input_oracle::test_nearest_by_two",
        "sim/test_walks::test_repeated_rows_leave_as_surfaces",
    ),
    feature(
        "CNA",
        "fp16: weights [O/16][I/32][kh][kw][16][32], depthwise [C/32][kh][kw][32], rests of input "
        "channels in 8, 16 or 32 lanes; 8 channels per surface; padding value the low half of "
        "PAD_CON1",
        f"{VENDOR}; padding {ASSUMED}",
        "sim/test_float_oracle::test_convolution",
    ),
    feature(
        "CORE",
        "fp16: products of 32 input channels summed exactly, rounded to fp32, accumulated in fp32 "
        "in the order of the weights; depthwise tap by tap",
        f"{SILICON} (matrix products); order over taps {ASSUMED}",
        "sim/test_float_oracle::test_convolution",
    ),
    feature(
        "DPU",
        "fp16: stages in fp32, operands fp16 or fp32, register operands as fp32 bits and "
        "multipliers as fp16 bits; out as fp16 or fp32",
        f"{SILICON} (bias, element-wise); registers {ASSUMED}",
        "sim/test_float_oracle::test_convolution",
        "sim/test_float_oracle::test_elementwise",
        "sim/test_float_oracle::test_fp32_output_and_relu",
    ),
    feature(
        "DPU",
        "int32 sums written as they are; integers of 16 and 32 bits element by element",
        SILICON,
        "sim/test_float_oracle::test_raw_sums_of_an_int8_convolution",
        "sim/test_float_oracle::test_wide_integers_element_by_element",
    ),
    feature(
        "DPU",
        "fp16: what a table holds is scaled, shifted and summed by OUT_CVT as an integer; out over "
        "2^MINUS_EXP",
        f"{VENDOR}; rounding {ASSUMED}",
        "sim/test_foreign::test_tables_in_half_precision_with_shift_and_offset",
    ),
    feature(
        "DPU_RDMA",
        "fp32 into the DPU alone; COMB_USE = 3: even surfaces of the main operand by MRDMA from "
        "SRC_BASE, odd ones by ERDMA from EW_BASE",
        f"{VENDOR}; pitches as of COMB_USE = 5 {ASSUMED}",
        "sim/test_foreign::test_unbounded_functions_take_a_second_task_over_fp32",
        "sim/test_foreign::test_both_readers_of_the_main_operand_are_needed",
    ),
    feature(
        "DPU",
        "lenient: a cube of as many pixels in other rows than the writer's or DPU_RDMA's, and a "
        "last group of the writer's that ends early",
        f"{VENDOR} (sizes need not agree); end {ASSUMED}",
        "sim/test_foreign::test_the_writers_last_group_may_end_early",
        "sim/test_foreign::test_a_flat_cube_is_read_and_written_by_other_sizes",
    ),
    feature(
        "DPU",
        "in place through gaps between rows, as tails of packed pixels are filled",
        VENDOR,
        "sim/test_foreign::test_tails_of_packed_rows_are_filled_in_place",
    ),
    feature(
        "CNA",
        "lenient: a convolution that writes where it reads, if FEATURE_GRAINS covers all rows",
        VENDOR,
        "sim/test_foreign::test_a_convolution_in_place",
    ),
    feature(
        "DPU",
        "fp16 out of integer stages: the scaled number over 2^MINUS_EXP",
        f"{VENDOR}; {ASSUMED} in detail",
        "sim/test_float_oracle::test_fp16_from_integers",
    ),
    feature(
        "PPU",
        "max and min; padding takes no part",
        f"{VENDOR}; padding {ASSUMED}",
        "sim/test_pooling_oracle::test_int8",
        "sim/test_pooling_oracle::test_fp16",
    ),
    feature(
        "PPU",
        "at most 128 / p output columns per task, p the kernel's height over the stride, rounded "
        "up to a power of two",
        VENDOR,
        "sim/test_pooling_oracle::test_output_columns_fit_the_line_buffer",
    ),
    feature(
        "PPU",
        "average: sum, padding included, times both Q16 reciprocals, rounded once, ties "
        "away from zero",
        f"{SILICON}; exact halves of even windows {ASSUMED}",
        "sim/test_pooling_oracle::test_int8",
        "sim/test_pooling_oracle::test_fp16",
    ),
)


def table() -> str:
    rows = ["| Block | Feature | Certainty | Test |", "| --- | --- | --- | --- |"]
    for f in FEATURES:
        tests = ", ".join(f"`{test}`" for test in f.tests)
        rows.append(f"| {f.block} | {f.text} | {f.certainty} | {tests} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The page with the table as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
