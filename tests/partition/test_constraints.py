"""One case per rule: a node that obeys all but that one, and the value named in the message."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from delegate.lower.rules import FORM_IS_KNOWN
from delegate.model.graph import Activation, DType, Graph, Padding
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.ops.operator import Constraint, GraphFacts, constraint
from delegate.ops.pad import hides
from delegate.ops.shared.convolution import output_and_padding
from delegate.partition.partitioner import select_nodes
from delegate.partition.rules import check_node
from rk3588_conformance.builder import Arithmetic, Net
from tests.loops import for_each
from tests.partition.rule_cases import CASES
from tests.partition.rule_graphs import (
    X,
    addition,
    conv,
    cut,
    depthwise,
    fc,
    halves,
    joined,
    padding,
    per_tensor,
    product,
    product_of_two,
    with_input,
    with_node,
    with_options,
)


@for_each(
    "rule, number",
    [(rule, number) for rule, cases in CASES.items() for number in range(len(cases))],
)
def test_rule_rejects_with_the_value(rule: str, number: int) -> None:
    make, value = CASES[rule][number]
    supported, rejections = select_nodes(make())
    rejection = rejections[-1]
    assert rejection.node not in supported
    assert rejection.rule == rule
    assert value in rejection.detail
    assert "\n" not in rejection.detail


def test_every_rule_has_a_case() -> None:
    computed = [record.of_computed for record in OPERATORS.values() if record.computed]
    records = [*OPERATORS.values(), *computed]
    found = {rule.name for record in records for rule in record.rules}
    # Without evidence every form is known; tests/evidence and tests/chip have cases of it.
    assert found - {FORM_IS_KNOWN.name} == set(CASES)


BIASLESS = Arithmetic(has_bias=False)
EXTREMES: dict[str, Callable[[], Graph]] = {
    "conv": conv,
    "conv_uint8": lambda: conv(dtype=DType.UINT8),
    "conv_per_channel": lambda: conv(arithmetic=Arithmetic(per_channel=True)),
    "conv_without_bias": lambda: conv(arithmetic=BIASLESS),
    "conv_relu_n1_to_1": lambda: conv(arithmetic=Arithmetic(activation=Activation.RELU_N1_TO_1)),
    "conv_kernel_31": lambda: conv(h=40, w=40, kh=31, kw=31),
    "conv_strides_7": lambda: conv(sh=7, sw=7),
    "conv_dilation_32": lambda: conv(h=70, w=70, kh=2, kw=2, dh=32, dw=32, padding=Padding.VALID),
    "conv_padding_15": lambda: conv(h=40, w=40, kh=31, kw=3, dw=15),
    "conv_width_8192": lambda: conv(h=1, w=8192, ic=1, oc=1, kh=1, kw=1),
    "conv_channels": lambda: conv(h=1, w=1, ic=1, oc=8160, kh=1, kw=1),
    "conv_batch": lambda: conv(batch=3),
    "depthwise": depthwise,
    "depthwise_per_channel": lambda: depthwise(arithmetic=Arithmetic(per_channel=True)),
    "depthwise_channels": lambda: depthwise(h=1, w=1, c=8128, kh=1, kw=1),
    "fc": fc,
    "product": product,
    "product_of_a_transposed_matrix": lambda: product(matrix=(1, 5, 4), adj_y=True),
    "product_of_two": product_of_two,
    "product_of_two_with_the_lowest_zero_point": lambda: product_of_two(zero_point=-128),
    "product_with_zero_point": lambda: product((1, 7, 2, 5), zero_point=-11),
    "fc_per_channel": lambda: fc(arithmetic=Arithmetic(per_channel=True)),
    "fc_rank_4": lambda: fc((1, 2, 3, 4), 5, inputs=24, arithmetic=BIASLESS),
    "fc_keeps_dims": lambda: fc((2, 3, 4), 5, keep_num_dims=True),
    "fc_largest_of_the_grid": lambda: fc((1, 62720), 32),
    "add": addition,
    "add_same_tensor": lambda: addition(is_same_tensor=True),
    "add_uint8_rank_1": lambda: addition((7,), dtype=DType.UINT8),
    "add_large": lambda: addition((1, 8192, 3, 3)),
    "add_scalar_rank": lambda: addition(()),
    "add_constant": lambda: addition(is_constant=True),
    "add_per_channel": lambda: addition(other_shape=(1, 1, 1, 4)),
    "conv_groups": lambda: conv(ic=6, groups=2),
    "depthwise_multiplier": lambda: depthwise(multiplier=3),
    "concatenation": joined,
    "concatenation_of_one": lambda: joined(parts=(5,)),
    "concatenation_axis_from_the_end": lambda: joined(axis=-1),
    "slice": cut,
    "slice_of_all": lambda: cut((0, 0, 0, 0), (1, 3, 2, 32)),
    "slice_of_rows": lambda: cut((0, 1, 0, 0), (1, 2, 2, 17)),
    "strided_slice": lambda: cut(strided=True),
    "strided_slice_from_the_end": lambda: with_input(
        cut((0, 0, 0, 16), (1, 3, 2, 16), strided=True),
        1,
        constant=np.array([0, -3, 0, -16], np.int32),
    ),
    "strided_slice_begin_masked": lambda: with_options(
        cut((0, 0, 0, 0), (1, 3, 2, 16), strided=True), begin_mask=15
    ),
    "split": halves,
    "conv_any_batch": lambda: with_input(conv(), X, shape_signature=(-1, 9, 7, 5)),
}


@for_each("name", EXTREMES)
def test_nodes_at_the_limits_are_accepted(name: str) -> None:
    supported, rejections = select_nodes(EXTREMES[name]())
    assert rejections == ()
    assert supported == {0}


def test_other_operators_name_what_is_supported() -> None:
    b = Net()
    x = b.input("x", (1, 4), DType.INT8, per_tensor(1.0, 0))
    y = b.result("LOG_SOFTMAX", (x,), "y", (1, 4), per_tensor(1.0, 0), dtype=DType.INT8)
    _, (rejection,) = select_nodes(read_graph(b.build(y)))
    assert rejection.rule == "operator_supported"
    assert rejection.detail == (
        "The operator must be one that the NPU takes (command supported-ops): it is LOG_SOFTMAX"
    )


def test_nodes_of_another_delegate_say_so() -> None:
    graph = with_node(conv(), op="DELEGATE", options=None)
    _, (rejection,) = select_nodes(graph)
    assert rejection.rule == "not_taken_already"
    assert "BUILTIN_WITHOUT_DEFAULT_DELEGATES" in rejection.detail


@pytest.mark.parametrize("size", range(1, 24))
def test_output_and_padding_follow_the_documented_rule(size: int) -> None:
    """Against TensorFlow's documented formulas, computed by enumeration of kernel positions."""
    for kernel in (1, 2, 3, 5):
        for stride in (1, 2, 3):
            for dilation in (1, 2, 4):
                reach = (kernel - 1) * dilation + 1
                fits = len([p for p in range(0, size, stride) if p + reach <= size])
                assert output_and_padding(size, kernel, stride, dilation, Padding.VALID) == (
                    fits,
                    0,
                )
                rows, before = output_and_padding(size, kernel, stride, dilation, Padding.SAME)
                assert rows == len(range(0, size, stride))
                total = max((rows - 1) * stride + reach - size, 0)
                assert before == total // 2


def test_rule_without_docstring_still_has_a_sentence() -> None:
    """Under -OO there are no docstrings."""

    def rate_in_range(facts: object, node: object) -> str | None:
        return "9"

    made = constraint()(rate_in_range)
    assert isinstance(made, Constraint)
    assert made.sentence == "rate in range"


def test_a_rule_that_fails_costs_its_node_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def unforeseen(facts: object, node: object) -> str | None:
        raise IndexError("list index out of range")

    graph = conv()
    record = dataclasses.replace(OPERATORS["CONV_2D"], rules=(constraint()(unforeseen),))
    monkeypatch.setattr(GraphFacts, "operator", lambda facts, node: record)
    facts = GraphFacts(graph)
    rejection = check_node(facts, graph.nodes[0])
    assert rejection is not None
    assert rejection.rule == "partition_compiles"
    assert "rule unforeseen: IndexError: list index out of range" in rejection.detail


@pytest.mark.parametrize("inputs", [(2,), (2, -1, 4), (2, 4, 4)], ids=str)
def test_a_padded_convolution_without_a_kernel_pads_nothing(inputs: tuple[int, ...]) -> None:
    """PAD looks at its reader before the reader's own rules have."""
    graph = padding()
    reader = graph.nodes[1]
    named = {2: reader.inputs[0], 4: reader.inputs[2], -1: -1}
    changed = dataclasses.replace(reader, inputs=tuple(named[i] for i in inputs))
    graph = Graph(graph.tensors, (graph.nodes[0], changed), graph.inputs, graph.outputs)
    supported, rejections = select_nodes(graph)
    assert supported == {0}
    assert [rejection.node for rejection in rejections] == [1]
    assert not hides(GraphFacts(graph), graph.nodes[0])
