"""Features of the hardware: every setting of every program has a name, and its rank a source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from delegate.chip.chips import every_chip
from delegate.chip.feature_page import feature_page, page_path
from delegate.chip.features import NONZERO, Rank, read_features
from delegate.chip.rk3588 import RK3588
from delegate.chip.rk3588_features import FEATURES
from delegate.compile.compiler import compile_model
from delegate.insight.self_test import CaseResult, feature_table
from delegate.insight.self_test_cases import CASES
from delegate.npu.features_used import features_of, task_values
from delegate.npu.program_reader import parse
from delegate.npu.program_types import Program
from delegate.options import Options
from tests.chip.feature_names import EVERYWHERE, check_names, unnamed_settings
from tests.generated.random_graphs import random_graph
from tests.shared_folder import model_files, whole_models

ROOT = Path(__file__).resolve().parents[2]
RANDOM_GRAPHS = 60
WITHOUT_CASE = {
    "several_cores": "the self-test runs on one core",
}
BY_NAME = {feature.name: feature for feature in FEATURES}


def programs(model: Path | bytes, **options: str) -> Iterator[Program]:
    for compiled in compile_model(model, Options.from_mapping(options)).partitions:
        yield parse(compiled.program)


def unnamed(model: Path | bytes, **options: str) -> set[str]:
    found: set[str] = set()
    for program in programs(model, **options):
        for values in task_values(program):
            found.update(unnamed_settings(values, FEATURES, EVERYWHERE))
    return found


def test_the_pages_are_not_stale():
    for chip in every_chip():
        path = page_path(chip)
        stale = f"{path} is stale: run python -m delegate.chip.feature_page"
        assert (ROOT / path).read_text(encoding="utf-8") == feature_page(chip), stale


def test_the_table_is_consistent():
    assert len(BY_NAME) == len(FEATURES)
    check_names(EVERYWHERE)
    for feature in FEATURES:
        assert feature.settings, feature.name
        check_names(feature.settings)
        assert feature.source, feature.name
        assert feature.without, feature.name


def test_wrong_names_are_noticed():
    for name in ("CNA.CONV_CON1.NO_FIELD", "CNA.CONV_CON1", "DPU.BS_CFG"):
        with pytest.raises(KeyError):
            check_names({name: NONZERO})


@pytest.mark.parametrize(
    "rows",
    [
        "name: meaning\n  vendor: source\n  CNA.CONV_CON1: DECONV=1",  # nothing without
        "name: meaning\n  rumour: source\n  without: less\n  CNA.CONV_CON1: DECONV=1",
        "name: meaning\n  without: less\n  CNA.CONV_CON1: DECONV=1",  # no rank
        "name: meaning\n  vendor: source\n  without: less\n  CNA.CONV_CON1: DECONV",
    ],
)
def test_a_feature_that_lacks_a_part_is_refused(rows):
    with pytest.raises((KeyError, TypeError, ValueError)):
        read_features(rows)


@pytest.mark.parametrize("seed", range(RANDOM_GRAPHS))
@pytest.mark.parametrize("numerics", ["exact", "fast"])
def test_random_programs_rest_on_named_features(seed, numerics):
    assert unnamed(random_graph(seed).content, numerics=numerics) == set()


@pytest.mark.parametrize("numerics", ["exact", "fast"])
def test_models_rest_on_named_features(numerics):
    models = whole_models()
    if numerics == "exact":
        models = [*models, *model_files("layers", "single_op")]
    found = {model.name: unnamed(model, numerics=numerics) for model in models}
    assert {name: modes for name, modes in found.items() if modes} == {}


def test_rows_on_several_cores_rest_on_named_features():
    model = next(model for model in whole_models() if "mobilenet_v1" in model.name)
    options = {"device": "null", "split_rows": "always", "cores": "0,1,2"}
    assert unnamed(model, **options) == set()
    used = {use.feature.name for use in features_of(RK3588, programs(model, **options))}
    assert "several_cores" in used


def test_a_setting_without_its_feature_has_no_name():
    """Each mode that only one used feature names is missed when this feature is taken away."""
    missed = set()
    for seed in range(RANDOM_GRAPHS):
        for program in programs(random_graph(seed).content):
            for values in task_values(program):
                for feature in FEATURES:
                    others = tuple(other for other in FEATURES if other is not feature)
                    if feature.is_used(values) and [*unnamed_settings(values, others, EVERYWHERE)]:
                        missed.add(feature.name)
    assert {"depthwise_convolution", "bn_multiplier_per_channel", "ties_away"} <= missed


def test_a_bit_that_nobody_knows_has_no_name():
    program = next(programs(random_graph(3).content))
    values = dict(next(iter(task_values(program))))
    assert not [*unnamed_settings(values, FEATURES, EVERYWHERE)]
    values["DPU.EW_CFG.EW_EQUAL_EN"] = 1
    assert [*unnamed_settings(values, FEATURES, EVERYWHERE)] == ["DPU.EW_CFG.EW_EQUAL_EN = 1"]


def test_tables_are_kept_by_those_behind_the_one_after_the_load():
    found = [program for model in whole_models() for program in programs(model)]
    used = {use.feature.name: use.tasks for use in features_of(RK3588, found)}
    if "table" not in used:
        pytest.skip("no whole model here has a function of one value")
    assert used["kept_table"] > 0
    assert used["table"] == used["table_load"] + used["kept_table"]


def test_the_self_test_asks_for_every_feature():
    asked: set[str] = set()
    for case in CASES:
        options = Options.from_mapping({"numerics": case.numerics, "float": case.float})
        compiled = compile_model(case.build(), options).partitions
        found = (parse(item.program) for item in compiled)
        asked.update(use.feature.name for use in features_of(RK3588, found))
    assert set(BY_NAME) - asked == set(WITHOUT_CASE)


def test_what_results_say_of_features():
    seconds, tasks = 0.0, 1
    results = [
        CaseResult("a", "", True, seconds, tasks, None, ("convolution", "summand")),
        CaseResult("b", "", False, seconds, tasks, "differs", ("convolution", "table")),
    ]
    rows = {row["name"]: row for row in feature_table(RK3588, results)}
    assert rows["convolution"]["here"] == rows["summand"]["here"] == "agreed"
    assert rows["convolution"]["cases"] == ["a", "b"]
    assert rows["table"]["here"] == "suspect"
    assert rows["several_cores"]["here"] == "not tried"


def test_ranks_are_ordered_by_evidence():
    assert [rank.text for rank in sorted(Rank)] == [
        "assumed",
        "documented",
        "measured by others",
        "in programs of the vendor's compiler",
        "run by a driver on silicon",
    ]
