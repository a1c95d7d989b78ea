"""bench and trace on the digits model: keys, sums, and that modelled numbers are called so."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from delegate.chip.chips import DEFAULT
from delegate.cli.table import WIDTH
from tests.cli.conftest import MODEL, Run

PARTITIONS = 1


def measure(run: Run, *more: object) -> Any:
    outcome = run("bench", MODEL, "--runs", 4, "--warmup", 1, *more, "--json")
    assert outcome.code == 0, outcome
    return outcome.json


def test_bench_tells_phases_partitions_and_cpu_operators(run: Run) -> None:
    document = measure(run)
    ours = document["delegate"]
    assert ours["device"] == "simulator"
    assert ours["is_simulated"] is True
    assert ours["steady"]["count"] == document["cpu"]["steady"]["count"] == 4
    steady = ours["steady"]
    assert steady["min_ms"] <= steady["p50_ms"] <= steady["p95_ms"] <= steady["max_ms"]
    assert sum(ours["phases"].values()) == pytest.approx(steady["mean_ms"], rel=1e-6)
    assert [p["nodes"][0] for p in ours["partitions"]] == [0]
    for part in ours["partitions"]:
        times = part["measured"]
        assert times["submit_ms"] is None  # the simulator does not tell submit from wait
        parts = [times[f"{p}_ms"] for p in ("input_conversion", "device", "output_conversion")]
        assert sum(parts) == pytest.approx(times["total_ms"])
        assert part["estimate"]["cycles"] > 0
    names = {op for gap in ours["cpu_nodes"] for op in gap["ops"]}
    assert names == {"SOFTMAX"}


def test_a_simulated_measurement_claims_no_speed_up(run: Run) -> None:
    document = measure(run)
    assert "speedup" not in document
    assert document["threads"] == 1
    ratio = document["delegate"]["steady"]["p50_ms"] / document["cpu"]["steady"]["p50_ms"]
    assert document["simulator_ratio"] == pytest.approx(ratio)
    outcome = run("bench", MODEL, "--runs", 2)
    assert "speed-up" not in outcome.out
    assert re.search(r"^simulator +takes \d+\.\d\d times as long as", outcome.out, re.MULTILINE)
    assert "say nothing about an NPU" in outcome.err


def test_a_null_device_has_no_speed_up_and_says_that_it_computes_nothing(run: Run) -> None:
    command = ("bench", MODEL, "--runs", 2, "--warmup", 0, "--device", "null")
    document = run(*command, "--json").json
    assert "speedup" not in document
    assert "simulator_ratio" not in document
    outcome = run(*command)
    assert "speed-up" not in outcome.out
    assert "null computes nothing" in outcome.err
    estimate = document["delegate"]["inference_estimate"]
    least, most = (us / 1e3 for us in estimate["range_us"])
    assert f"{least:.2f} to {most:.2f} ms per inference on the chip" in outcome.out


def test_bench_tells_the_memory_of_both_sides(run: Run) -> None:
    memory = measure(run)["memory"]
    assert memory["model_bytes"] == MODEL.stat().st_size
    assert memory["limit_bytes"] == memory["model_bytes"] + 64_000_000
    for side in (memory["delegate"], memory["cpu"]):
        # A process may give memory back between the two.
        for moment in ("start_bytes", "end_bytes"):
            assert 5_000_000 < side[moment] <= side["peak_bytes"]
    assert "MB at most" in run("bench", MODEL, "--runs", 2).out


def test_bench_without_cpu_and_on_null(run: Run) -> None:
    document = measure(run, "--no-cpu", "--device", "null", "--threads", 1)
    assert document["cpu"] is None
    assert document["threads"] == 1
    assert document["delegate"]["device"] == "null"
    assert document["delegate"]["is_simulated"] is False


def test_tables_fit_a_page(run: Run) -> None:
    outcome = run("bench", MODEL, "--runs", 2)
    assert outcome.code == 0
    assert max(len(line) for line in outcome.out.splitlines()) <= WIDTH


def test_saved_measurements_are_compared(run: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    run("bench", MODEL, "--runs", 2, "--save", first)
    document = json.loads(first.read_text())
    document["delegate"]["init_ms"] *= 2
    second.write_text(json.dumps(document))
    outcome = run("bench", "--compare", first, second)
    assert outcome.code == 0
    assert re.search(r"^init .* \+100\.0 %$", outcome.out, re.MULTILINE)
    ratios = {q["name"]: q["ratio"] for q in run("bench", "--compare", first, second,
                                                 "--json").json["quantities"]}  # fmt: skip
    assert ratios["init"] == pytest.approx(2.0)
    assert ratios["first"] == pytest.approx(1.0)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "rk3588-bench-1"}', "\0\0"])
def test_bad_measurements_are_refused(run: Run, tmp_path: Path, text: str) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(text)
    run("bench", "--compare", bad, bad).assert_refused()


def test_bench_wants_a_model_or_two_files(run: Run) -> None:
    run("bench").assert_refused("MODEL")
    run("bench", MODEL, "--compare", MODEL, MODEL).assert_refused("MODEL")


def spans_nest(spans: list[dict[str, Any]]) -> bool:
    """Spans of one track either lie apart or one inside the other."""
    ends: list[float] = []
    for span in sorted(spans, key=lambda s: (s["ts"], -s["dur"])):
        slack = 1e-6 * (1 + span["ts"])
        while ends and ends[-1] <= span["ts"] + slack:
            ends.pop()
        if ends and span["ts"] + span["dur"] > ends[-1] + slack:
            return False
        ends.append(span["ts"] + span["dur"])
    return True


def test_trace_holds_what_it_promises(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "t.json"
    outcome = run("trace", MODEL, "-o", target, "--runs", 2, "--json")
    assert outcome.code == 0, outcome
    assert outcome.json["npu_times"] == "modelled"
    document = json.loads(target.read_text())
    events = document["traceEvents"]
    assert outcome.json["events"] == len(events)
    assert document["otherData"]["npu_times"] == "modelled"
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sum(name.startswith("core ") for name in names.values()) == DEFAULT.cores
    processes = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert any("modelled, not measured" in name for name in processes)
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
            assert event["dur"] >= 0
            assert ("modelled" in event["args"]) == (event["pid"] == 2)
    assert all(spans_nest(spans) for spans in tracks.values())
    assert len([e for e in tracks[1, 1] if e["name"] == "invoke"]) == 2
    assert {e["name"] for e in tracks[1, 2]} == {"SOFTMAX"}
    assert len(tracks[2, 1]) == 2 * PARTITIONS
    starts = [e["id"] for e in events if e["ph"] == "s"]
    ends = {e["id"]: e["ts"] for e in events if e["ph"] == "f"}
    assert sorted(starts) == sorted(ends)
    assert all(ends[e["id"]] >= e["ts"] for e in events if e["ph"] == "s"), "an arrow back in time"
    for event in tracks[2, 2]:
        words = event["name"].split()
        assert words.count(event["args"].get("op")) <= 1, "a name with its operator twice"
    assert len(starts) == 2 * PARTITIONS
    tasks = [e for e in events if e["ph"] == "X" and "layer" in e["args"]]
    assert not set(tasks[0]["args"]) & set(tasks[0]["args"]["counters"]) - {"layer"}
    compiled = run("compile", MODEL, "--json").json
    expected = sum(p["estimate"]["cycles"] for p in compiled["partitions"])
    assert 2 * expected == sum(e["args"]["estimate"]["cycles"] for e in tasks)
    assert sum(e["dur"] for e in tasks) == pytest.approx(2 * expected / 1000)
