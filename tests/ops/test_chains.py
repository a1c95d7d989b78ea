"""Functions of several nodes: one table if nobody else reads between, and the kernels' bytes."""

import numpy as np
import pytest

from delegate.compile.compiler import CompileResult, compile_model
from delegate.lower.task import BufferId
from delegate.model.graph import Activation, DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mul import MulOptions
from delegate.ops.sub import SubOptions
from delegate.options import Options
from delegate.partition.aliases import smallest_partition
from rk3588_conformance.builder import Net, layers, options
from tests.loops import for_each
from tests.ops.function_oracle import RANGES, all_values, kernel_results, simulated, values

TYPES = tuple(RANGES)
SHAPES = ((1, 7, 5, 24), (2, 13, 3, 48), (1, 1, 1, 17), (1, 3, 11, 130))


def zero(dtype: DType) -> int:
    return RANGES[dtype][0] + 128


def start(dtype: DType, shape: tuple[int, ...] = SHAPES[0]) -> tuple[Net, int]:
    builder = Net("chain")
    quantization = Quantization((0.05,), (zero(dtype) - 7,))
    return builder, builder.input("input", shape, dtype, quantization)


def convolved(builder: Net, x: int, channels: int = 24) -> int:
    return builder.conv(x, channels, layers.Window(1, 1))


def scaled(builder: Net, x: int, factor: float = 1.0, shift: int = 0) -> Quantization:
    found = builder.spec(x).quantization
    assert found is not None
    low, high = RANGES[builder.spec(x).dtype]
    return Quantization((found.scale * factor,), (min(max(found.zero_point + shift, low), high),))


def bent(builder: Net, x: int, quantization: Quantization) -> int:
    """Add a function that is no line: a table gives it."""
    slope = options.of(LeakyReluOptions(0.25))
    return builder.function("LEAKY_RELU", (x,), quantization, slope)


def logistic(builder: Net, x: int) -> int:
    low = RANGES[builder.spec(x).dtype][0]
    return builder.function("LOGISTIC", (x,), Quantization((1 / 256,), (low,)))


def product(builder: Net, a: int, b: int, activation: Activation = Activation.NONE) -> int:
    return builder.function("MUL", (a, b), scaled(builder, a, 0.9, 4), MulOptions(activation))


def silu(builder: Net, x: int) -> int:
    return product(builder, x, logistic(builder, x))


def constant(builder: Net, dtype: DType, value: int, scale: float) -> int:
    kind = np.int8 if dtype is DType.INT8 else np.uint8
    values = np.array([value + zero(dtype)], kind)
    return builder.constant("constant", values, Quantization((scale,), (zero(dtype),)))


def run(model: bytes, seed: int = 0) -> CompileResult:
    """Compiles, runs on the simulator and compares with the reference kernels, all delegated."""
    result = compile_model(model, Options(numerics="exact"))
    tensor = result.graph.tensor(result.graph.inputs[0])
    given = values(np.random.default_rng(seed), tensor.shape, tensor.dtype)
    np.testing.assert_array_equal(simulated(model, given), kernel_results(model, given))
    return result


def table_layers(result: CompileResult) -> list[tuple[int, ...]]:
    layers_of = result.partitions[0].layers
    return [layer.nodes for layer in layers_of if getattr(layer.tasks[0], "table", None)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_silu_is_one_table(dtype: DType, shape: tuple[int, ...]) -> None:
    builder, x = start(dtype, shape)
    assert table_layers(run(builder.build(silu(builder, x)))) == [(0, 1)]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_hard_swish_of_four_nodes_is_one_table(dtype: DType) -> None:
    builder, x = start(dtype)
    three = constant(builder, dtype, 100, 0.03)
    shifted = builder.function("ADD", (x, three), scaled(builder, x, 1.1, -60), AddOptions())
    relu6 = builder.function("RELU6", (shifted,), scaled(builder, x, 0.8, -60))
    sixth = constant(builder, dtype, 85, 1 / 510)
    part = builder.function("MUL", (relu6, sixth), scaled(builder, x, 0.2), MulOptions())
    builder.output(product(builder, x, part, Activation.RELU6))
    assert table_layers(run(builder.build())) == [(0, 1, 2, 3)]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("other", ["itself", "constant"])
def test_additions_of_one_value_are_equal_for_all_its_values(dtype: DType, other: str) -> None:
    """Also if one lies between two results: no registers equal the kernels' roundings then."""
    rng = np.random.default_rng(7)
    low, high = RANGES[dtype]
    for _ in range(40):
        builder = Net("addition")
        scales = np.exp(rng.uniform(-6, 1, 2)).tolist()
        zeros = rng.integers(low, high + 1, 3).tolist()
        kind = np.int8 if dtype is DType.INT8 else np.uint8
        some, fixed = rng.integers(low, high + 1, 2).tolist()
        a = b = builder.input(
            "input", (1, 16, 16, 1), dtype, Quantization((scales[0],), (zeros[0],))
        )
        total = 2 * scales[0] * (some - zeros[0])
        if other == "constant":
            quantization = Quantization((scales[1],), (zeros[1],))
            b = builder.constant("constant", np.array([fixed], kind), quantization)
            total = total / 2 + scales[1] * (fixed - zeros[1])
        output_scale = max(abs(total), min(scales)) / (int(rng.integers(1, 128)) + 0.5)
        pair = (a, b) if rng.random() < 0.5 else (b, a)
        activation = list(Activation)[int(rng.integers(3))]
        y = builder.add(*pair, activation=activation, output_scale=output_scale,
            output_zero_point=zeros[2],
        )  # fmt: skip
        model = builder.build(y)
        every = all_values(dtype).reshape(1, 16, 16, 1)
        np.testing.assert_array_equal(simulated(model, every), kernel_results(model, every))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("swapped", [False, True])
def test_differences_and_prelu_of_constants(dtype: DType, swapped: bool) -> None:
    builder, x = start(dtype)
    operands = [x, constant(builder, dtype, 41, 0.02)]
    if swapped:
        operands.reverse()
    spec = builder.spec(x)
    y = builder.tensor("difference", spec.shape, dtype, scaled(builder, x, 1.3, 9))
    builder.operator("SUB", operands, (y,), SubOptions())
    slope = constant(builder, dtype, -77, 0.004)
    builder.output(builder.function("PRELU", (y, slope), scaled(builder, y, 1.2, -5)))
    assert table_layers(run(builder.build())) == [(0, 1)]


def test_values_that_others_read_exist() -> None:
    """The convolution reads the LOGISTIC, so it has a place; the product follows from it, too."""
    builder, x = start(DType.INT8)
    gate = logistic(builder, x)
    y = product(builder, x, gate)
    builder.output(builder.add(convolved(builder, gate), y))
    assert table_layers(run(builder.build())) == [(0,), (0, 1)]


def test_a_function_of_a_needed_value_starts_there() -> None:
    builder, x = start(DType.INT8)
    first = bent(builder, x, scaled(builder, x))
    tanh = builder.function("TANH", (first,), Quantization((1 / 128,), (0,)))
    builder.output(builder.add(convolved(builder, first), tanh))
    assert table_layers(run(builder.build())) == [(0,), (1,)]


def test_additions_of_two_values_stay_additions() -> None:
    builder, x = start(DType.INT8)
    first = bent(builder, x, scaled(builder, x))
    result = run(builder.build(builder.add(first, convolved(builder, x))))
    assert table_layers(result) == [(0,)]
    assert len(result.partitions[0].layers) == 3


def test_constants_of_many_values_make_no_function() -> None:
    builder, x = start(DType.INT8)
    first = bent(builder, x, scaled(builder, x))
    many = builder.constant("many", np.arange(24, dtype=np.int8), Quantization((0.02,), (0,)))
    y = builder.add(first, many)
    builder.output(bent(builder, y, scaled(builder, y)))
    assert table_layers(run(builder.build())) == [(0,), (2,)]


def test_products_of_two_values_have_tasks_of_their_own() -> None:
    builder, x = start(DType.INT8)
    y = product(builder, convolved(builder, x), x)
    result = run(builder.build(convolved(builder, y)))
    assert table_layers(result) == []
    assert len(result.partitions[0].layers) == 3


def test_a_node_alone_has_with_it_what_it_needs_to_be_a_function() -> None:
    builder, x = start(DType.INT8)
    gated = silu(builder, x)
    graph = read_graph(builder.build(product(builder, gated, convolved(builder, x))))
    alone = {node.op: smallest_partition(graph, node) for node in graph.nodes[:3]}
    assert [node.op for node in graph.nodes] == ["LOGISTIC", "MUL", "CONV_2D", "MUL"]
    assert alone["LOGISTIC"].nodes == (0,)
    assert (alone["MUL"].nodes, alone["MUL"].inputs) == ((0, 1), (x,))
    assert alone["CONV_2D"].nodes == (2,)
    of_two = smallest_partition(graph, graph.nodes[3])
    assert (of_two.nodes, set(of_two.inputs)) == ((3,), set(graph.nodes[3].inputs))


def test_a_product_whose_gate_is_denied_is_one_of_two_values() -> None:
    builder, x = start(DType.INT8)
    builder.output(convolved(builder, silu(builder, x)))
    result = compile_model(builder.build(), Options(deny_ops=("LOGISTIC",)))
    assert [(r.node, r.rule) for r in result.rejections] == [(0, "not_denied")]
    assert table_layers(result) == []


def test_a_product_that_is_clamped_at_minus_one_is_a_function_or_stays_on_the_cpu() -> None:
    builder, x = start(DType.INT8)
    gate = logistic(builder, x)
    y = product(builder, x, gate, Activation.RELU_N1_TO_1)
    builder.output(product(builder, y, convolved(builder, x), Activation.RELU_N1_TO_1))
    result = compile_model(builder.build(), Options(numerics="exact"))
    assert [(r.node, r.rule) for r in result.rejections] == [(3, "product_clamped_at_zero")]
    assert table_layers(result) == [(0, 1)]


@for_each("count", [1, 4, 5, 9])
def test_four_functions_share_a_load(count: int) -> None:
    builder, x = start(DType.UINT8)
    for number in range(count):
        slope = options.of(LeakyReluOptions((number + 1) / 16))
        x = convolved(builder, x)
        x = builder.function("LEAKY_RELU", (x,), scaled(builder, x), slope)
    result = run(builder.build(convolved(builder, x)))
    loads = -(-count // 4)
    assert result.partitions[0].tasks == 2 * count + 1 + loads


def test_the_same_function_is_loaded_once() -> None:
    builder, x = start(DType.INT8)
    quantization = scaled(builder, x)
    y = x
    for _ in range(6):
        y = bent(builder, y, quantization)
        z = convolved(builder, y)
        builder.output(z)
    result = compile_model(builder.build(), Options(numerics="exact"))
    tables = table_layers(result)
    assert result.partitions[0].tasks == 6 + len(tables) + 1


def test_tables_work_in_place_but_never_last() -> None:
    builder, x = start(DType.INT8)
    for _ in range(3):
        x = silu(builder, convolved(builder, x))
    result = run(builder.build(x))
    tasks = [t for layer in result.partitions[0].layers for t in layer.tasks]
    places = [(t.source, t.output.target) for t in tasks if getattr(t, "table", None)]
    assert [source == target for source, target in places] == [True, True, False]
    assert places[-1][1].buffer is BufferId.OUTPUT


def test_a_value_that_is_read_again_is_not_written_over() -> None:
    builder, x = start(DType.INT8)
    y = convolved(builder, x)
    run(builder.build(builder.add(silu(builder, y), convolved(builder, y))))
    builder, x = start(DType.INT8)
    y = convolved(builder, x)
    run(builder.build(builder.add(silu(builder, y), y)))


def test_every_job_loads_what_it_uses() -> None:
    builder, x = start(DType.INT8, (1, 64, 48, 24))
    for _ in range(3):
        x = silu(builder, builder.conv(x, 24, layers.Window(3, 3)))
    model = builder.build(convolved(builder, x))
    given = values(np.random.default_rng(5), (1, 64, 48, 24), DType.INT8)
    np.testing.assert_array_equal(simulated(model, given), kernel_results(model, given))


def test_a_long_chain_compiles_in_parts() -> None:
    builder, x = start(DType.INT8, (1, 2, 2, 3))
    quantization = scaled(builder, x)
    for _ in range(200):
        x = builder.function("RELU", (x,), quantization)
    assert len(run(builder.build(x)).partitions[0].layers) == 4
