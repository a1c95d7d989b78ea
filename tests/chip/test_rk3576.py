"""Models for RK3576 on the simulator of its registers: every operator alone within a step of the
reference kernels, the vectorised results equal to the literal ones, and what is not known refused.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from delegate import _native
from delegate.builder import ModelBuilder, conv_model, depthwise_model, options
from delegate.builder.pooling import pool
from delegate.chip import chips
from delegate.chip.header import native_chip
from delegate.chip.rk3576 import RK3576
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import compile_model, compile_partition
from delegate.conformance.execution import prepare
from delegate.conformance.families import case_names
from delegate.errors import EncodingError, LoweringError, SimulatorFault
from delegate.host.runtimes import find_runtime
from delegate.insight.program_capture import capture_of_program
from delegate.insight.self_test_cases import CASES, cases_of
from delegate.lower.weights import pack_depthwise_pairs, pack_shifts
from delegate.model.graph import DType, Padding, Quantization
from delegate.model.partition import Partition
from delegate.npu.disasm import disassemble
from delegate.npu.features_used import features_of
from delegate.npu.program_reader import parse
from delegate.npu.tensor_layout import load
from delegate.options import Options
from tests.chip.feature_names import check_names
from tests.chip.test_second_chip import MODELS, reference, reference_of, simulate
from tests.shared_folder import DIGITS
from tests.shared_folder import MODELS as FOLDER

FOR_RK3576 = replace(Options(), chip="rk3576")

SAME, VALID = Padding.SAME, Padding.VALID


WHOLE = [path for path in MODELS if path.parent == FOLDER]


def _alone(compiled, graph, index):
    """The program of one node, or None if it is none by itself."""
    node = graph.node(index)
    computed = (t for t in node.inputs if t >= 0 and graph.tensor(t).constant is None)
    inputs = tuple(dict.fromkeys(computed))
    try:
        return compile_partition(graph, Partition((index,), inputs, node.outputs), chip=RK3576)
    except (LoweringError, EncodingError):
        # Parts of a neighbour's task, or of the host's conversion; and convolutions that a PAD
        # before them, which is another node, lets read whole rows.
        return None


@pytest.mark.slow
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_operators_are_within_a_step_of_the_reference(path, tmp_path):
    """Without the second rounding of TensorFlow Lite some percent of the results differ by one."""
    result = compile_model(path, FOR_RK3576)
    graph = result.graph
    values = reference_of(path, result, tmp_path)
    for compiled in result.partitions:
        assert parse(compiled.program).chip == "rk3576"
        for index in compiled.partition.nodes:
            alone = _alone(compiled, graph, index)
            if alone is None:
                continue
            program = parse(alone.program)
            given = [values[b.tensor].reshape(b.shape) for b in program.inputs]
            (found,) = simulate(alone.program, given, RK3576)
            expected = values[program.outputs[0].tensor].reshape(found.shape)
            off = np.abs(found.astype(np.int16) - expected.astype(np.int16))
            assert off.max(initial=0) <= 1, (path.name, graph.node(index).op, index)


def _literal(program, inputs):
    """The memory of outputs after the slow path, which follows the registers word by word."""
    zeros = [np.zeros(b.shape, b.element.dtype) for b in program.outputs]
    capture = capture_of_program(program, inputs, zeros, "literal")
    memory = capture.memory()
    regions = [(b.name, b.dma_address, memory[b.name]) for b in capture.buffers]
    jobs = [[(t.regcmd, t.regcmd_count, t.layer) for t in job.tasks] for job in capture.jobs]
    _native.simulate(regions, jobs, chip=native_chip(RK3576), plain=True)
    return [load(b, memory["output"]) for b in program.outputs]


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_every_model_compiles_for_both_chips(path):
    """Some of each runs on the NPU, of RK3576 no more than of RK3588, and the rest has reasons."""
    results = [compile_model(path, replace(Options(), chip=name)) for name in chips.NAMES]
    for name, result in zip(chips.NAMES, results, strict=True):
        assert result.partitions
        assert {parse(c.program).chip for c in result.partitions} == {name}
        delegated = {n for c in result.partitions for n in c.partition.nodes}
        assert delegated.isdisjoint(r.node for r in result.rejections)
        assert len(delegated) + len(result.rejections) == result.total_nodes
        assert "partition_compiles" not in {r.rule for r in result.rejections}
    assert results[1].delegated_nodes <= results[0].delegated_nodes


@pytest.mark.parametrize("seed", range(8))
def test_results_are_those_of_the_literal_path_and_of_the_reference(seed, tmp_path):
    """Dense and depthwise, uint8 with zero points of weights, several tiles and groups."""
    rng = np.random.default_rng(seed)
    is_depthwise = seed % 2 == 1
    channels, size = int(rng.integers(1, 90)), 4 * int(rng.integers(2, 12))
    kernel = int(rng.choice([1, 3, 5]))
    make = depthwise_model if is_depthwise else conv_model
    outputs = () if is_depthwise else (int(rng.integers(1, 90)),)
    dtype = DType.UINT8 if seed % 4 < 2 else DType.INT8
    check_results(make(rng, size, size, channels, *outputs, kernel, kernel, dtype=dtype), tmp_path)


def check_results(model: bytes, tmp_path: Path, *, most_off: int = 1) -> None:
    """Within a step of the reference, the literal path's, and no program of RK3588."""
    path = tmp_path / "model.tflite"
    path.write_bytes(model)
    result = compile_model(path, FOR_RK3576)
    assert result.rejections == ()
    (compiled,) = result.partitions
    program = parse(compiled.program)
    values = reference(path, result.graph, tmp_path)
    given = [values[b.tensor].reshape(b.shape) for b in program.inputs]
    (found,) = simulate(compiled.program, given, RK3576)
    expected = values[program.outputs[0].tensor].reshape(found.shape)
    assert np.abs(found.astype(np.int16) - expected.astype(np.int16)).max() <= most_off
    (literal,) = _literal(program, given)
    offset = program.outputs[0].element.offset
    np.testing.assert_array_equal(literal.astype(np.int16).reshape(found.shape) + offset, found)
    with pytest.raises(SimulatorFault):
        simulate(compiled.program, given, RK3588)


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ((60, 60, 16, 16, 2, 5, 1, 1, 9, 8, VALID), "kernel 2 x 5"),
        ((9, 9, 16, 16, 3, 3, 1, 2), "strides 1 x 2"),
    ],
)
def test_forms_that_no_program_is_known_to_have_are_refused(sizes, sentence):
    model = conv_model(np.random.default_rng(1), *sizes)
    assert compile_model(model, Options()).rejections == ()
    (rejection,) = compile_model(model, FOR_RK3576).rejections
    assert rejection.rule == "form_is_known"
    assert sentence in rejection.detail


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize(
    ("kernel", "strides", "dilations"),
    [
        ((1, 3), (1, 1), (1, 1)),
        ((5, 2), (2, 2), (1, 1)),
        ((3, 3), (1, 1), (2, 4)),
        ((2, 3), (1, 1), (3, 2)),
        ((1, 4), (1, 1), (7, 3)),
    ],
)
def test_kernels_of_unequal_sides_are_square_ones(kernel, strides, dilations, dtype, tmp_path):
    """The taps that are added count as zero, also where weights have a zero point."""
    window = (*kernel, *strides, *dilations)
    for number, padding in enumerate((SAME, VALID)):
        rng = np.random.default_rng(number)
        dense = conv_model(rng, 16, 20, 24, 40, *window, padding=padding, dtype=dtype)
        check_results(dense, tmp_path)
        check_results(
            depthwise_model(rng, 16, 20, 24, *window, padding=padding, dtype=dtype), tmp_path
        )


def test_a_stride_that_leads_nowhere_is_the_other_one(tmp_path):
    model = conv_model(
        np.random.default_rng(1), 3, 21, 16, 16, 3, 3, 1, 2, padding=VALID, dtype=DType.INT8
    )
    check_results(model, tmp_path)


@pytest.mark.parametrize("channels", [3, 4, 8])
def test_the_host_folds_inputs_only_to_forms_that_are_known(channels):
    """Folding the columns alone is the cheapest for 4 and 8 channels, and makes 3 x 1 or 3 x 2 taps
    of 3 x 3.
    """
    model = conv_model(np.random.default_rng(1), 40, 40, channels, 32, 3, 3)
    assert compile_model(model, FOR_RK3576).rejections == ()


def test_a_folded_input_has_room_for_what_tasks_read(tmp_path):
    """48 channels of three columns, of which tasks fetch 64."""
    check_results(conv_model(np.random.default_rng(1), 9, 9, 16, 16, 1, 3), tmp_path)


@pytest.mark.parametrize("size", [(7, 7), (3, 3), (1, 1), (5, 9), (1, 17), (19, 19)])
@pytest.mark.parametrize("channels", [16, 72])
def test_depthwise_surfaces_are_rounded_up_to_four_pixels(size, channels, tmp_path):
    """As in the vendor's programs for 15 x 18, 17 x 19 and 3 x 3 pixels; one of a pixel is one."""
    model = depthwise_model(np.random.default_rng(1), *size, channels, 3, 3)
    (compiled,) = compile_model(model, FOR_RK3576).partitions
    pixels = size[0] * size[1]
    stride = pixels if pixels == 1 else -(-pixels // 4) * 4
    strides = re.findall(r"DST_SURF_STRIDE = 0x([0-9a-f]+)", disassemble(parse(compiled.program)))
    assert {int(found, 16) for found in strides} == {stride}
    check_results(model, tmp_path)


@pytest.mark.parametrize("sizes", [(8, 8, 32, 32, 1, 1, 2, 2), (9, 12, 16, 40, 1, 1, 3, 3)])
def test_rows_are_fetched_whole_where_no_window_reaches_their_end(sizes, tmp_path):
    check_results(conv_model(np.random.default_rng(1), *sizes), tmp_path)


ALONE = (
    *("AddShapes.Op", "AddQuant.Op", "AddOrigins.Op", "Pairs.Op", "PairShapes.Op"),
    *("FunctionValues.Op", "FunctionShapes.Op", "FunctionChains.Op", "PoolWindows.Op"),
    *("Blocks.Op", "Padding.Op", "Edges.Bytes", "PoolChannels.Op", "PoolClamps.Op"),
    *("PoolPyramids.Op", "ReducedMaxima.Op"),
)
"""Families of operators without weights, in tasks of the DPU alone or in convolutions that move."""


def _cases(family):
    return [name for name in case_names(None) if name.startswith(f"{family}/")]


@pytest.mark.parametrize("family", ALONE)
def test_the_literal_path_gives_what_the_vectorised_one_does(family):
    """Of a few cases spread over each family, whose results conformance judges."""
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
            for binding, expected, literal in zip(
                program.outputs, found, _literal(program, given), strict=True
            ):
                raw = literal.astype(np.int16).reshape(expected.shape) + binding.element.offset
                np.testing.assert_array_equal(raw, expected, err_msg=name)
            compiled += 1
    assert compiled


@pytest.mark.parametrize("op", ["MAXIMUM", "MINIMUM"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_maxima_and_minima_are_those_of_all_pairs(op, dtype, tmp_path):
    """Sums that saturate give the larger, or smaller, of any two values."""
    builder = ModelBuilder("pairs")
    same = Quantization((0.05,), (3,))
    x, y = (builder.input(name, (1, 64, 64, 16), dtype, same) for name in "xy")
    z = builder.tensor("z", (1, 64, 64, 16), dtype, same)
    builder.operator(op, (x, y), (z,), options.empty())
    builder.output(z)
    path = tmp_path / "model.tflite"
    path.write_bytes(builder.build())
    (compiled,) = compile_model(path, FOR_RK3576).partitions
    kind = np.dtype(dtype.name.lower())
    first, second = (
        half.astype(np.uint8).view(kind).reshape(1, 64, 64, 16)
        for half in np.divmod(np.arange(1 << 16), 256)
    )
    (found,) = simulate(compiled.program, (first, second), RK3576)
    expected = {"MAXIMUM": np.maximum, "MINIMUM": np.minimum}[op](first, second)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("size", [(20, 20), (7, 7), (9, 14), (1, 1), (13, 6)])
@pytest.mark.parametrize("channels", [3, 16, 48, 80, 128])
def test_maxima_under_windows(size, channels, tmp_path):
    """Windows of YOLO's pyramids and of classifiers, whose rows and surfaces end in the middle of
    shifted maps.
    """
    for window, stride, padding in ((5, 1, SAME), (2, 2, VALID), (3, 2, SAME)):
        if padding is VALID and min(size) < window:
            continue
        builder = ModelBuilder("pool")
        given = Quantization((0.05,), (3,))
        x = builder.input("x", (1, *size, channels), DType.INT8, given)
        sides = (window, window, stride, stride)
        builder.output(pool(builder, "MAX_POOL_2D", x, *sides, padding))
        check_results(builder.build(), tmp_path, most_off=0)


MAKES_CONSTANTS = ("QUANTIZE", "DEQUANTIZE", "DENSIFY")
HALF_CASES = [name for name in case_names(None) if name.startswith("Half.")]


@pytest.mark.parametrize("name", HALF_CASES[::17])
def test_fp16_is_refused(name):
    """Whatever an operator's record in fp16 needs, and aliases that would only round."""
    graph = prepare(name, None).graph
    result = compile_model(graph, replace(FOR_RK3576, float="fp16"))
    assert result.partitions == ()
    refused = {r.rule for r in result.rejections if r.op not in MAKES_CONSTANTS}
    assert refused == {"chip_has_features"}


def test_weights_have_two_bytes_that_are_added():
    rng = np.random.default_rng(2)
    for zero_point in (-128, -127, -5, 0, 127):
        weights = rng.integers(-128, 127, (3, 3, 80)).astype(np.int8)
        data = pack_depthwise_pairs(weights, zero_point, RK3576.groups)
        packed = np.frombuffer(data, np.int8).astype(np.int64)
        for channel in (0, 1, 2, 63, 64, 79):
            first, lanes = (0, 64) if channel < 64 else (9 * 64, 16)
            place = channel % 64
            at = 2 * (first + np.arange(9) * lanes) + 4 * (place // 2) + place % 2
            sums = packed[at] + packed[at + 2]
            expected = weights[:, :, channel].reshape(-1).astype(np.int64) - zero_point
            np.testing.assert_array_equal(sums, expected)
    with pytest.raises(ValueError, match="127 with the zero point -128"):
        pack_depthwise_pairs(np.full((1, 1, 16), 127, np.int8), -128, RK3576.groups)
    assert pack_shifts(14, 9) == bytes([14, 9]) + bytes(14)


def test_every_program_names_its_features_and_disassembles():
    programs = [parse(c.program) for c in compile_model(DIGITS, FOR_RK3576).partitions]
    used = {item.feature.name: item.tasks for item in features_of(RK3576, programs)}
    tasks = sum(len(program.tasks) for program in programs)
    convolutions = used["convolution"] + used["depthwise_convolution"]
    assert used["operand_blocks"] == convolutions
    assert used["shift_record"] == convolutions + used["ew_addition"]
    assert convolutions + used["element_wise_alone"] == tasks
    for feature in RK3576.features:
        check_names(feature.settings, RK3576.registers)
    text = "".join(disassemble(program) for program in programs)
    assert "word 0x" not in text
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
    import delegate

    library = delegate.load_delegate(device="simulator", chip="rk3576", prove="off", strict="false")
    results = []
    for delegates in ([], [library]):
        interpreter = find_runtime().interpreter(
            DIGITS, delegates=delegates, reference_kernels=True
        )
        (given,) = interpreter.get_input_details()
        values = np.random.default_rng(5).integers(-128, 128, given["shape"])
        interpreter.set_tensor(given["index"], values.astype(given["dtype"]))
        interpreter.invoke()
        (output,) = interpreter.get_output_details()
        results.append(interpreter.get_tensor(output["index"]).astype(np.int16))
    assert np.abs(results[0] - results[1]).max() <= 8  # of ten layers behind one another


def test_the_option_names_every_chip():
    (kind,) = (f.metadata["row"][0] for f in fields(Options) if f.name == "chip")
    assert kind.words == ("auto", *chips.NAMES)
    assert [chip.name for chip in chips.every_chip()] == list(chips.NAMES)


def test_the_self_tests_cases_use_every_feature_and_leave_out_what_the_rules_reject():
    found = set()
    for case in CASES:
        given = {"numerics": case.numerics, "float": case.float, "only_faster": "false"}
        result = compile_model(case.build(), Options.from_mapping(given, {}), chip=RK3576)
        assert bool(result.partitions) == (case in cases_of(RK3576)), case.name
        programs = [parse(compiled.program) for compiled in result.partitions]
        found |= {use.feature.name for use in features_of(RK3576, programs)}
    assert found == {feature.name for feature in RK3576.features}
    assert cases_of(chips.DEFAULT) == CASES
