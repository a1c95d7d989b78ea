"""Models for RK3576 on the simulator of its registers: within a step of the reference kernels, the
vectorised results equal to the literal ones, and what is not known refused.
"""

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
from delegate.npu.disasm import disassemble
from delegate.npu.program_reader import parse
from delegate.options import Options
from rk3588_conformance.execution import prepare, run_case
from rk3588_conformance.families import case_names
from rk3588_conformance.outcome import Status
from rk3588_conformance.self_test_cases import CASES, cases_of
from tests.chip.rk3576_results import FOR_RK3576
from tests.chip.test_second_chip import simulate
from tests.inferences import drawn_int8, interpreter_of, invoke, outputs
from tests.loops import for_each
from tests.shared_folder import DIGITS

ALONE = (
    *("AddShapes.Op", "AddQuant.Op", "AddOrigins.Op", "Pairs.Op", "PairShapes.Op"),
    *("FunctionValues.Op", "FunctionShapes.Op", "FunctionChains.Op", "PoolWindows.Op"),
    *("Blocks.Op", "Padding.Op", "Edges.Bytes", "PoolChannels.Op", "PoolClamps.Op"),
    *("PoolPyramids.Op", "ReducedMaxima.Op", "ResizeNearest.Op", "ResizeBilinear.Op"),
    *("TransposeConv.Op", "ConvShapes.Op", "DepthwiseShapes.Op", "ConvChannels.Op"),
)
"""Families of the DPU alone, of convolutions that move or write apart, and of tiles."""


def _cases(family):
    return list(case_names(None, f"{family}/"))


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


CASES_ENOUGH = 5
MAKES_CONSTANTS = ("QUANTIZE", "DEQUANTIZE", "DENSIFY")


def test_fp16_is_refused():
    """No operator is taken in fp16, and no alias that would only round."""
    names = list(case_names(None, "Half."))
    for name in names[::17]:
        graph = prepare(name, None).graph
        result = compile_model(graph, replace(FOR_RK3576, float="fp16"))
        assert result.partitions == (), name
        refused = {r.rule for r in result.rejections if r.op not in MAKES_CONSTANTS}
        assert refused == {"form_is_known"}, name


@pytest.mark.parametrize(
    ("pattern", "op"),
    [("PairSquares.Op", "SQUARED_DIFFERENCE"), ("ComputedProduct.Op", "BATCH_MATMUL")],
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
    register = RK3576.registers.register(name)
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
        assert bool(result.partitions) == (case in cases_of(RK3576)), case.name
    assert cases_of(chips.DEFAULT) == CASES
