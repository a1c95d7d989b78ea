"""The runner speaks googletest: lists, filters, shards, reports, exit codes."""

import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from delegate.cli import main
from delegate.errors import UsageError
from delegate.options import Options
from rk3588_conformance.execution import run_case
from rk3588_conformance.families import case_names, find_case
from rk3588_conformance.gtest_filter import Filter, Shard, sampled, shuffled
from rk3588_conformance.outcome import Status
from rk3588_conformance.skips import FILE_ABSENT, OTHER_OPERATORS, judge, read_skips
from tests.shared_folder import MODELS, needs_models

TEFLON = frozenset(
    {"Conv2D.Op", "DepthwiseConv2D.Op", "Add.Op", "AddQuant.Op", "FullyConnected.Op", "Models.Op"}
)

SMALL = "Conv2D.Op/input_size_3_weight_size_1_*_channels_1_output_channels_*_is_signed_0"
ONE = (
    "Conv2D.Op/input_size_3_weight_size_1_input_channels_1_output_channels_32_stride_1_"
    "padding_same_0_is_signed_0"
)


@pytest.fixture(scope="module")
def names() -> list[str]:
    return list(case_names(None))


def run(*arguments: str) -> int:
    return main(["conformance", "--jobs", "1", "--device", "simulator", *arguments])


def test_the_grid_of_teflon_is_complete_under_its_names(names):
    unsigned = Counter(name.partition("/")[0] for name in names if name.endswith("is_signed_0"))
    assert unsigned == {
        "Conv2D.Op": 1800,
        "DepthwiseConv2D.Op": 200,
        "Add.Op": 1800,
        "FullyConnected.Op": 24,
    }
    assert sum(name.startswith("AddQuant.Op/") for name in names) == 100
    assert sum(name.startswith("Models.Op/") for name in names) == 286
    teflon = [name for name in names if name.split("/")[0] in TEFLON]
    assert len([name for name in teflon if not name.endswith("is_signed_1")]) == 4210
    assert ONE in names
    assert (
        "DepthwiseConv2D.Op/input_size_112_weight_size_5_channels_256_stride_2_padding_same_1_"
        "is_signed_0"
    ) in names
    for size in (128, 1280, 25088, 62720):
        assert f"FullyConnected.Op/input_size_{size}_output_channels_160_is_signed_0" in names
    for model in (
        "mobilenetv1_000", "mobilenetv1_030", "mobilenetv1_mobilenet_v1_1_224_quant",
        "mobiledet_123", "mobiledet_ssdlite_mobiledet_coco_qat_postprocess", "yolox_127",
        "yolox_yolox",
    ):  # fmt: skip
        assert f"Models.Op/{model}" in names


def test_names_without_a_file_are_skipped_and_say_so():
    for name in ("Models.Op/yolox_127", "Models.Op/yolox_yolox"):
        outcome = run_case(name, None, Options.from_mapping({"numerics": "exact"}, {}))
        assert (outcome.status, outcome.rules) == (Status.SKIPPED, (FILE_ABSENT,))
        assert judge(outcome, read_skips()) == outcome
    with pytest.raises(UsageError):
        find_case("Models.Op/yolox_128", None)
    with pytest.raises(UsageError):
        find_case("Models.Op/mobilenetv1_31", None)


@needs_models
@pytest.mark.parametrize(
    ("name", "status", "rules"),
    [
        ("Models.Op/mobilenetv1_000", Status.OK, ()),
        ("Models.Op/mobiledet_008", Status.OK, ()),
        ("Models.Op/yolox_124", Status.OK, ()),
        ("Models.Op/mobilenetv1_029", Status.SKIPPED, ("alias_is_free",)),
        ("Models.Op/mobilenetv1_030", Status.SKIPPED, (OTHER_OPERATORS,)),
    ],
)
def test_names_of_teflon_run_the_public_files(name, status, rules):
    outcome = run_case(
        name, MODELS, Options.from_mapping({"numerics": "exact", "device": "simulator"}, {})
    )
    assert (outcome.status, outcome.rules) == (status, rules), outcome.message
    assert outcome.max_abs_diff == 0
    assert judge(outcome, read_skips()) == outcome


def test_names_are_unique_and_what_gtest_takes(names):
    assert len(names) > 10_000
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+/[A-Za-z0-9_]+", name) for name in names)


def test_the_list_has_suites_and_indented_tests(capsys):
    assert run("--gtest_list_tests", "--gtest_filter=AddQuant.Op/?:FullyConnected.*_160_*") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "AddQuant."
    assert lines[1:11] == [f"  Op/{i}" for i in range(10)]
    assert lines[11] == "FullyConnected."
    assert all(line.startswith("  ") for line in lines[12:])


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("*", "abcd"),
        ("", "abcd"),
        ("A.a/1", "a"),
        ("A.*", "ab"),
        ("A.?/1:B.*", "abcd"),
        ("A.*-A.b/*", "a"),
        ("-A.*", "cd"),
        ("-A.a*:*.d*", "bc"),
        ("A.a", ""),
        ("a.a/1", ""),
    ],
)
def test_filters_select_as_googletest_does(text, selected):
    tests = {"A.a/1": "a", "A.b/1": "b", "B.c/1": "c", "B.d/1": "d"}
    chosen = Filter.parse(text)
    assert "".join(key for name, key in tests.items() if chosen.selects(name)) == selected


def test_shards_cover_every_test_once(tmp_path):
    tests = [f"A.a/{i}" for i in range(11)]
    status = tmp_path / "status"
    taken = []
    for index in range(3):
        environment = {
            "GTEST_TOTAL_SHARDS": "3",
            "GTEST_SHARD_INDEX": str(index),
            "GTEST_SHARD_STATUS_FILE": str(status),
        }
        taken.append(list(Shard.from_environment(environment).takes(tests)))
    assert status.exists()
    assert sorted(itertools.chain(*taken)) == sorted(tests)
    assert taken[1] == tests[1::3]


@pytest.mark.parametrize(("index", "total"), [("3", "3"), ("-1", "2"), ("x", "2"), ("0", "")])
def test_senseless_shards_are_refused(index, total):
    with pytest.raises(UsageError):
        Shard.from_environment({"GTEST_SHARD_INDEX": index, "GTEST_TOTAL_SHARDS": total})


def test_a_shuffle_keeps_suites_together_and_depends_on_the_seed_alone(names):
    some = names[::50]
    once = shuffled(some, 7)
    assert once == shuffled(some, 7) != shuffled(some, 8)
    assert sorted(once) == sorted(some)
    suites = [name.partition(".")[0] for name in once]
    changes = sum(a != b for a, b in itertools.pairwise(suites))
    assert changes == len(set(suites)) - 1


def test_a_sample_has_every_family(names):
    sample = sampled(names, 300, 4)
    assert len(sample) == 300
    assert sample == sampled(names, 300, 4) != sampled(names, 300, 5)
    families = {name.partition("/")[0] for name in names}
    assert {name.partition("/")[0] for name in sample} == families
    assert len(sampled(names, 1, 0)) == len(families)


def test_output_and_reports_of_a_passing_run(capsys, tmp_path):
    report = tmp_path / "new" / "report.json"
    assert run(f"--gtest_filter={SMALL}", f"--gtest_output=json:{report}") == 0
    out = capsys.readouterr().out
    count = 6 * 2 * 2
    assert f"Note: Google Test filter = {SMALL}\n" in out
    assert f"[==========] Running {count} tests from 1 test suite.\n" in out
    assert "[----------] Global test environment set-up.\n" in out
    assert f"[----------] {count} tests from Conv2D\n[ RUN      ] Conv2D.Op/" in out
    assert re.search(rf"\[ RUN      \] {ONE}\n\[       OK \] {ONE} \(\d+ ms\)\n", out)
    assert re.search(rf"\[----------\] {count} tests from Conv2D \(\d+ ms total\)\n\n", out)
    assert re.search(rf"\[==========\] {count} tests from 1 test suite ran\. \(\d+ ms total\)", out)
    assert f"[  PASSED  ] {count} tests.\n" in out
    assert "FAILED" not in out

    document = json.loads(report.read_text())
    assert (document["tests"], document["failures"], document["name"]) == (count, 0, "AllTests")
    (suite,) = document["testsuites"]
    assert (suite["name"], suite["tests"], len(suite["testsuite"])) == ("Conv2D", count, count)
    case = next(c for c in suite["testsuite"] if f"Conv2D.{c['name']}" == ONE)
    assert case["result"] == "COMPLETED"
    assert re.fullmatch(r"[\d.]+s", case["time"])
    assert (case["oracle"], case["elements"], case["max_abs_diff"]) == ("tflite-reference", 288, 0)
    assert (case["delegated_nodes"], case["total_nodes"], case["submits"]) == (1, 1, 1)


def test_a_skip_is_reported_with_its_rule(capsys, tmp_path):
    report = tmp_path / "report.xml"
    name = "ConvDilation.Op/dilation_9x8_kernel_2x5_stride_1x1_padding_same_type_int8"
    assert run(f"--gtest_filter={name}", f"--gtest_output=xml:{report}") == 0
    out = capsys.readouterr().out
    assert "padding_in_range" in out
    assert re.search(rf"\[  SKIPPED \] {name} \(\d+ ms\)\n", out)
    assert f"[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] {name}\n" in out
    (suite,) = ElementTree.parse(report).getroot()
    assert (suite.tag, suite.get("name"), suite.get("failures")) == (
        "testsuite",
        "ConvDilation",
        "0",
    )
    (case,) = suite
    assert (case.tag, case.get("status"), case.get("result")) == ("testcase", "run", "skipped")
    assert "padding_in_range" in case.find("skipped").get("message")


def test_a_device_that_computes_nothing_fails_every_case(capsys, tmp_path):
    report = tmp_path / "report.xml"
    arguments = ["--device", "null", f"--gtest_filter={SMALL}", f"--gtest_output=xml:{report}"]
    assert main(["conformance", "--jobs", "1", *arguments]) == 1
    out = capsys.readouterr().out
    assert re.search(r"\n[1-9]\d* FAILED TESTS?\n$", out)
    assert "elements are off by more than 1" in out
    root = ElementTree.parse(report).getroot()
    assert int(root.get("failures")) == len(root.findall(".//failure")) > 0
    fast = main(["conformance", "--jobs", "1", *arguments, "--gtest_fail_fast"])
    assert fast == 1
    assert capsys.readouterr().out.count("[ RUN      ]") < out.count("[ RUN      ]")


def test_repeating_and_shuffling(capsys):
    arguments = [f"--gtest_filter={ONE}", "--gtest_repeat=2", "--gtest_shuffle"]
    assert run(*arguments, "--gtest_random_seed=5", "--gtest_also_run_disabled_tests") == 0
    out = capsys.readouterr().out
    assert "Repeating all tests (iteration 1) . . .\n" in out
    assert "Note: Randomizing tests' orders with a seed of 5 .\n" in out
    assert "Note: Randomizing tests' orders with a seed of 6 .\n" in out


def test_no_test_is_no_failure(capsys):
    assert run("--gtest_filter=Nothing.*") == 0
    assert "[==========] Running 0 tests from 0 test suites.\n" in capsys.readouterr().out


@pytest.mark.parametrize("argument", ["--gtest_output=yaml:x", "--gtest_shuffle=2", "--jobs=0"])
def test_senseless_arguments_are_usage_errors(argument, capsys):
    try:
        code = run("--gtest_filter=Nothing", argument)
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_verbose_shows_the_way_of_an_element(capsys):
    assert run("--verbose", f"--gtest_filter={ONE}", "--device", "null") == 1
    out = capsys.readouterr().out
    assert re.search(r"elements differ; the first by more than 1 at \[0, 0, 0, \d+\]", out)
    for stage in ("CORE", "BS", "BN", "OUT_CVT"):
        assert re.search(rf"^ +{stage}\.\w+ +-?\d+$", out, re.MULTILINE), stage


def test_filter_and_shards_of_the_environment_reach_processes(tmp_path):
    environment = {
        "PATH": "/usr/bin:/bin",
        "GTEST_FILTER": "AddQuant.Op/1?",
        "GTEST_TOTAL_SHARDS": "2",
        "GTEST_SHARD_INDEX": "1",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }
    command = [sys.executable, "-m", "delegate", "conformance", "--jobs", "2"]
    result = subprocess.run(
        [*command, "--device", "simulator"], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Note: This is test shard 2 of 2." in result.stdout
    assert re.findall(r"\[       OK \] (\S+)", result.stdout) == [
        f"AddQuant.Op/{i}" for i in (11, 13, 15, 17, 19)
    ]


def test_the_suite_runs_for_the_other_chip(capsys):
    """A case that its rules reject is a skip; a graph of which a part runs is compared."""
    assert run("--sample", "40", "--seed", "3", "--option", "chip=rk3576", "--json") == 0
    families = json.loads(capsys.readouterr().out)["families"].values()
    assert sum(family["failed"] for family in families) == 0
    assert sum(family["passed"] for family in families) > 0
    assert sum(family["skipped"] for family in families) > 0


@needs_models
def test_nodes_that_run_beside_neighbours_only_are_left_out_for_the_other_chip(capsys):
    """A QUANTIZE at a model's edge is the host's there, and has no task that is known."""
    name = "Models.PerOperator/yolo_lc_256_person_int8"
    assert run("--gtest_filter=" + name, "--option", "chip=rk3576", "--json") == 0
    (family,) = json.loads(capsys.readouterr().out)["families"].values()
    assert family["failed"] == 0
    assert family["elements"] > 0
