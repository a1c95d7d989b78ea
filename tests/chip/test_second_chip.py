"""Models compile for another chip, and its simulator runs them within the contract.

Each operator alone is within one step of the reference kernels.
"""

from dataclasses import fields, replace

import numpy as np
import pytest

from delegate import _native
from delegate.chip.chip import native_chip
from delegate.chip.chips import every_chip
from delegate.chip.rk3576 import RK3576
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import compile_model, compile_partition
from delegate.errors import EncodingError, LoweringError, ModelError, SimulatorFault
from delegate.host.delegated import expose_tensors
from delegate.host.runtimes import find_runtime
from delegate.insight.program_capture import capture_of_program
from delegate.lower.task import BufferId
from delegate.model.graph import Partition
from delegate.model.tflite_reader import read_graph
from delegate.npu.program_reader import parse
from delegate.npu.tensor_layout import load
from delegate.ops import OPERATORS
from delegate.option_kinds import Cores
from delegate.options import Options
from rk3588_conformance.builder import conv_model
from tests.chip.second_chip import SECOND
from tests.inferences import assert_same
from tests.loops import for_each
from tests.lower.reference import random_inputs
from tests.lower.test_aliases import Views
from tests.shared_folder import DIGITS, model_files, small_first

WHOLE = [DIGITS, *model_files(".")]
LAYERS = model_files("layers")
"""All with int8 or uint8 tensors; others compile to nothing."""


def simulate(program, inputs, chip, *, plain=False):
    """The outputs of a program, as bytes or parsed, on the simulator of ``chip``, in the host's
    types; ``plain``: by the path that follows the registers word by word.
    """
    parsed = parse(program) if isinstance(program, bytes) else program
    outputs = [np.zeros(b.shape, b.element.dtype) for b in parsed.outputs]
    capture = capture_of_program(parsed, inputs, outputs, "second")
    memory = capture.memory()
    regions = [(b.name, b.dma_address, memory[b.name]) for b in capture.buffers]
    jobs = [[(t.regcmd, t.regcmd_count, t.layer) for t in job.tasks] for job in capture.jobs]
    _native.simulate(regions, jobs, chip=native_chip(chip), plain=plain)
    output = next(memory[b.name] for b in capture.buffers if b.name == BufferId.OUTPUT.name.lower())
    return [
        (load(b, output).astype(np.int16) + b.element.offset)
        .astype(b.element.dtype)
        .reshape(b.shape)
        for b in parsed.outputs
    ]


def reference(path, graph):
    """Every tensor by the reference kernels, for random inputs."""
    written = [t for node in graph.nodes for t in node.outputs]
    interpreter = find_runtime().interpreter(expose_tensors(path, written), reference_kernels=True)
    arrays = random_inputs(graph, graph.inputs, np.random.default_rng(7))
    values = dict(zip(graph.inputs, arrays, strict=True))
    for index, given in values.items():
        interpreter.set_tensor(index, given)
    interpreter.invoke()
    return {**values, **{t: interpreter.get_tensor(t) for t in written}}


def reference_of(path, result):
    """``reference`` of a model of which something compiles and that this runtime knows."""
    if not result.partitions:
        pytest.skip("nothing of it is for the NPU")
    try:
        return reference(path, result.graph)
    except ModelError as error:
        pytest.skip(f"this runtime does not have all its operators: {error}")


CHIPS = pytest.mark.parametrize("chip", [SECOND, RK3576], ids=["second", "rk3576"])


@pytest.mark.parametrize("chip", [pytest.param(SECOND, marks=pytest.mark.exhaustive), RK3576],
                         ids=["second", "rk3576"])  # fmt: skip
@pytest.mark.parametrize("path", small_first(WHOLE))
def test_operators_are_within_a_step_of_the_reference(path, chip):
    """RK3576 lacks the second rounding of TensorFlow Lite: some percent differ by one there."""
    check_operators(path, chip)


@CHIPS
@for_each("path", LAYERS[::4])
def test_layers_are_within_a_step_of_the_reference(path, chip):
    check_operators(path, chip)


@pytest.mark.exhaustive
@CHIPS
@for_each("path", LAYERS)
def test_all_layers_are_within_a_step_of_the_reference(path, chip):
    check_operators(path, chip)


def check_operators(path, chip):
    result = compile_model(path, Options(numerics="exact"), chip=chip)
    graph = result.graph
    values = reference_of(path, result)
    different = total = 0
    for compiled in result.partitions:
        assert parse(compiled.program).chip == chip.name
        for index in compiled.partition.nodes:
            node = graph.node(index)
            computed = (t for t in node.inputs if t >= 0 and graph.tensor(t).constant is None)
            alone = Partition((index,), tuple(dict.fromkeys(computed)), node.outputs)
            try:
                program = parse(compile_partition(graph, alone, chip=chip).program)
            except (LoweringError, EncodingError):
                # Parts of others are no programs alone; on RK3576 nor are convolutions that a PAD
                # before them, which is another node, lets read whole rows.
                assert chip is RK3576 or not OPERATORS[node.op].has_tasks
                continue
            given = [values[b.tensor].reshape(b.shape) for b in program.inputs]
            (found,) = simulate(program, given, chip)
            expected = values[program.outputs[0].tensor].reshape(found.shape)
            off = np.abs(found.astype(np.int16) - expected.astype(np.int16))
            assert off.max(initial=0) <= 1, (path.name, node.op, index)
            different += int(np.count_nonzero(off))
            total += off.size
    assert result.delegated_nodes + len(result.rejections) == result.total_nodes
    assert "partition_compiles" not in {r.rule for r in result.rejections}
    as_first = compile_model(path, Options(numerics="exact")).delegated_nodes
    if chip is SECOND:
        assert result.delegated_nodes == as_first
        assert different <= total * 1e-4  # the contract's share on real models
    assert result.delegated_nodes <= as_first


@pytest.mark.parametrize("path", WHOLE[:4], ids=lambda path: path.stem)
def test_the_chips_disagree_about_programs_but_not_about_results(path):
    programs = [
        [c.program for c in compile_model(path, Options(numerics="exact"), chip=chip).partitions]
        for chip in (RK3588, SECOND)
    ]
    rng = np.random.default_rng(1)
    for ours, theirs in zip(*programs, strict=True):
        bindings = parse(ours).inputs
        given = [rng.integers(0, 100, b.shape).astype(b.element.dtype) for b in bindings]
        assert parse(ours).words().tobytes() != parse(theirs).words().tobytes()
        assert_same(simulate(ours, given, RK3588), simulate(theirs, given, SECOND))
        with pytest.raises(SimulatorFault):
            simulate(theirs, given, RK3588)


@for_each("channels", [19, 32, 40])
def test_elements_are_reordered_for_the_chip(channels):
    """By convolutions that write that chip's groups, or blocks turned round."""
    net = Views(5, 12, channels)
    y = net.transpose(net.depthwise(net.map()), (0, 3, 1, 2))
    y = net.reshape(net.add(y, y), (1, channels, 1, 60))
    graph = read_graph(net.build(net.add(y, y)))
    results = [
        compile_model(graph, Options(numerics="exact"), chip=chip) for chip in (RK3588, SECOND)
    ]
    ours, theirs = (parse(one.program) for r in results for one in r.partitions)
    assert all(r.rejections == () for r in results)
    rng = np.random.default_rng(3)
    given = [rng.integers(-128, 128, b.shape).astype(b.element.dtype) for b in ours.inputs]
    (expected,) = simulate(results[0].partitions[0].program, given, RK3588)
    (found,) = simulate(results[1].partitions[0].program, given, SECOND)
    assert theirs.chip == SECOND.name
    np.testing.assert_array_equal(found, expected)


def test_rules_and_their_sentences_follow_the_chip():
    narrow = replace(SECOND, limits=replace(SECOND.limits, kernel_size=3, stride=2))
    rng = np.random.default_rng(1)
    for model, rule, sentence in (
        (conv_model(rng, 9, 9, 16, 16, 5, 5), "kernel_in_range", "1 to 3: the kernel is 5 x 5"),
        (conv_model(rng, 9, 9, 17, 16, 1, 1, 3, 3), "strides_or_patches", "must be 1 to 2, or"),
    ):
        assert compile_model(model, Options(numerics="exact")).rejections == ()
        (rejection,) = compile_model(model, Options(numerics="exact"), chip=narrow).rejections
        assert rejection.rule == rule
        assert sentence in rejection.detail


def test_the_option_cores_takes_those_of_every_chip():
    kinds = (field.metadata["row"][0] for field in fields(Options) if "row" in field.metadata)
    (count,) = (kind.count for kind in kinds if isinstance(kind, Cores))
    assert count == max(chip.cores for chip in every_chip())
