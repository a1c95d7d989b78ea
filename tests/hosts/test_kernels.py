"""FULLY_CONNECTED is what the runtime's own reference kernel makes of it: they differ."""

import warnings

import numpy as np
import pytest

import delegate
from delegate.compile.compiler import compile_model
from delegate.errors import DelegateError
from delegate.host.delegation import collect_delegations
from delegate.host.kernels import for_runtime, half_step_model
from delegate.host.runtimes import find_runtime
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_conformance.builder import Arithmetic, Net, conv_model, fully_connected_model
from tests.inferences import outputs
from tests.lower.numerics.judge import recorded_proofs
from tests.models.blocks import function_model
from tests.processes import python

OUTPUTS = 33
ROWS = np.arange(256).reshape(256, 1)


def model(seed: int, dtype: DType, per_channel: bool) -> bytes:
    """One input that takes all values, so that every accumulator is met. With such ratios the first
    of two roundings lifts many results onto a tie.
    """
    rng = np.random.default_rng(seed)
    zero_point, kind = (0, np.int8) if dtype is DType.INT8 else (128, np.uint8)
    steps = rng.choice([0.4, 0.13, 0.33, 0.021], OUTPUTS if per_channel else 1)
    return fully_connected_model(
        rng,
        ROWS.shape,
        OUTPUTS,
        dtype,
        arithmetic=Arithmetic(
            per_channel=per_channel,
            weight_scales=tuple(float(step) for step in steps),
            weights=(rng.integers(-3, 4, (OUTPUTS, 1)) + zero_point).astype(kind),
            weight_zero_point=zero_point,
            bias=rng.integers(-40, 40, OUTPUTS).astype(np.int32),
            output_scale=0.5,
            output_zero_point=zero_point + 3,
        ),
        input_scale=0.5,
        input_zero_point=zero_point - 5,
    )


def run(content: bytes, dtype: DType, **arguments: object) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the runtimes', of their age
        interpreter = find_runtime().module.Interpreter(model_content=content, **arguments)
    interpreter.allocate_tensors()
    values = ROWS.astype(np.uint8) if dtype is DType.UINT8 else (ROWS - 128).astype(np.int8)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).astype(int)


def of_outputs(wrong: np.ndarray) -> np.ndarray:
    """[OUTPUTS]: of one channel, or of an image's sections in order surface, section, lane."""
    if wrong.size == 1:
        return np.broadcast_to(wrong, OUTPUTS)
    lanes = 16
    sections = wrong.size // (-(-OUTPUTS // lanes) * lanes)
    assert sections >= 1 or wrong.size == OUTPUTS
    if sections:
        wrong = wrong.reshape(-1, sections, lanes).max(axis=1).reshape(-1)
    return wrong[:OUTPUTS]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("dtype", "per_channel"), [(DType.INT8, False), (DType.INT8, True), (DType.UINT8, False)]
)
def test_fully_connected_equals_the_reference_kernel_of_this_runtime(dtype, per_channel, seed):
    content = model(seed, dtype, per_channel)
    runtime = find_runtime()
    with collect_delegations() as found, recorded_proofs() as proofs:
        plugin = runtime.load_delegate(
            delegate.library_path(), {"device": "simulator", "log_level": "error"}
        )
        ours = run(content, dtype, experimental_delegates=[plugin])
    assert [facts.delegated_nodes for facts in found] == [1]
    resolver = runtime.module.OpResolverType.BUILTIN_REF
    theirs = run(content, dtype, experimental_op_resolver_type=resolver)
    assert np.abs(ours - theirs).max() <= 1
    is_equal = of_outputs(proofs[0].wrong) == 0
    assert np.count_nonzero(is_equal) >= 0.9 * OUTPUTS
    assert np.array_equal(ours[:, is_equal], theirs[:, is_equal])


def test_what_a_kernel_that_rounds_once_computes_has_another_program():
    content = model(0, DType.INT8, False)
    graph = read_graph(content)
    assert not graph.rounds_once
    once = type(graph)(graph.tensors, graph.nodes, graph.inputs, graph.outputs, rounds_once=True)
    programs = [
        compile_model(g, Options(numerics="exact")).partitions[0].program for g in (graph, once)
    ]
    assert programs[0] != programs[1]


def test_a_process_without_a_runtime_asks_and_loads_none():
    code = (
        "import sys\n"
        "from delegate.compile.plugin import Session\n"
        "from delegate.host.runtimes import loaded_runtime\n"
        "print(loaded_runtime(), [n for n in sys.modules if n.endswith('.interpreter')])"
    )
    result = python("-c", code, check=True, timeout=60)
    assert result.stdout == "None []\n"
    graph = read_graph(model(0, DType.INT8, False))
    assert not for_runtime(graph, None).rounds_once


def test_the_question_is_half_an_output_step_below_zero():
    graph = read_graph(half_step_model())
    (node,) = graph.nodes
    x, weights, y = (graph.tensor(t) for t in (*node.inputs[:2], *node.outputs))
    assert (node.op, x.shape, y.shape) == ("FULLY_CONNECTED", (1, 1), (1, 1))
    assert weights.constant.tolist() == [[-1]]
    scales = [tensor.quantization.scales for tensor in (x, weights, y)]
    assert scales == [(1.0,), (1.0,), (2.0,)]
    assert {tensor.quantization.zero_points for tensor in (x, weights, y)} == {(0,)}


def test_graphs_without_the_operator_are_the_same_for_all_runtimes():
    graph = read_graph(conv_model(np.random.default_rng(1), 4, 4, 3, 5, 1, 1))
    assert for_runtime(graph, find_runtime()) is graph


def test_logarithms_are_the_kernels() -> None:
    """All values, where the runtime has such a kernel."""
    values = np.arange(-128, 128).astype(np.int8)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scales = 10 ** rng.uniform((-3, -2), (1, 0))
        points = (int(rng.choice((-128, 0, 127, 31))), int(rng.integers(-128, 128)))
        given, result = (
            Quantization((float(np.float32(scale)),), (point,))
            for scale, point in zip(scales, points, strict=True)
        )
        content = function_model(
            "LOG", (DType.INT8, given), (DType.INT8, result), None, values.shape
        )
        try:
            (theirs,) = outputs(content, values)
        except DelegateError as error:
            pytest.skip(str(error))
        (ours,) = outputs(content, values, device="simulator", deny_ops="NONE")
        np.testing.assert_array_equal(ours, theirs)


def test_sums_of_int8_are_taken_for_uint8() -> None:
    """This is why SUM of int8 stays on the CPU (``summed_type``), whatever the runtime."""
    builder = Net("sum")
    x = builder.input("x", (1, 4, 64), DType.INT8, Quantization((0.05,), (3,)))
    result = Quantization((0.5,), (-4,))
    content = builder.build(builder.reduced("SUM", x, result, keep_dims=True, axes=(2,)))
    values = np.random.default_rng(0).integers(-20, 20, (1, 4, 64)).astype(np.int8)
    (made,) = outputs(content, values)
    right = np.rint((values.astype(int) - 3).sum(2) * 0.1) - 4
    assert np.abs(made.ravel() - right).min() > 1
