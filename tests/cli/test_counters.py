"""compile --counters, explain, and the counters in bench and trace, on the digits model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delegate.cli import main
from delegate.cli.table import WIDTH
from delegate.insight.capture import load_capture
from rk3588_conformance.builder import conv_model
from tests.cli.conftest import MODEL, Run
from tests.cli.test_commands import TWO_PARTITIONS

KEYS = {"macs", "feature_bytes", "weight_bytes", "operand_bytes", "written_bytes", "cbuf_fill",
        "npu_cycles", "ddr_cycles", "cycles", "mrdma_bytes", "brdma_bytes", "nrdma_bytes",
        "erdma_bytes"}  # fmt: skip


@pytest.fixture
def dumped(run: Run, tmp_path: Path) -> Path:
    assert run("compile", MODEL, "--dump", tmp_path).code == 0
    return tmp_path / "partition_0.npz"


def test_compile_counts_layers_and_tasks(run: Run) -> None:
    document = run("compile", MODEL, "--counters", "--json").json
    for partition in document["partitions"]:
        tasks, layers = partition["task_counters"], partition["layer_counters"]
        assert len(tasks) == partition["tasks"]
        assert [layer["nodes"] for layer in layers] == [x["nodes"] for x in partition["layers"]]
        assert set(tasks[0]) >= KEYS | {"tile", "task", "layer", "data_banks", "weight_banks"}
        for key in KEYS - {"cbuf_fill"}:
            assert sum(task[key] for task in tasks) == partition["counters"][key]
            assert sum(layer[key] for layer in layers) == partition["counters"][key]
        assert partition["counters"]["npu_cycles"] == partition["estimate"]["npu_cycles"]
        fills = [task["cbuf_fill"] for task in tasks]
        assert partition["counters"]["cbuf_fill"] == max(fills) > 0


def test_compile_says_nothing_of_counters_unasked(run: Run) -> None:
    assert "counters" not in run("compile", MODEL, "--json").json["partitions"][0]
    assert "counted" not in run("compile", MODEL).out


def test_the_table_of_counters_fits_a_page(run: Run) -> None:
    out = run("compile", MODEL, "--counters", *TWO_PARTITIONS).out
    assert "partition 1, counted by the simulator" in out
    assert max(len(line) for line in out.splitlines()) <= WIDTH


def test_bench_has_counters_of_partitions_and_layers(run: Run) -> None:
    document = run("bench", MODEL, "--runs", 1, "--warmup", 0, "--no-cpu", "--json").json
    for part in document["delegate"]["partitions"]:
        assert set(part["counters"]) == KEYS
        assert sum(layer["tasks"] for layer in part["layers"]) == part["tasks"]
        for key in KEYS - {"cbuf_fill"}:
            assert sum(x["counters"][key] for x in part["layers"]) == part["counters"][key]


def test_trace_has_counters_of_every_task(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "t.json"
    assert run("trace", MODEL, "-o", target, "--runs", 1).code == 0
    events = json.loads(target.read_text())["traceEvents"]
    tasks = [e["args"] for e in events if "counters" in e.get("args", {})]
    compiled = run("compile", MODEL, "--counters", "--json").json["partitions"]
    assert len(tasks) == sum(p["tasks"] for p in compiled)
    for args in tasks:
        assert args["counters"]["layer"] == args["layer"]
        assert args["counters"]["npu_cycles"] == args["estimate"]["npu_cycles"]
    counted = sum(args["counters"]["macs"] for args in tasks)
    assert counted == sum(p["counters"]["macs"] for p in compiled) > 0


def test_explain_an_element_of_an_output(run: Run, dumped: Path) -> None:
    capture = load_capture(dumped)
    expected = capture.expected["expected_0"]
    _, channels, height, width = expected.shape
    element = (height - 1, 0, channels // 2)
    wanted = float(expected[0, element[2], element[0], element[1]])
    document: Any = run("explain", dumped, "--element", "{},{},{}".format(*element), "--json").json
    assert document["expected"] == wanted
    trace = document["traces"][-1]
    assert trace["output"] == wanted
    stages = [value["stage"] for value in trace["values"]]
    assert stages.index("CORE.accumulator") < stages.index("OUT_CVT.scaled")
    assert trace["registers"]["DPU.DATA_CUBE_WIDTH"] == width - 1
    assert set(trace["groups"]) == {"CNA", "CORE", "DPU", "DPU_RDMA"}
    text = run("explain", dumped, "--element", "{},{},{}".format(*element)).out
    assert f"the capture expects {wanted:g}" in text
    assert "DPU.DATA_CUBE_WIDTH" not in text
    more = run("explain", dumped, "--element", "0,0,0", "--tensor", "expected_0", "--registers")
    assert "DPU.DATA_CUBE_WIDTH = " in more.out


def test_explain_an_element_of_a_task(run: Run, dumped: Path) -> None:
    kicked = run("explain", dumped, "--task", 3, "--element", "1,0,5", "--json").json
    (trace,) = kicked["traces"]
    assert (trace["task"], trace["element"]) == (3, {"c": 5, "h": 1, "w": 0})
    assert kicked["expected"] is None
    chained = run("explain", dumped, "--task", 3, "--element", "1,0,5", "--chained", "--json").json
    assert chained == kicked


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--element", "1,2"), "row,column,channel"),
        (("--element", "1,2,-3"), "element"),
        (("--element", "1,2,x"), "element"),
        (("--element", "0,0,999"), "expected_0"),
        (("--element", "0,0,0", "--tensor", "7"), "expected_0"),
        (("--element", "0,0,0", "--tensor", "nothing"), "nothing"),
        (("--element", "0,0,0", "--task", "999"), "task 999"),
        (("--element", f"0,0,{1 << 70}", "--task", "0"), "task 0"),
        (("--element", "0,0,0", "--task", "0", "--tensor", "0"), "--task"),
        ((), "--element"),
    ],
)
def test_explain_refuses(run: Run, dumped: Path, arguments: tuple[str, ...], word: str) -> None:
    run("explain", dumped, *arguments).assert_refused(word)


def test_explain_refuses_what_is_no_capture(run: Run, tmp_path: Path) -> None:
    run("explain", tmp_path / "none.npz", "--element", "0,0,0").assert_refused("none.npz")
    bad = tmp_path / "bad.npz"
    np.savez(bad, manifest=np.zeros(3, np.uint8))
    run("explain", bad, "--element", "0,0,0").assert_refused("bad")


def test_compile_says_why_a_layer_is_tiled_as_it_is(tmp_path, capsys):
    path = tmp_path / "model.tflite"
    path.write_bytes(conv_model(np.random.default_rng(1), 32, 40, 3, 24, 3, 3, 2, 2))
    assert main(["compile", str(path), "--explain"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "tiling (chosen by estimated time" in text
    assert "folded by the host (2 x 2 x 3 as 12 channels)" in text
    assert "banks" in text
