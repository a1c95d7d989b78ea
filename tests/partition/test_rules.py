"""Rules that show while partitions are made and lowered: each is on the page, each has a test."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import delegate.compile.compiler
from delegate.compile.compiler import compile_model
from delegate.errors import EncodingError, LoweringError, UnknownFormError
from delegate.lower.rules import RULES as LOWERING_RULES
from delegate.model.graph import DType, Graph, Partition, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.options import Options
from delegate.partition.rules import RULES as PARTITION_RULES
from delegate.partition.workload import workload_of
from rk3588_conformance.builder import Arithmetic, Net, fully_connected_model
from tests.partition.rule_graphs import padding
from tools.generate.operators import common_rules, page, sentence_of

TESTS = Path(__file__).parents[1]
SCALING = Quantization((0.5,), (3,))


@pytest.mark.parametrize("rule", [*LOWERING_RULES, *PARTITION_RULES], ids=lambda rule: rule.name)
def test_a_rule_is_on_the_page_and_in_a_test(rule) -> None:
    assert f"| `{rule.name}` | {sentence_of(rule)}. |" in page()
    asserted = [f'"{rule.name}"', rule.name.upper() + ".name"]
    found = [
        path
        for path in TESTS.rglob("test_*.py")
        if any(text in path.read_text(encoding="utf-8") for text in asserted)
    ]
    assert found, "no test asserts it"


def dense(shape: tuple[int, ...], columns: int) -> Graph:
    """FULLY_CONNECTED of a feature map with ``columns`` columns."""
    b = Net()
    x = b.input("x", shape, DType.INT8, SCALING)
    b.output(b.fully_connected(x, outputs=3, inputs=columns))
    return read_graph(b.build())


@pytest.mark.parametrize(
    ("graph", "rule", "detail"),
    [
        (dense((1, 4, 6, 5), 15), "rows_match_pixels", "they have 15 columns"),
        (dense((1, 40, 2, 3), 240), "kernel_size_in_range", "it is 40 x 2, the limit 31"),
    ],
)
def test_fully_connected_nodes_read_pixels_or_images(graph: Graph, rule: str, detail: str) -> None:
    (rejection,) = compile_model(graph, Options(numerics="exact")).rejections
    assert rejection.rule == rule
    assert detail in rejection.detail


def test_rows_that_the_first_kernel_leaves_out_are_computed() -> None:
    """Within its memory, or by kernels that came later, whatever the dimensions."""
    kept = {"keep_num_dims": True, "arithmetic": Arithmetic(per_channel=True)}
    rng = np.random.default_rng(0)
    inside = read_graph(fully_connected_model(rng, (1, 5, 12), 5, **kept))
    assert compile_model(inside, Options()).rejections == ()
    beyond = read_graph(fully_connected_model(rng, (1, 6, 12), 5, **kept))
    (rejection,) = compile_model(beyond, Options()).rejections
    assert rejection.rule == "kernel_stays_inside"
    later = dataclasses.replace(beyond, rounds_once=True)
    assert compile_model(later, Options()).rejections == ()


def test_results_are_read() -> None:
    graph = padding()
    with pytest.raises(LoweringError) as caught:
        workload_of(graph, Partition((0, 1), graph.inputs, ()))
    assert caught.value.rule == "result_used"


@pytest.mark.parametrize(
    ("error", "rule"),
    [
        (EncodingError("a field is too small", (1,)), "registers_hold_values"),
        (UnknownFormError("a stage in no known program", (1,)), "form_is_known"),
        (ZeroDivisionError("a mistake of ours"), "partition_compiles"),
    ],
)
def test_what_the_compiler_does_not_foresee_costs_nodes(monkeypatch, error, rule: str) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(delegate.compile.compiler, "build_program", fails)
    result = compile_model(padding(), Options(numerics="exact"))
    assert not result.partitions
    assert rule in {rejection.rule for rejection in result.rejections}
    assert dataclasses.asdict(result.rejections[0])["detail"]


def test_page_has_every_rule_of_every_operator() -> None:
    text = page()
    common = text.split("## All operators")[1].split("\n## ")[0]
    for op, operator in OPERATORS.items():
        section = text.split(f"## `{op}`")[1].split("\n## ")[0]
        for rule in operator.rules:
            assert f"`{rule.name}`" in (common if rule in common_rules() else section)


def test_sentences_are_sentences() -> None:
    for operator in OPERATORS.values():
        names = [rule.name for rule in operator.rules]
        assert len(set(names)) == len(names)
        for rule in operator.rules:
            assert "{" not in sentence_of(rule)
            assert not sentence_of(rule).endswith(".")
            assert len(sentence_of(rule)) < 130
