"""Input channels in groups: sums of int32 between passes, the same results as a single task."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate._native import Executable
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import compile_model
from delegate.insight.capture import replay
from delegate.insight.program_capture import capture_of_program
from delegate.lower.task import BufferId, ConvTask, ElementwiseTask
from delegate.lower.tiling.choices import plan_input_groups
from delegate.lower.tiling.geometry import Axis, ConvGeometry
from delegate.model.graph import DType
from delegate.model.tflite_reader import read_graph
from delegate.npu.program import parse
from delegate.options import Options
from rk3588_conformance.builder import Arithmetic, fully_connected_model
from tests.lower.reference import lower_model, random_inputs, tflite_outputs

RNG = np.random.default_rng
PER_CHANNEL = Arithmetic(per_channel=True)


def dense_geometry(inputs, outputs, rows=1):
    lanes = -(-inputs // 16) * 16
    return ConvGeometry(
        Axis(1, 1), Axis(1, 1), lanes, outputs + outputs % 2, outputs, images=rows, chip=RK3588
    )  # fmt: skip


@st.composite
def geometries(draw):
    kernel = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    axes = []
    for k in kernel:
        size, pad = draw(st.integers(1, 12)), draw(st.integers(0, k - 1))
        axes.append(Axis(size, draw(st.integers(1, size)), k, 1, draw(st.integers(1, 2)), pad))
    lanes = 16 * draw(st.integers(2, 4096))
    outputs = draw(st.integers(1, 1001))
    return ConvGeometry(*axes, lanes, outputs + outputs % 2, outputs, chip=RK3588)


@given(geometries(), st.integers(1, 2), st.integers(0, 1))
@settings(max_examples=200, deadline=None)
def test_groups_cover_the_channels_and_fit(geometry, passes, copies):
    plan = plan_input_groups(geometry, geometry.kernels, passes, copy_tasks=copies)
    assert plan is not None
    groups, data_banks, tasks = plan
    assert len(groups) >= 2
    covered = 0
    rows, columns = (min(a.reach, a.input_size) for a in (geometry.rows, geometry.columns))
    for group in groups:
        assert group.start == covered
        assert len(group) % 16 == 0
        assert len(group) > 0
        entries = geometry.row_entries(columns, len(group))
        assert entries <= RK3588.cbuf.max_row_entries
        assert rows * entries <= data_banks * RK3588.cbuf.bank_entries
        kernels = min(geometry.kernels, 32)
        weights = kernels * len(group) * geometry.taps
        assert weights <= (RK3588.cbuf.banks - data_banks) * RK3588.cbuf.bank_bytes
        covered += len(group)
    assert covered == geometry.channels
    pixels = geometry.rows.output_size * geometry.columns.output_size
    assert tasks == pixels * ((len(groups) - 1) * passes + 1 + copies)


def compiled(model):
    graph = read_graph(model)
    result = compile_model(graph, Options(numerics="exact"))
    assert result.rejections == ()
    (partition,) = result.partitions
    return graph, partition


def outputs_of(model, arrays=None, seed=0):
    """Return ours, on the simulator, and TFLite's."""
    graph, partition = compiled(model)
    assert "input channels in" in partition.layers[0].choice
    if arrays is None:
        arrays = random_inputs(graph, partition.partition.inputs, RNG(seed))
    (theirs,) = tflite_outputs(model, partition.partition, arrays)
    (ours,) = Executable(partition.program, "simulator").run(arrays)
    return ours, theirs


SHAPES = [(25089, 31), (25088, 32), (62720, 33), (23011, 101)]


@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
def test_per_channel_results_are_those_of_tflite(inputs, outputs):
    model = fully_connected_model(RNG(outputs), (1, inputs), outputs, arithmetic=PER_CHANNEL)
    ours, theirs = outputs_of(model)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("outputs", [1, 2])
def test_few_kernels_need_no_split(outputs):
    _, partition = compiled(fully_connected_model(RNG(1), (1, 62720), outputs))
    assert partition.tasks == 1


@pytest.mark.parametrize(("inputs", "tasks"), [(1280, 1), (12544, 63)])
def test_groups_are_for_layers_that_no_tile_fits(inputs, tasks):
    """Sixteen kernels of 12544 inputs fit, 63 times."""
    _, partition = compiled(fully_connected_model(RNG(2), (1, inputs), 1001))
    assert "input channels in" not in partition.layers[0].choice
    assert partition.tasks == tasks


@pytest.mark.parametrize("weight_zero_point", [0, 1, 128, 255])
def test_weights_beyond_int8_take_more_passes(weight_zero_point):
    """uint8 weights with their zero point taken off have 9 bits."""
    rng = RNG(weight_zero_point)
    arithmetic = Arithmetic(weight_zero_point=weight_zero_point)
    model = fully_connected_model(rng, (1, 25091), 35, DType.UINT8, arithmetic=arithmetic)
    ours, theirs = outputs_of(model)
    np.testing.assert_array_equal(ours, theirs)
    _, partition = compiled(model)
    groups = len(plan_input_groups(dense_geometry(25091, 35), 36)[0])
    # 255 is more than twice 127.
    passes = {0: 3, 1: 2, 128: 1, 255: 2}[weight_zero_point]
    assert partition.tasks == (groups - 1) * passes + 1


@pytest.mark.parametrize("kernel", ["rocket", "rknpu"])
@pytest.mark.parametrize("arithmetic", [Arithmetic(), PER_CHANNEL], ids=["tensor", "channel"])
def test_both_kernels(kernel, arithmetic):
    model = fully_connected_model(RNG(8), (2, 25089), 65, arithmetic=arithmetic)
    graph, partition = compiled(model)
    arrays = random_inputs(graph, partition.partition.inputs, RNG(1))
    expected = Executable(partition.program, "simulator").run(arrays)
    capture = capture_of_program(parse(partition.program), arrays, expected, "split")
    result = replay(capture, kernel=kernel)
    assert result.passed, result.error
    assert result.equal == 1.0


def test_sums_are_plain_and_the_last_pass_is_an_ordinary_task():
    _, _, lowered = lower_model(fully_connected_model(RNG(9), (1, 30011), 70, DType.UINT8))
    (layer,) = lowered.layers
    *sums, result = layer.tasks
    assert all(isinstance(task, ConvTask) for task in layer.tasks)
    for before, task in zip([None, *sums], sums, strict=False):
        assert task.output.element_bytes == 4
        assert task.output.target.buffer is BufferId.SCRATCH
        assert before is None or task.bs.operands == before.output.target
    assert result.bs.operands == sums[-1].output.target
    assert result.output.element_bytes == 1


def test_per_channel_multipliers_are_copied_beside_the_sums():
    _, _, lowered = lower_model(
        fully_connected_model(RNG(10), (1, 30011), 70, arithmetic=PER_CHANNEL)
    )
    copies = [t for t in lowered.layers[0].tasks if isinstance(t, ElementwiseTask)]
    assert len(copies) == 1
    assert copies[0].output.channels == 128 // 8 * 16
    assert copies[0].output.channels_real == 96 // 8 * 16


def test_sums_that_could_leave_int32_are_refused():
    """Each summand fits, the largest possible accumulator does not."""
    bias = np.full(40, 2**31 - 1 - 10**6, np.int32)
    arithmetic = Arithmetic(bias=bias, output_scale=1e6)
    graph = read_graph(fully_connected_model(RNG(11), (1, 25089), 40, arithmetic=arithmetic))
    (rejection,) = compile_model(graph, Options(numerics="exact")).rejections
    assert rejection.rule == "accumulator_fits_int32"
