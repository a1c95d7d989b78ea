"""Tests what the host converts at the edges of a partition: which nodes, and what is inside."""

import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.npu.program import parse
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.functions import edged_model

SHAPE = (1, 3, 5, 20)
INNER = DType.INT8, Quantization((0.5,), (3,))
SIGN_ONLY = DType.UINT8, Quantization((0.5,), (131,))
OTHER = DType.UINT8, Quantization((0.25,), (7,))
FLOAT = DType.FLOAT32, None


def edges_of(model: bytes):
    """Nodes with tasks, and the only program's tensors at its edges."""
    (compiled,) = compile_model(model, Options(numerics="exact")).partitions
    program = parse(compiled.program)
    nodes = [node for layer in program.layers for node in layer.nodes]
    return nodes, program.inputs, program.outputs


def test_float32_is_converted_by_the_host() -> None:
    nodes, (x,), (y,) = edges_of(edged_model(SHAPE, INNER, before=FLOAT, after=FLOAT))
    assert nodes == [1]
    for binding in (x, y):
        assert binding.element.dtype == "float32"
        assert (binding.affine.scale, binding.affine.zero_point) == (0.5, 3)


def test_a_sign_costs_nothing_and_another_scale_a_table_of_inputs() -> None:
    nodes, (x,), (y,) = edges_of(edged_model(SHAPE, INNER, before=SIGN_ONLY, after=SIGN_ONLY))
    assert nodes == [1]
    assert [(b.element.dtype.name, b.table, b.affine) for b in (x, y)] == [("uint8", b"", None)] * 2
    nodes, (x,), (y,) = edges_of(edged_model(SHAPE, INNER, before=OTHER, after=OTHER))
    assert nodes == [1, 2]  # the result's table has both functions in it
    assert (len(x.table), y.table) == (256, b"")


def test_a_quantize_alone_is_a_table_of_the_npu() -> None:
    nodes, (x,), _ = edges_of(edged_model(SHAPE, INNER, before=OTHER, body=lambda _, x: x))
    assert (nodes, x.table) == ([0], b"")


def rejected(model: bytes) -> dict[int, str]:
    options = Options.from_mapping({"numerics": "exact", "deny_ops": ""}, {})
    return {r.node: r.rule for r in compile_model(model, options).rejections}


@pytest.mark.parametrize(("before", "after"), [(FLOAT, None), (None, FLOAT), (FLOAT, FLOAT)])
def test_nothing_but_conversions_stays_on_the_cpu(before, after) -> None:
    model = edged_model(SHAPE, INNER, before=before, after=after, body=lambda _, x: x)
    assert set(rejected(model).values()) == {"host_converts"}


def test_float32_inside_a_partition_stays_on_the_cpu() -> None:
    b = Net()
    x = b.same_values(b.input("x", SHAPE, *INNER))
    real = b.tensor("real", SHAPE, *FLOAT)
    b.operator("DEQUANTIZE", (x,), (real,))
    again = b.function("QUANTIZE", (real,), INNER[1], dtype=DType.INT8)
    assert rejected(b.build(b.same_values(again))) == {1: "host_converts", 2: "host_converts"}


def test_an_input_that_two_nodes_read_is_converted_once_or_not() -> None:
    b = Net()
    x = b.input("x", SHAPE, *FLOAT)
    for scale in (0.5, 0.25):
        b.output(b.same_values(b.function("QUANTIZE", (x,), Quantization((scale,), (0,)),
                                         dtype=DType.INT8)))  # fmt: skip
    assert rejected(b.build()) == {0: "host_converts", 2: "host_converts"}


def test_a_result_may_be_read_as_it_is_and_as_float32() -> None:
    b = Net()
    x = b.same_values(b.input("x", SHAPE, *INNER))
    real = b.tensor("real", SHAPE, *FLOAT)
    b.operator("DEQUANTIZE", (x,), (real,))
    nodes, _, outputs = edges_of(b.build(x, real))
    assert nodes == [0]
    assert len({binding.location for binding in outputs}) == 1
    assert [binding.element.dtype.name for binding in outputs] == ["int8", "float32"]


def test_what_the_host_made_of_an_input_no_other_node_converts_back() -> None:
    b = Net()
    made = b.function("QUANTIZE", (b.input("x", SHAPE, *FLOAT),), INNER[1], dtype=INNER[0])
    back = b.function("QUANTIZE", (made,), SIGN_ONLY[1], dtype=SIGN_ONLY[0])
    nodes, _, (y, _) = edges_of(b.build(back, b.same_values(made)))
    assert nodes == [1, 2]
    assert y.element.dtype.name == "uint8"
    assert (y.table, y.affine) == (b"", None)


def test_the_host_converts_and_turns_round_what_a_task_could_not() -> None:
    """As PyTorch's exports begin and end: channels first, in float32, more pixels than tasks."""
    b = Net()
    x = b.input("x", (1, 3, 60, 50), *FLOAT)
    made = b.function("QUANTIZE", (x,), INNER[1], dtype=INNER[0])
    y = b.same_values(b.transpose(made, (0, 2, 3, 1)))
    real = b.tensor("real", (1, 3, 60, 50), *FLOAT)
    b.operator("DEQUANTIZE", (b.transpose(y, (0, 3, 1, 2)),), (real,))
    nodes, (first,), (last,) = edges_of(b.build(real))
    assert nodes == [2]
    for binding in (first, last):
        assert (binding.spread.pixel, binding.spread.channel) == (1, 3000)
        assert (binding.affine.scale, binding.affine.zero_point) == (0.5, 3)


def test_what_somebody_else_reads_in_between_is_not_turned_round_by_the_host() -> None:
    for is_read in (False, True):
        b = Net()
        x = b.input("x", (1, 3, 60, 50), *FLOAT)
        made = b.function("QUANTIZE", (x,), INNER[1], dtype=INNER[0])
        y = b.same_values(b.transpose(made, (0, 2, 3, 1)))
        ends = (y, b.same_values(made)) if is_read else (y,)
        assert ("order_possible" in rejected(b.build(*ends)).values()) is is_read
