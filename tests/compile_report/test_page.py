"""The HTML report in a real browser: no errors, quick, small, and the numbers of compile --json."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from delegate.cli import main
from delegate.compile.compiler import compile_model
from delegate.insight.compile_report.document import page_document, render_page
from delegate.model.graph import DType, Quantization
from delegate.options import Options
from rk3588_conformance.builder import Net, layers
from tests.cli.conftest import MODEL
from tests.shared_folder import MODELS, needs_models

LARGEST_BYTES = 1 << 20
SLOWEST_MS = 1000.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((path for name in _NAMES if (path := shutil.which(name)) is not None), None)

needs_browser = pytest.mark.skipif(BROWSER is None, reason=f"no browser: none of {_NAMES}")


def rendered(page: Path, tmp_path: Path, width: int = 1200) -> tuple[str, str]:
    """The page's elements after its script has run, and what the browser said. No window of a
    browser is as narrow as a telephone: see ``framed``."""
    assert BROWSER is not None
    outcome = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", "--dump-dom",
         page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return outcome.stdout, outcome.stderr


def framed(page: str, width: int) -> str:
    """A page that shows ``page`` as a window of ``width`` does."""
    style = f"border:0;width:{width}px;height:900px"
    return f'<!doctype html><iframe style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def check_page(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    assert main(["compile", str(model), "--json", "--html", str(page)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert page.stat().st_size < LARGEST_BYTES
    dom, said = rendered(page, tmp_path)
    assert "CONSOLE" not in said, said
    ready = re.search(r'data-ready-ms="([\d.]+)"', dom)
    assert ready is not None, "the script did not reach its end"
    assert float(ready.group(1)) < SLOWEST_MS
    cycles = [p["estimate"]["cycles"] for p in report["partitions"]]
    (summary,) = re.findall(r'id="summary" data-cycles="(\d+)"', dom)
    assert int(summary) == sum(cycles)
    (headline,) = re.findall(r'id="headline" data-total-us="([^"]+)"', dom)
    assert float(headline) == pytest.approx(report["inference"]["total_us"])
    crossing = len(re.findall(r'class="edge crossing"', dom))
    assert (crossing > 0) == (len(report["rejections"]) > 0)
    shown = re.findall(r'class="partition" data-cycles="(\d+)"', dom)
    assert [int(value) for value in shown] == cycles
    assert len(re.findall(r'class="node on"', dom)) == report["delegated_nodes"]
    off = report["total_nodes"] - report["delegated_nodes"]
    assert len(re.findall(r'class="node off"', dom)) == off
    assert dom.count("<circle") == sum(len(p["layers"]) for p in report["partitions"])
    text = html.unescape(re.sub(r"<[^>]+>", " ", dom.split('<script type="application/json"')[0]))
    for rejection in report["rejections"]:
        assert rejection["detail"] in text
    change = report["best_change"]
    assert (f"What helps most: {change['change']}" if change else "No change of the export") in text
    for layer in report["costs"]["largest_layers"]:
        assert f"{layer['cycles']:,}".replace(",", "\u202f") in text


@needs_browser
def test_page_of_the_digits_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_page(MODEL, tmp_path, capsys)


@needs_browser
@needs_models
def test_page_of_a_large_detector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_page(MODELS / "yolov8n_640_int8_per_channel.tflite", tmp_path, capsys)


@needs_browser
@needs_models
@pytest.mark.parametrize("width", [390, 1600])
def test_graph_is_folded_searched_and_no_wider_than_the_page(width: int, tmp_path: Path) -> None:
    """The script below does what a reader does, and leaves what it saw in the document."""
    result = compile_model(
        MODELS / "yolov8n_640_int8_per_channel.tflite",
        Options.from_mapping({"numerics": "exact"}, {}),
    )
    page = render_page(page_document(result, "yolo"))
    steps = """<script>
    const seen = {}, at = (id) => document.getElementById(id), svg = () => document.querySelector("#graph-view svg");
    seen.height_folded = document.documentElement.scrollHeight;
    seen.open = [...document.querySelectorAll("details.partition, #developers-fold")].filter((e) => e.open).length;
    for (const box of document.querySelectorAll("details.partition, #developers-fold")) { box.open = true; box.dispatchEvent(new Event("toggle")); }
    seen.layers = document.querySelectorAll("details.layer").length;
    seen.longest = Math.max(...[...document.querySelectorAll("span[title]")].map((e) => e.textContent.length));
    seen.whole = [...document.querySelectorAll("details.layer span[title]")].every((e) => { const [a, b] = e.textContent.split("\\u2026"); return e.title.startsWith(a) && e.title.endsWith(b ?? ""); });
    document.querySelector("details.layer").open = true;
    document.querySelector("details.layer").dispatchEvent(new Event("toggle"));
    seen.page = document.documentElement.scrollWidth; seen.window = window.innerWidth;
    seen.width = Number(svg().getAttribute("width")); seen.height = Number(svg().getAttribute("height"));
    at("graph-search").value = "softmax"; at("graph-search").dispatchEvent(new Event("input"));
    seen.hits = document.querySelectorAll(".node.hit").length; seen.misses = document.querySelectorAll(".node.miss").length;
    at("graph-search").value = ""; at("graph-search").dispatchEvent(new Event("input"));
    at("graph-fit").click(); seen.fitted = Number(svg().getAttribute("width"));
    seen.view = at("graph-view").clientWidth;
    at("graph-repeats").click(); seen.repeats = document.querySelectorAll("#graph-view .node").length;
    at("graph-repeats").click();
    at("graph-fold").click(); seen.folded = document.querySelectorAll("#graph-view .node").length;
    seen.crossings = document.querySelectorAll(".edge.crossing").length;
    seen.tiles = document.querySelectorAll("details.layer .scroll svg").length;
    seen.cut = [...document.querySelectorAll(".scroll")].filter((e) => e.id !== "graph-view" && e.scrollWidth > e.clientWidth).length;
    top.document.title = JSON.stringify(seen);
    </script></body>"""  # noqa: E501
    path = tmp_path / "page.html"
    path.write_text(framed(page.replace("</body>", steps), width), encoding="utf-8")
    dom, said = rendered(path, tmp_path, max(width, 1200))
    assert "CONSOLE" not in said, said
    (title,) = re.findall(r"<title>(.*?)</title>", dom)
    seen = json.loads(html.unescape(title))
    total = len(result.graph.nodes)
    assert seen["page"] <= seen["window"] == width
    assert seen["tiles"] == 1
    assert seen["open"] == 0, "layers and the developers' parts are folded"
    assert seen["layers"] == sum(len(p.layers) for p in result.partitions)
    assert seen["height_folded"] < (4200 if width < 640 else 3200)
    assert seen["whole"], "a name is shortened in its middle; the pointer shows the whole"
    assert seen["longest"] <= (36 if width < 640 else 72)
    assert seen["cut"] == 0, "nothing but the graph is wider than its place"
    assert 0.2 < seen["width"] / seen["height"] < 5, "neither one column nor one row"
    assert seen["hits"] == sum(node.op == "SOFTMAX" for node in result.graph.nodes) > 0
    assert seen["misses"] == total - seen["hits"]
    assert seen["fitted"] <= seen["view"]
    assert seen["folded"] < seen["repeats"] < total
    assert seen["folded"] < 12
    assert seen["crossings"] >= 1


HOSTILE = '</script><img src=x onerror="document.title=1"><!--<script>'


def hostile_model() -> bytes:
    rng = np.random.default_rng(0)
    builder = Net("hostile", rng)
    x = builder.input(HOSTILE, (1, 9, 13, 3), DType.INT8, Quantization((0.02,), (3,)))
    y = builder.conv(x, 5, layers.Window(3, 3))
    z = builder.tensor(HOSTILE, (1, 9, 13, 5), DType.INT8, Quantization((1 / 256,), (-128,)))
    builder.operator("LOGISTIC", [y], [z])
    return builder.build(z)


def hostile_page() -> str:
    result = compile_model(hostile_model(), Options.from_mapping({"numerics": "exact"}, {}))
    return render_page(page_document(result, HOSTILE))


def test_names_of_a_model_cannot_become_markup() -> None:
    page = hostile_page()
    assert "onerror" in page
    assert "<img" not in page
    assert page.count("</script>") == 2
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


@needs_browser
def test_hostile_names_are_shown_as_text(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(hostile_page(), encoding="utf-8")
    dom, said = rendered(page, tmp_path, width=400)
    assert "CONSOLE" not in said, said
    assert "data-ready-ms" in dom
    assert "<img" not in dom


@needs_models
def test_suggestions_are_what_partitioning_gives() -> None:
    """Each claims what denying all other rejected operators would leave; recount one by hand."""
    path = MODELS / "yolov8n_224_int8.tflite"
    denied = {"deny_ops": "MAX_POOL_2D,RESIZE_NEAREST_NEIGHBOR"}
    result = compile_model(path, Options.from_mapping(denied, {}))
    document = page_document(result, "")["compile"]
    best = document["suggestions"][0]
    assert {"MAX_POOL_2D", "RESIZE_NEAREST_NEIGHBOR"} & set(best["ops"])
    rejected = [r for r in document["rejections"] if r["op"] in best["ops"]]
    assert best["nodes"] == document["delegated_nodes"] + len(rejected)
    assert best["partitions"] < len(document["partitions"])


@needs_models
def test_costs_include_loads_of_tables() -> None:
    result = compile_model(
        MODELS / "yolov8n_224_int8.tflite", Options.from_mapping({"numerics": "exact"}, {})
    )
    compiled = page_document(result, "")["compile"]
    costs, partitions = compiled["costs"], compiled["partitions"]
    cycles = sum(p["estimate"]["cycles"] for p in partitions)
    assert costs["npu_limited_us"] + costs["ddr_limited_us"] == pytest.approx(cycles / 1000)
    assert costs["tasks"] == sum(p["tasks"] for p in partitions)


def test_costs_and_memory_add_up() -> None:
    result = compile_model(MODEL, Options.from_mapping({"numerics": "exact"}, {}))
    document = page_document(result, "")
    costs = document["compile"]["costs"]
    cycles = sum(p["estimate"]["cycles"] for p in document["compile"]["partitions"])
    assert costs["npu_limited_us"] + costs["ddr_limited_us"] == pytest.approx(cycles / 1000)
    for partition, plan, tiles in zip(
        document["compile"]["partitions"], document["memory"], document["tiles"], strict=True
    ):
        assert (
            sum(layer["cycles"] for layer in partition["layers"])
            == (partition["estimate"]["cycles"])
        )
        for entry in plan:
            assert entry["offset"] + entry["bytes"] <= partition["buffers"]["scratch"]
            assert entry["layer"] <= entry["last"] < len(partition["layers"])
        # No two results that live at the same time overlap.
        for i, a in enumerate(plan):
            for b in plan[i + 1 :]:
                together = a["layer"] <= b["last"] and b["layer"] <= a["last"]
                apart = (
                    a["offset"] + a["bytes"] <= b["offset"]
                    or b["offset"] + b["bytes"] <= a["offset"]
                )
                assert apart or not together
        for layer, tasks in zip(partition["layers"], tiles, strict=True):
            assert len(tasks) == layer["tasks"]
            assert sum(t["bytes"] for t in tasks) == layer["bytes"]
