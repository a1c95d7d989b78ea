"""Models for RK3576 on the simulator of its registers: within a step of the reference kernels,
the vectorised results equal to the literal ones, and what is not known refused.
"""

import re
from dataclasses import fields, replace

import numpy as np
import pytest

from delegate import _native
from delegate.chip import chips
from delegate.chip.chip import native_chip
from delegate.chip.rk3576 import RK3576
from delegate.compile.compiler import compile_model
from delegate.errors import SimulatorFault
from delegate.insight.program_capture import capture_of_program
from delegate.lower.weights import pack_depthwise, pack_shifts
from delegate.model.graph import DType, Padding
from delegate.npu.disasm import disassemble
from delegate.npu.program_reader import parse
from delegate.options import Options
from rk3588_conformance.builder import conv_model, depthwise_model
from rk3588_conformance.execution import prepare, run_case
from rk3588_conformance.families import case_names, is_half
from rk3588_conformance.outcome import Status
from rk3588_conformance.self_test_cases import CASES, cases_of
from tests.chip.rk3576_results import FOR_RK3576, check_results
from tests.chip.test_second_chip import simulate
from tests.inferences import drawn_int8, interpreter_of, invoke, outputs
from tests.loops import for_each
from tests.shared_folder import DIGITS

ALONE = (
    *("AddQuant.Op", "AddOrigins.Op", "Pairs.Op", "PairShapes.Op"),
    *("FunctionValues.Op", "FunctionShapes.Op", "FunctionChains.Op", "PoolWindows.Op"),
    *("Blocks.Op", "Padding.Op", "Edges.Bytes", "PoolChannels.Op", "PoolClamps.Op"),
    *("PoolPyramids.Op", "ReducedMaxima.Op", "ResizeNearest.Op", "ResizeBilinear.Op"),
    *("TransposeConv.Op", "ConvShapes.Op", "DepthwiseShapes.Op", "ConvChannels.Op"),
)
"""Families of the DPU alone, of convolutions that move or write apart, and of tiles."""


def _cases(family):
    return [name for name in case_names(None, f"{family}/") if not is_half(name)]


@pytest.mark.parametrize("family", ALONE)
def test_the_literal_path_gives_what_the_vectorised_one_does(family):
    """The cases are a few of each family, whose results conformance judges."""
    compiled = 0
    cases = _cases(family)
    for name in cases[:: -(-len(cases) // 6)]:
        graph = prepare(name, None).graph
        for one in compile_model(graph, FOR_RK3576).partitions:
            program = parse(one.program)
            rng = np.random.default_rng(3)
            given = [
                rng.integers(*((0, 256) if b.element.offset else (-128, 128)), b.shape).astype(
                    b.element.dtype
                )
                for b in program.inputs
            ]
            found = simulate(one.program, given, RK3576)
            literal = simulate(one.program, given, RK3576, plain=True)
            for expected, value in zip(found, literal, strict=True):
                np.testing.assert_array_equal(value, expected, err_msg=name)
            compiled += 1
    assert compiled


CHOSEN = (
    *(name for name in _cases("Pairs.Op") if "IMUM" in name),
    *_cases("ResizeNearest.Op")[::89],
)
"""Extrema, which are sums that saturate, of all pairs; and pixels that are repeated."""


@for_each("name", CHOSEN)
def test_what_is_chosen_is_equal(name):
    given = {"device": "simulator", "chip": "rk3576", "deny_ops": ""}
    outcome = run_case(name, None, Options.from_mapping(given, {}))
    assert (outcome.status, outcome.max_abs_diff) == (Status.OK, 0)


@pytest.mark.parametrize("family", ["PoolWindows.Op", "PoolClamps.Op"])
def test_settings_that_no_program_has_are_forms_that_are_not_known(family: str):
    """Borders of averages and strides that differ: the encoder refuses them."""
    rules = set()
    for name in _cases(family)[::29]:
        result = compile_model(prepare(name, None).graph, FOR_RK3576)
        rules |= {rejection.rule for rejection in result.rejections}
    assert "form_is_known" in rules
    assert "registers_hold_values" not in rules


CASES_ENOUGH = 5
MAKES_CONSTANTS = ("QUANTIZE", "DEQUANTIZE", "DENSIFY")


def test_fp16_is_refused():
    """No operator is taken in fp16, and no alias that would only round."""
    names = [name for name in case_names(None) if is_half(name)]
    for name in names[::17]:
        graph = prepare(name, None).graph
        result = compile_model(graph, replace(FOR_RK3576, float="fp16"))
        assert result.partitions == (), name
        refused = {r.rule for r in result.rejections if r.op not in MAKES_CONSTANTS}
        assert refused == {"form_is_known"}, name


@pytest.mark.parametrize(
    ("pattern", "op"),
    [
        ("PairSquares.Op", "SQUARED_DIFFERENCE"),
        ("ComputedProduct.Op", "BATCH_MATMUL"),
        ("ComputedWeights.Op", "FULLY_CONNECTED"),
    ],
)
def test_what_no_program_of_the_vendor_has_stays_on_the_cpu(pattern: str, op: str):
    """The larger of two maps in EW, and weights that the NPU computes."""
    refused = 0
    for name in _cases(pattern):
        graph = prepare(name, None).graph
        nodes = [node for node in graph.nodes if node.op == op]
        if not nodes or any(graph.tensor(t).constant is not None for t in nodes[0].inputs):
            continue
        result = compile_model(graph, FOR_RK3576)
        rules = {r.node: r.rule for r in result.rejections}
        assert rules[nodes[0].index] == "form_is_known", name
        refused += 1
        if refused == CASES_ENOUGH:
            break
    assert refused


def test_programs_disassemble():
    programs = [parse(c.program) for c in compile_model(DIGITS, FOR_RK3576).partitions]
    text = "".join(disassemble(program) for program in programs)
    assert "word 0x" not in text
    tasks = sum(len(program.tasks) for program in programs)
    assert text.count("DPU_RDMA.RDMA_BS_SCALAR_ADDR = ") == tasks


@pytest.mark.parametrize(
    ("name", "bits", "kind"),
    [
        ("CNA.CBUF_CON0", 1 << 31, "UnsupportedFeature"),  # rows of the tile before
        ("CNA.CBUF_CON0", 1 << 8, "InconsistentSizes"),  # another number of banks
        ("CNA.CBUF_CON1", 1 << 31, "UnsupportedFeature"),  # weights of the task before
        ("CNA.PAD_CON0", 1 << 24, "InconsistentSizes"),
        ("CNA.CONV_CON1", 1 << 13, "UnsupportedFeature"),  # packed pixels
        ("DPU.EW_CFG", 1, "UnsupportedFeature"),
        ("DPU.OUT_CVT_SHIFT", 1 << 30, "ReservedBits"),  # where RK3588 has ties away from zero
        ("DPU.SURFACE_ADD", 1, "InconsistentSizes"),
        ("DPU_RDMA.RDMA_BRDMA_CFG", 1 << 4, "UnsupportedFeature"),
        ("CORE.S_POINTER", 0xE, "NotRearmed"),
    ],
)
def test_the_simulator_is_strict(name, bits, kind):
    (compiled, *_) = compile_model(DIGITS, FOR_RK3576).partitions
    program = parse(compiled.program)
    register = RK3576.registers.by_name[name]
    given = [np.zeros(b.shape, b.element.dtype) for b in program.inputs]
    zeros = [np.zeros(b.shape, b.element.dtype) for b in program.outputs]
    capture = capture_of_program(program, given, zeros, "strict")
    memory = capture.memory()
    words = memory["regcmd"].view("<u8")
    places = np.flatnonzero(
        (words >> np.uint64(48) == register.target) & (words & np.uint64(0xFFFF) == register.offset)
    )
    if kind == "NotRearmed":
        words[places[0]] = 0
    else:
        words[places] ^= np.uint64(bits << 16)
    regions = [(b.name, b.dma_address, memory[b.name]) for b in capture.buffers]
    jobs = [[(t.regcmd, t.regcmd_count, t.layer) for t in job.tasks] for job in capture.jobs]
    with pytest.raises(SimulatorFault, match=kind):
        _native.simulate(regions, jobs, chip=native_chip(RK3576))


def test_the_delegate_runs_models_for_it():
    """By the option; the simulator takes the chip from the program."""
    options = {"device": "simulator", "chip": "rk3576", "verify": "off", "strict": "false"}
    theirs = interpreter_of(DIGITS)
    values = drawn_int8(tuple(theirs.get_input_details()[0]["shape"]), 5)
    (expected,), (ours,) = invoke(theirs, values), outputs(DIGITS, values, **options)
    assert np.abs(ours.astype(int) - expected).max() <= 8  # of ten layers behind one another


def test_the_option_names_every_chip():
    (kind,) = (f.metadata["row"][0] for f in fields(Options) if f.name == "chip")
    assert kind.words == ("auto", *chips.NAMES)
    assert [chip.name for chip in chips.every_chip()] == list(chips.NAMES)


def test_the_self_tests_leave_out_what_the_rules_reject():
    for case in (case for case in CASES if not case.tries):
        given = {"numerics": case.numerics, "float": case.float, "deny_ops": ""}
        result = compile_model(case.build(), Options.from_mapping(given, {}), chip=RK3576)
        assert (not result.rejections) == (case in cases_of(RK3576)), case.name
    assert cases_of(chips.DEFAULT) == CASES


SAME, VALID = Padding.SAME, Padding.VALID


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ((60, 60, 16, 16, 2, 5, 1, 1, 9, 8, VALID), "kernel 2 x 5"),
        ((9, 9, 16, 16, 3, 3, 1, 2), "strides 1 x 2"),
    ],
)
def test_forms_that_no_program_is_known_to_have_are_refused(sizes, sentence):
    model = conv_model(np.random.default_rng(1), *sizes)
    assert compile_model(model, Options(numerics="exact")).rejections == ()
    (rejection,) = compile_model(model, FOR_RK3576).rejections
    assert rejection.rule == "form_is_known"
    assert sentence in rejection.detail


def test_a_stride_that_leads_nowhere_is_the_other_one():
    model = conv_model(
        np.random.default_rng(1), 3, 21, 16, 16, 3, 3, 1, 2, padding=VALID, dtype=DType.INT8
    )
    check_results(model)


@for_each("channels", [3, 4, 8])
def test_the_host_folds_inputs_only_to_forms_that_are_known(channels):
    """Folded columns alone are cheapest for 4 and 8 channels: 3 x 1 or 3 x 2 taps of 3 x 3."""
    model = conv_model(np.random.default_rng(1), 40, 40, channels, 32, 3, 3)
    assert compile_model(model, FOR_RK3576).rejections == ()


def test_a_folded_input_has_room_for_what_tasks_read():
    """48 channels of three columns, of which tasks fetch 64."""
    check_results(conv_model(np.random.default_rng(1), 9, 9, 16, 16, 1, 3))


@pytest.mark.parametrize("size", [(7, 7), (3, 3), (1, 1), (5, 9), (1, 17), (19, 19)])
@pytest.mark.parametrize("channels", [16, 72])
def test_depthwise_surfaces_are_rounded_up_to_four_pixels(size, channels):
    """As in the vendor's programs for 15 x 18, 17 x 19 and 3 x 3 pixels; one of a pixel is one."""
    model = depthwise_model(np.random.default_rng(1), *size, channels, 3, 3)
    (compiled,) = compile_model(model, FOR_RK3576).partitions
    pixels = size[0] * size[1]
    stride = pixels if pixels == 1 else -(-pixels // 4) * 4
    strides = re.findall(r"DST_SURF_STRIDE = 0x([0-9a-f]+)", disassemble(parse(compiled.program)))
    assert {int(found, 16) for found in strides} == {stride}
    check_results(model)


def test_weights_have_two_bytes_that_are_added():
    rng = np.random.default_rng(2)
    for zero_point in (-128, -127, -5, 0, 127):
        weights = rng.integers(-128, 127, (3, 3, 80)).astype(np.int8)
        data = pack_depthwise(weights, zero_point, RK3576.groups)
        packed = np.frombuffer(data, np.int8).astype(np.int64)
        for channel in (0, 1, 2, 63, 64, 79):
            first, lanes = (0, 64) if channel < 64 else (9 * 64, 16)
            place = channel % 64
            at = 2 * (first + np.arange(9) * lanes) + 4 * (place // 2) + place % 2
            sums = packed[at] + packed[at + 2]
            expected = weights[:, :, channel].reshape(-1).astype(np.int64) - zero_point
            np.testing.assert_array_equal(sums, expected)
    with pytest.raises(ValueError, match="127 with the zero point -128"):
        pack_depthwise(np.full((1, 1, 16), 127, np.int8), -128, RK3576.groups)
    assert pack_shifts(14, 9) == bytes([14, 9]) + bytes(14)
