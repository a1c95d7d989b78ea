"""Products of two computed matrices: weights made on the device are what the packing of constants
gives, byte for byte, and within a network results are as the runtime's from the same operands.
"""

from __future__ import annotations

import numpy as np
import pytest

from delegate.chip.element import Element
from delegate.chip.rk3588 import RK3588
from delegate.lower.half.weights import pack_dense_half
from delegate.lower.lowered import LoweredPartition, TensorBinding
from delegate.lower.lowering import lower_partition
from delegate.lower.task import ConvTask
from delegate.lower.weights import pack_dense
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.partition.half import in_half
from delegate.partition.workload import workload_of
from rk3588_conformance.builder import ModelBuilder
from rk3588_conformance.builder.layers import Arithmetic, fully_connected
from rk3588_conformance.builder.products import computed_product, covering
from rk3588_conformance.reference import batch_matmul
from rk3588_conformance.reference.arithmetic import Call
from tests.lower.reference import whole_graph
from tests.lower.test_aliases import run
from tests.machine.task_machine import Machine
from tests.machine.task_stages import TaskRun

SIZES = (
    (1, 1),
    (16, 16),
    (17, 31),
    (32, 32),
    (33, 49),
    (34, 96),
    (65, 130),
    (40, 200),
    (96, 512),
    (33, 1100),
)
"""Kernels and inputs."""
WAYS = pytest.mark.parametrize("adj_y", [False, True], ids=["turned", "copied"])
POINT = 7


def lowered_product(
    kernels: int, inputs: int, dtype: DType, *, adj_x: bool = False, adj_y: bool
) -> LoweredPartition:
    builder = ModelBuilder("product")
    output = None
    first, second = Quantization((0.5,), (0,)), Quantization((0.5,), (POINT,))
    if dtype is DType.INT8:
        output = covering(inputs, first, second)
    shapes = (
        (inputs, 3) if adj_x else (3, inputs),
        (kernels, inputs) if adj_y else (inputs, kernels),
    )
    x, y = (
        builder.input(name, shape, dtype, None if output is None else q)
        for name, shape, q in zip("xy", shapes, (first, second), strict=True)
    )
    builder.output(computed_product(builder, x, y, output, adj_x=adj_x, adj_y=adj_y))
    graph = in_half(read_graph(builder.build()), "fp16")
    return lower_partition(workload_of(graph, whole_graph(graph)), "product")


def last_task(lowered: LoweredPartition) -> ConvTask:
    task = lowered.layers[-1].tasks[-1]
    assert isinstance(task, ConvTask)
    return task


def weights_in(machine: Machine, task: ConvTask) -> bytes:
    first = task.weights.source.offset
    memory = machine._memory[task.weights.source.buffer]
    return memory[first : first + task.weights.total_bytes].tobytes()


@WAYS
@pytest.mark.parametrize(("kernels", "inputs"), SIZES)
def test_int8_weights_are_those_of_a_constant(kernels: int, inputs: int, adj_y: bool) -> None:
    rng = np.random.default_rng(kernels)
    matrix = rng.integers(-128, 128, (kernels, inputs)).astype(np.int8)
    x = rng.integers(-128, 128, (3, inputs)).astype(np.int8)
    lowered = lowered_product(kernels, inputs, DType.INT8, adj_y=adj_y)
    machine = Machine(lowered)
    machine.run([x, matrix if adj_y else matrix.T])
    found = weights_in(machine, last_task(lowered))
    assert found == pack_dense(matrix[:, None, None, :], POINT, RK3588.groups)


def write_half(machine: Machine, binding: TensorBinding, values: np.ndarray) -> None:
    """``values`` [pixels, channels]; spare lanes hold what would show."""
    pixels, channels = values.shape
    padded = np.full((pixels, -(-channels // 8) * 8), 77.0, np.float16)
    padded[:, :channels] = values
    for surface in range(padded.shape[1] // 8):
        content = padded[:, 8 * surface : 8 * surface + 8].tobytes()
        first = binding.location.offset + surface * binding.surface_stride_bytes
        memory = machine._memory[binding.location.buffer]
        memory[first : first + len(content)] = np.frombuffer(content, np.uint8)


@WAYS
@pytest.mark.parametrize(("kernels", "inputs"), SIZES)
def test_half_weights_are_those_of_a_constant(kernels: int, inputs: int, adj_y: bool) -> None:
    """Bytes are moved, so that NaN and infinities pass."""
    matrix = np.random.default_rng(inputs).integers(0, 1 << 16, (kernels, inputs)).astype("<u2")
    halves = matrix.view(np.float16)
    lowered = lowered_product(kernels, inputs, DType.FLOAT32, adj_y=adj_y)
    machine, task = Machine(lowered), last_task(lowered)
    write_half(machine, lowered.inputs[1], halves if adj_y else halves.T)
    for move in lowered.layers[-1].tasks:
        if move.element is Element.INT8:
            assert isinstance(move, ConvTask)
            TaskRun(machine, move).convolution(move)
    wanted = pack_dense_half(halves[:, None, None, :], -(-kernels // 8) * 8, RK3588.groups)
    assert weights_in(machine, task) == wanted


@pytest.mark.parametrize("points", [(0, 0, 0), (-128, 5, -9), (60, -40, 33)], ids=str)
@pytest.mark.parametrize(("rows", "width"), [(5, 16), (19, 33), (49, 40), (33, 64)])
def test_attention_in_one_partition(rows: int, width: int, points: tuple[int, ...]) -> None:
    """Operands that other tasks wrote, spare lanes and all: each product is that of the tensors
    which the delegate gives for its operands.
    """
    builder, rng = ModelBuilder("attention"), np.random.default_rng(rows)
    x = builder.input("x", (2, rows, width), DType.INT8, Quantization((0.05,), (-3,)))
    q, k, v = (
        fully_connected(
            builder,
            rng,
            x,
            outputs=width,
            keep_num_dims=True,
            name=name,
            arithmetic=Arithmetic(output_zero_point=point),
        )
        for name, point in zip("qkv", points, strict=True)
    )
    numbers = [builder.spec(t).quantization for t in (q, k, v)]
    scores = computed_product(builder, q, k, covering(width, *numbers[:2]), adj_y=True)
    between = builder.spec(scores).quantization
    result = computed_product(builder, scores, v, covering(rows, between, numbers[2]))
    for tensor in (q, k, v, scores, result):
        builder.output(tensor)
    model = builder.build()
    graph = read_graph(model)
    given = rng.integers(-128, 128, (2, rows, width)).astype(np.int8)
    found = dict(zip(graph.outputs, run(model, [given]), strict=True))
    products = [node for node in graph.nodes if node.op == "BATCH_MATMUL"]
    for node in products:
        wanted = np.clip(batch_matmul.reference(Call(graph, node, found)), -128, 127)
        assert np.abs(found[node.outputs[0]].astype(int) - wanted).max() <= 1
        assert len(np.unique(wanted)) > 20
