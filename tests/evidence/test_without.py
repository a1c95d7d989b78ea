"""Tests what the compiler does for a board that must not be given something: no task has it."""

import pytest

from delegate._native import program_id
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import compile_model
from delegate.npu.evidence import KEPT_TABLE
from delegate.npu.program import parse
from delegate.options import Options
from rk3588_conformance.self_test_cases import CASES

GRAPHS = {case.name: case.build() for case in CASES}
# What is left of a case stays on the NPU however small it is.
OPTIONS = {
    case.name: Options.from_mapping(
        {"numerics": case.numerics, "float": case.float, "deny_ops": ""}, {}
    )
    for case in CASES
}


def whole(case: str):
    return compile_model(GRAPHS[case], OPTIONS[case])


def without(name: str, case: str):
    chip = RK3588.on_board({name: "failed: a test"})
    return compile_model(GRAPHS[case], OPTIONS[case], chip=chip)


def names(result) -> set[str]:
    """The forms of all tasks, and what they rely on."""
    return {
        name
        for item in result.partitions
        for task in parse(item.program).tasks
        for name in task.form.split()
    }


@pytest.mark.parametrize("case", GRAPHS)
def test_no_program_has_what_the_board_must_not_be_given(case: str):
    for name in sorted(names(whole(case))):
        result = without(name, case)
        assert name not in names(result)
        rules = {rejection.rule for rejection in result.rejections}
        # A part alone needs no joining.
        assert rules <= {"board_is_right", "alias_is_free"}
        lacking = [item for item in result.rejections if item.rule == "board_is_right"]
        assert all(f"{name} failed: a test" in item.detail for item in lacking)
        assert lacking or result.delegated_nodes == whole(case).delegated_nodes


def test_a_program_that_is_wrong_as_a_whole_leaves_its_nodes_to_the_cpu():
    result = whole("conv 1x1")
    (item,) = result.partitions
    name = program_id(item.program)
    result = without(name, "conv 1x1")
    assert result.partitions == ()
    assert {rejection.rule for rejection in result.rejections} == {"board_is_right"}


def test_tables_that_must_not_be_kept_are_loaded_by_every_task():
    assert KEPT_TABLE in names(whole("tables"))
    result = without(KEPT_TABLE, "tables")
    assert result.rejections == ()
    assert KEPT_TABLE not in names(result)
