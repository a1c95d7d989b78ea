"""The commands on the digits model: keys, tables, exit codes."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import delegate
from delegate import __version__
from delegate.cli import COMMANDS
from delegate.cli.table import WIDTH
from tests.cli.conftest import DIGITS, IMAGE, LABELS, MODEL, Run

DELEGATED, TOTAL, PARTITIONS = 12, 13, 1  # all but SOFTMAX
TWO_PARTITIONS = ("-O", "deny_ops=AVERAGE_POOL_2D")


def test_classify_json_has_exactly_the_keys_of_the_design(run: Run) -> None:
    outcome = run("classify", IMAGE, "--model", MODEL, "--labels", LABELS, "--json", "--top", 3)
    assert outcome.code == 0
    assert outcome.error_lines == []
    document = outcome.json
    top = document.pop("top")
    assert document == {
        "device": "simulator",
        "delegated_nodes": DELEGATED,
        "total_nodes": TOTAL,
        "partitions": PARTITIONS,
        "submits_per_invoke": PARTITIONS,
    }
    assert len(top) == 3
    assert set(top[0]) == {"index", "label", "score"}
    assert (top[0]["index"], top[0]["label"]) == (7, "7")
    assert top[0]["score"] >= top[1]["score"] >= top[2]["score"]


@pytest.mark.parametrize("digit", range(10))
def test_classify_recognises_the_held_out_digits(run: Run, digit: int) -> None:
    image = DIGITS / "images" / f"digit_{digit}.png"
    outcome = run("classify", image, "--model", MODEL, "--json", "--top", 1)
    assert outcome.json["top"][0]["index"] == digit
    assert outcome.json["top"][0]["label"] is None


def test_classify_table_says_device_nodes_partitions_and_submits(run: Run) -> None:
    out = run("classify", IMAGE, "--model", MODEL, "--labels", LABELS).out
    assert "device      simulator" in out
    assert f"delegated   {DELEGATED} of {TOTAL} nodes" in out
    assert f"partitions  {PARTITIONS}" in out
    assert f"submits     {PARTITIONS} per invoke" in out


def test_classify_on_null_says_that_scores_mean_nothing(run: Run) -> None:
    outcome = run("classify", IMAGE, "--model", MODEL, "--device", "null", "--json")
    assert outcome.json["device"] == "null"
    assert outcome.json["submits_per_invoke"] == PARTITIONS
    assert "mean nothing" in outcome.err


def test_options_reach_the_delegate(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run("classify", IMAGE, "--model", MODEL, "--json", "-O", "deny_ops=FULLY_CONNECTED")
    assert outcome.json["delegated_nodes"] == DELEGATED - 1
    assert outcome.json["partitions"] == 1
    monkeypatch.setenv("RK3588_DELEGATE_DENY_OPS", "ADD,FULLY_CONNECTED")
    outcome = run("classify", IMAGE, "--model", MODEL, "--json")
    assert outcome.json["delegated_nodes"] == DELEGATED - 2


def test_log_level_shows_why_nodes_stay_on_the_cpu(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    run("classify", IMAGE, "--model", MODEL, "-O", "log_level=warning")
    assert caplog.messages == []
    run("classify", IMAGE, "--model", MODEL, "-O", "log_level=debug")
    assert any("node 12 (SOFTMAX) stays on the CPU" in m for m in caplog.messages)


def test_compile_json_has_the_keys_of_the_design(run: Run) -> None:
    document = run("compile", MODEL, "--json").json
    assert set(document) == {
        "partitions", "rejections", "delegated_nodes", "total_nodes", "compile_seconds",
        "costs", "suggestions", "forms", "inference", "left_to_cpu", "causes", "best_change",
        "slower",
    }  # fmt: skip
    assert document["delegated_nodes"] == DELEGATED
    assert document["total_nodes"] == TOTAL
    assert len(document["partitions"]) == PARTITIONS
    first = document["partitions"][0]
    assert set(first) == {
        "nodes", "tasks", "estimate", "buffers_bytes", "buffers", "layers", "live_bytes",
        "fp16",
    }  # fmt: skip
    assert first["fp16"] is None
    assert first["nodes"] == list(range(DELEGATED))
    assert set(first["estimate"]) == {"npu_cycles", "ddr_cycles", "cycles", "bytes"}
    assert first["estimate"]["cycles"] >= first["estimate"]["npu_cycles"] > 0
    assert [r["op"] for r in document["rejections"]] == ["SOFTMAX"]
    assert set(document["rejections"][0]) == {"node", "op", "rule", "detail"}


def test_compile_says_who_has_run_its_forms(run: Run) -> None:
    auto = ("-O", "numerics=auto")
    document = run("compile", MODEL, "--json", *auto).json
    forms = document["forms"]
    assert sum(row["tasks"] for row in forms) == sum(p["tasks"] for p in document["partitions"])
    assert set(forms[0]) == {
        "form", "kind", "words", "tasks", "evidence", "ran", "sources", "unknown", "layers",
    }  # fmt: skip
    assert {row["evidence"] for row in forms} <= {"whole", "parts"}
    layers = {layer["name"] for part in document["partitions"] for layer in part["layers"]}
    assert {name for row in forms for name in row["layers"]} == layers
    few, many = (run("compile", MODEL, *auto, *more).out for more in ((), ("--evidence",)))
    assert "tasks have a form that others run on boards" in few
    assert forms[0]["form"] not in few
    assert "the vendor's compiler makes tasks of this form" in many
    assert all(row["form"] in many for row in forms)


def test_what_only_exact_results_need_is_told_by_name(run: Run) -> None:
    exact = run("compile", MODEL, "-O", "numerics=exact", "--json").json["forms"]
    unknown = [row for row in exact if row["evidence"] == "unknown"]
    assert unknown
    assert all(row["unknown"] for row in unknown)
    text = run("compile", MODEL, "-O", "numerics=exact", "--evidence").out
    assert "nobody has run some setting" in text
    assert unknown[0]["form"] in text


def test_headline_is_the_whole_inference(run: Run) -> None:
    """NPU, launches, submits, conversion and the CPU's nodes: all of it, and no less than any."""
    document = run("compile", MODEL, "-O", "deny_ops=ADD", "--json").json
    whole = document["inference"]
    parts = [whole[f"{n}_us"] for n in ("npu", "launches", "submits", "conversion", "cpu")]
    assert whole["total_us"] == pytest.approx(sum(parts))
    assert min(parts) > 0
    assert whole["frames_per_second"]["1"] == pytest.approx(1e6 / whole["total_us"])
    assert whole["frames_per_second"]["3"] <= 3 * whole["frames_per_second"]["1"] * 1.0001
    groups = document["left_to_cpu"]
    left = sorted(node for group in groups for node in group["nodes"])
    assert left == sorted(r["node"] for r in document["rejections"])
    assert sum(group["cpu_us"] for group in groups) == pytest.approx(whole["cpu_us"])
    best = document["suggestions"][0]
    assert 0 < best["at_most_us"] < whole["total_us"]
    text = run("compile", MODEL, "-O", "deny_ops=ADD").out
    least, most = (us / 1e3 for us in whole["range_us"])
    assert f"time         {least:.2f} to {most:.2f} ms per inference, modelled" in text
    assert "per second in the middle, with 1, 2, 3 interpreters" in text


def test_nodes_left_to_the_cpu_are_summed_up_by_rule(run: Run) -> None:
    options = ("-O", "deny_ops=CONV_2D,ADD")
    shown = run("compile", MODEL, *options, "--layers").out
    short = shown.split("left to the CPU, with")[1].splitlines()[2:]
    groups = run("compile", MODEL, *options, "--json").json["left_to_cpu"]
    rows = [line for line in short if line[:5].strip().isdigit()]
    counts: dict[str, int] = {}
    for group in groups:
        counts[group["rule"]] = counts.get(group["rule"], 0) + len(group["nodes"])
    assert {line.split()[3]: int(line.split()[0]) for line in rows} == counts
    assert len(rows) == len(counts) < len(groups)  # one rule of two operators is said once
    assert all(group["op"] in " ".join(short) for group in groups)
    listed = run("compile", MODEL, *options, "--nodes").out.split("left to the CPU:\n")[1]
    nodes = [line.split()[0] for line in listed.splitlines()[1:] if line[:4].strip().isdigit()]
    assert len(nodes) == sum(len(group["nodes"]) for group in groups) > 6


def test_tables_fit_the_terminal(run: Run) -> None:
    for command in (
        ("compile", MODEL, "--layers", "--evidence"),
        ("compare", MODEL, "--per-op"),
        ("supported-ops",),
    ):
        lines = run(*command).out.splitlines()
        assert lines
        assert [line for line in lines if len(line) > WIDTH and str(MODEL) not in line] == []


def test_dump_is_replayed_both_ways_and_disassembled(run: Run, tmp_path: Path) -> None:
    command = ("compile", MODEL, *TWO_PARTITIONS, "--dump", tmp_path / "d", "--image", IMAGE)
    assert run(*command).code == 0
    files = sorted((tmp_path / "d").iterdir())
    assert [f.name for f in files] == ["partition_0.npz", "partition_1.npz"]
    for order in ((), ("--chained",), ("--kicked",)):
        outcome = run("replay", *files, *order, "--json")
        assert outcome.code == 0
        captures = outcome.json["captures"]
        assert [set(c) for c in captures] == [
            {"name", "passed", "max_abs_diff", "equal", "error", "complaints"}
        ] * 2
        assert [c["passed"] for c in captures] == [True, True]
    text = run("disasm", files[0]).out
    assert "CNA.CONV_CON1" in text
    assert text.count("# job ") == sum(
        len(job["tasks"]) for job in json.loads(np.load(files[0])["manifest"].tobytes())["jobs"]
    )


def test_a_dump_of_the_other_chip_runs_on_a_simulator_of_it(run: Run, tmp_path: Path) -> None:
    command = ("compile", MODEL, *TWO_PARTITIONS, "--chip", "rk3576", "--dump", tmp_path)
    assert run(*command).code == 0
    files = sorted(tmp_path.iterdir())
    for order in ((), ("--chained",), ("--kernel", "rknpu")):
        captures = run("replay", *files, *order, "--json").json["captures"]
        assert [(c["passed"], c["complaints"]) for c in captures] == [(True, [])] * 2
    assert "CNA.CONV_CON1" in run("disasm", files[0]).out
    assert "word 0x" not in run("disasm", files[0]).out
    element = ("--element", "0,0,0")
    explained = run("explain", files[1], *element, "--json").json
    assert explained["traces"][-1]["output"] == explained["expected"]
    arrays = dict(np.load(files[0]))
    manifest = json.loads(arrays["manifest"].tobytes())
    assert manifest.pop("chip") == "rk3576"
    arrays["manifest"] = np.frombuffer(json.dumps(manifest).encode(), np.uint8)
    np.savez(tmp_path / "unnamed.npz", **arrays)
    (taken_for_rk3588,) = run("replay", tmp_path / "unnamed.npz", "--json").json["captures"]
    assert not taken_for_rk3588["passed"]


def test_dump_of_a_seed_is_the_same_every_time(run: Run, tmp_path: Path) -> None:
    contents = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run("compile", MODEL, "--dump", tmp_path / name, "--seed", seed).code == 0
        contents.append((tmp_path / name / "partition_0.npz").read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_replay_fails_where_an_expected_value_is_wrong(run: Run, tmp_path: Path) -> None:
    run("compile", MODEL, *TWO_PARTITIONS, "--dump", tmp_path)
    path = tmp_path / "partition_1.npz"
    arrays = dict(np.load(path))
    arrays["expected_0"] = arrays["expected_0"] ^ np.int8(0x40)
    np.savez(path, **arrays)
    outcome = run("replay", tmp_path / "partition_0.npz", path)
    assert outcome.code == 1
    assert "1 of 2 captures passed" in outcome.out
    assert "FAILED" in outcome.out


def test_replay_reports_unreadable_captures_beside_the_others(run: Run, tmp_path: Path) -> None:
    run("compile", MODEL, "--dump", tmp_path)
    outcome = run("replay", tmp_path / "partition_0.npz", LABELS, "--json")
    assert outcome.code == 2
    assert [c["passed"] for c in outcome.json["captures"]] == [True, False]
    assert len(outcome.error_lines) == 1


def test_disasm_and_assemble_are_inverse(run: Run, tmp_path: Path) -> None:
    words = (0x0201_0000_000E_4004, 0x0081_0000_001D_0008, 0)
    stream, text, again = tmp_path / "s", tmp_path / "t", tmp_path / "a"
    stream.write_bytes(struct.pack("<3Q", *words))
    text.write_text(run("disasm", stream).out)
    assert run("disasm", text, "--assemble", again).code == 0
    assert again.read_bytes() == stream.read_bytes()


def test_supported_ops_lists_rules(run: Run) -> None:
    operators = run("supported-ops", "--json").json["operators"]
    files = (Path(delegate.__file__).parent / "ops").glob("*.py")
    names = {path.stem.upper() for path in files} - {"__INIT__", "OPERATOR"}
    assert {o["op"] for o in operators} == names > {"CONV_2D", "ADD", "LOGISTIC"}
    assert all(rule["sentence"] for o in operators for rule in o["rules"])


def test_library_path_is_a_file(run: Run) -> None:
    text = run("library-path").out.strip()
    assert Path(text).is_file()
    assert run("library-path", "--json").json == {"library_path": text}


def test_version(run: Run) -> None:
    assert run("--version").out == f"rk3588-delegate {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_examples_and_json(run: Run, name: str) -> None:
    outcome = run(name, "--help")
    assert outcome.code == 0
    assert f"examples:\n  rk3588-delegate {name}" in outcome.out
    assert "--json" in outcome.out
    assert "--debug" in outcome.out


def test_classify_takes_folders_and_writes_csv(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "results.csv"
    folder = DIGITS / "images"
    outcome = run("classify", folder, IMAGE, "--model", MODEL, "--labels", LABELS, "--top", 2,
                  "--csv", table, "--json")  # fmt: skip
    assert outcome.code == 0
    images = outcome.json["images"]
    assert [entry["top"][0]["label"] for entry in images] == [*"0123456789", "7"]
    rows = [line.split(",") for line in table.read_text().splitlines()]
    assert rows[0] == ["image", "rank", "class", "label", "score"]
    assert len(rows) == 1 + 2 * len(images)
    assert [row[3] for row in rows[1::2]] == [*"0123456789", "7"]
    out = run("classify", folder, "--model", MODEL, "--top", 1).out
    assert "images      10" in out


@pytest.mark.skipif(Path("/dev/dri").exists(), reason="this machine may have an NPU")
def test_doctor_tells_a_missing_node_once(run: Run) -> None:
    """As a finding and as the verdict; that nothing can be tested there goes without saying."""
    done = run("doctor", "--device", "rknpu")
    assert done.code == 3
    assert done.out.count("no node of driver rknpu") == 2
    assert "self-test" not in done.out


def test_lines_of_doctor_fit_a_page(run: Run) -> None:
    for options in ((), ("--device", "rocket")):
        lines = run("doctor", "--no-self-test", *options).out.splitlines()
        assert max(len(line) for line in lines) <= WIDTH, lines
