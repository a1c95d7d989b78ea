"""What the compiler does for a board that lacks a feature: no task uses it, reasons are given."""

from __future__ import annotations

import functools

import pytest

from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import compile_model
from delegate.insight.self_test_cases import CASES
from delegate.npu.features_used import features_of
from delegate.npu.program import parse
from delegate.options import Options

FEATURES = [feature.name for feature in RK3588.features]
"""Cases of the self-test use all of them together."""
FALLBACKS = {
    "kept_weights": "row tiles",
    "kept_table": "tables",
    "bn_multiplier": "conv 1x1",
    "ties_away": "conv 1x1",
    "bn_multiplier_per_channel": "per channel",
    "ew_product_behind_convolution": "per channel",
    "ew_product_per_channel": "per channel",
    "wide_ew_operand": "far scales",
    "bs_clamp": "joined",
    "ew_addition_behind_convolution": "joined",
    "table_behind_convolution": "joined",
    "table_elsewhere": "joined",
    "sum_behind_table": "joined",
}
"""Features that are replaced, and a case that stays on the NPU without them."""
GRAPHS = {case.name: case.build() for case in CASES}
# What is left of a case stays on the NPU however small it is.
OPTIONS = {
    case.name: Options.from_mapping(
        {"numerics": case.numerics, "float": case.float, "only_faster": "false"}, {}
    )
    for case in CASES
}


def whole(case: str):
    return compile_model(GRAPHS[case], OPTIONS[case])


def without(name: str, case: str):
    chip = RK3588.without({name: "failed: a test"})
    return compile_model(GRAPHS[case], OPTIONS[case], chip=chip)


def used(result) -> set[str]:
    programs = [parse(item.program) for item in result.partitions]
    return {use.feature.name for use in features_of(RK3588, programs)}


@functools.cache
def asked() -> set[str]:
    """What all cases use."""
    return set().union(*(used(whole(case)) for case in GRAPHS))


@pytest.mark.parametrize("name", FEATURES)
def test_no_program_uses_what_the_board_lacks(name: str):
    left = 0
    for case in GRAPHS:
        result = without(name, case)
        assert name not in used(result)
        rules = {rejection.rule for rejection in result.rejections}
        assert rules <= {"board_has_features", "alias_is_free"}  # a part alone needs no joining
        lacking = [item for item in result.rejections if item.rule == "board_has_features"]
        assert all("failed: a test" in item.detail for item in lacking)
        left += len(lacking)
    if name not in FALLBACKS and name in asked():
        assert left > 0


@pytest.mark.parametrize("name", FALLBACKS)
def test_what_can_be_replaced_stays_on_the_npu(name: str):
    case = FALLBACKS[name]
    assert name in used(whole(case))
    result = without(name, case)
    assert result.rejections == ()
    assert name not in used(result)


def test_rows_are_not_shared_among_cores_that_disturb_each_other():
    graph = GRAPHS["row tiles"]
    options = Options.from_mapping(
        {"numerics": "exact", "device": "null", "split_rows": "always", "cores": "all"}, {}
    )
    assert "several_cores" in used(compile_model(graph, options))
    result = compile_model(graph, options, chip=RK3588.without({"several_cores": "failed"}))
    assert result.rejections == ()
    assert "several_cores" not in used(result)
