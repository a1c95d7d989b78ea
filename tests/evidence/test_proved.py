"""Tests what a board's own proofs let programs have: what nobody else is known to have run."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.chip.chip import COMPUTED_WEIGHTS, PROVED, ZEROS, Chip, Form
from delegate.chip.known_forms import BOARD, known_forms_of, proved_state, rows_of
from delegate.chip.rk3576 import RK3576
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import CompileResult, compile_model
from delegate.model.graph import Graph
from delegate.model.tflite_reader import read_graph
from delegate.npu.evidence import OWN_TABLES, evidence_for, program_forms, proofs
from delegate.npu.program import parse
from delegate.npu.program_types import ProgramTask
from delegate.options import Options
from rk3588_conformance.self_test import run_case
from rk3588_conformance.self_test_cases import CASES
from tests.chip.test_second_chip import simulate
from tests.shared_folder import MODELS, needs_models

GRAPHS = {case.name: case.build() for case in CASES if case.numerics == "exact"}
AUTO = Options.from_mapping({"deny_ops": "NONE"}, {})
EXACT = Options.from_mapping({"deny_ops": "NONE", "numerics": "exact"}, {})


def proved_by(*cases: str) -> dict[str, str]:
    """Return what a board has shown that was right with ``cases``."""
    found: dict[str, str] = {}
    for case in cases:
        for item in compile_model(GRAPHS[case], EXACT).partitions:
            found |= proofs(RK3588, parse(item.program))
    return found


def rules(result: CompileResult) -> set[str]:
    return {rejection.rule for rejection in result.rejections}


def test_products_of_computed_matrices_are_one_part_once_a_board_has_proved_them():
    """Before, and where it failed, the host packs the weights between two parts."""
    shown = proved_by("computed product")
    assert {"computed-weights", "computed-summands"} < shown.keys()
    graph = GRAPHS["computed product"]
    (whole,) = compile_model(graph, AUTO, RK3588.on_board(shown)).partitions
    assert any(COMPUTED_WEIGHTS in task.form for task in parse(whole.program).tasks)
    for name in (name for name, state in shown.items() if state == PROVED):
        less = {other: state for other, state in shown.items() if other != name}
        for board in (less, {**shown, name: "failed: a test"}):
            result = compile_model(graph, AUTO, RK3588.on_board(board))
            parts, refused = (2, set()) if name == COMPUTED_WEIGHTS else (1, {"form_is_known"})
            assert (len(result.partitions), rules(result)) == (parts, refused)
    assert len(compile_model(graph, AUTO, RK3588).partitions) == 2


def tasks_of(chip: Chip, graph: Graph) -> list[ProgramTask]:
    (item,) = compile_model(graph, AUTO, chip).partitions
    return list(parse(item.program).tasks)


def test_tasks_load_their_own_tables_once_a_board_has_proved_them():
    """The same results of as many tasks less as there were loads; unless it fails later."""
    (case,) = (case for case in CASES if case.tries)
    graph, proved = case.build(), {OWN_TABLES: PROVED}
    before, after = tasks_of(RK3588, graph), tasks_of(RK3588.on_board(proved), graph)
    loads = sum(OWN_TABLES in task.form.split() for task in after)
    assert loads == 4
    assert len(before) == len(after) + loads
    failed = RK3588.on_board({OWN_TABLES: "failed: a test"})
    assert len(tasks_of(failed, graph)) == len(before)
    images = [np.random.default_rng(1).integers(-128, 128, (1, 31, 40, 64)).astype(np.int8)]
    ours, theirs = (
        simulate(compile_model(graph, AUTO, chip).partitions[0].program, images, RK3588)
        for chip in (RK3588, RK3588.on_board(proved))
    )
    np.testing.assert_array_equal(ours[0], theirs[0])


def test_a_bring_up_proves_own_tables():
    (case,) = (case for case in CASES if case.tries)
    result = run_case(case, Options(device="simulator"), RK3588)
    assert result.passed
    assert result.proofs[OWN_TABLES] == PROVED


def test_a_chip_without_a_table_of_forms_refuses_own_tables():
    board = replace(RK3576, proved={OWN_TABLES: PROVED})
    (case,) = (case for case in CASES if case.tries)
    assert "form_is_known" in rules(compile_model(case.build(), AUTO, board))


def test_proofs_say_what_is_not_known_without_them():
    known = known_forms_of(RK3588.target)
    assert known is not None
    for case in GRAPHS:
        for item in compile_model(GRAPHS[case], EXACT).partitions:
            program = parse(item.program)
            named = proofs(RK3588, program)
            for task in program_forms(program):
                assert (task.form.name in named) != bool(known.sources(task.form))


def test_a_proved_form_is_known_as_the_boards_own():
    shown = proved_by(*GRAPHS)
    states = tuple(state for state in shown.values() if state != PROVED)
    known, before = known_forms_of(RK3588.target, states), known_forms_of(RK3588.target)
    assert known is not None
    assert before is not None
    for case in GRAPHS:
        for item in compile_model(GRAPHS[case], EXACT).partitions:
            for task in program_forms(parse(item.program)):
                sources = {source.name for source in known.sources(task.form)}
                assert sources
                assert (BOARD in sources) != bool(before.sources(task.form))
                assert not known.unknown(task.form)


def test_what_others_saw_fail_stays_refused():
    bad = [row for row in rows_of(RK3588.target) if row.get("cause") == "settings"]
    assert bad
    for row in bad:
        settings = {name: value for name, value in row["settings"].items() if value not in ZEROS}
        form = Form(row["kind"], settings)
        known = known_forms_of(RK3588.target, (proved_state(form),))
        assert known is not None
        assert known.refusal(form)


def test_a_chip_whose_encoder_is_its_table_has_nothing_to_prove():
    (item,) = compile_model(GRAPHS["conv 1x1"], AUTO, RK3576).partitions
    assert proofs(RK3576, parse(item.program)) == {}
    board = RK3576.on_board({"conv-0": "proved conv A=1"})
    assert evidence_for(board, is_exact=False).known is None


@needs_models
@pytest.mark.parametrize("name", ["pt_vit_small96", "swin_block"])
def test_a_transformer_is_one_partition_on_a_board_that_has_passed_bring_up(name: str):
    """In LiteRT, whose FULLY_CONNECTED of rank 3 leaves no memory."""
    graph = replace(read_graph(MODELS / "graphs" / f"{name}.int8.tflite"), rounds_once=True)
    (_, *more) = compile_model(graph, AUTO, RK3588).partitions
    assert more
    result = compile_model(graph, AUTO, RK3588.on_board(proved_by(*GRAPHS)))
    assert len(result.partitions) == 1
    assert result.rejections == ()
