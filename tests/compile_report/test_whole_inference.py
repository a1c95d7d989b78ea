"""The estimate of an inference: its range, who runs it, what others measured, what runs once."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.chip.chips import every_chip
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import CompileResult, compile_model
from delegate.host.chosen import drivers_of
from delegate.insight.compile_report.whole_inference import (
    NETWORKS,
    RELATED,
    measured_by_others,
    network_of,
    whole_inference,
)
from delegate.model.graph import DType, Graph
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_conformance.builder import Net, conv_model
from tests.shared_folder import MODELS, needs_models

FROM_NAMES = {
    "mobilenet_v1_1.0_224_quant": "MobileNetV1 1.0 224",
    "mobilenet_v2_1.0_224_quant": "MobileNetV2 1.0 224",
    "mobilenet_v2_1.0_224_int8_per_channel": "MobileNetV2 1.0 224",
    "ssdlite_mobiledet_coco_qat_postprocess": "SSDLite MobileDet 320",
    "yolov8n_640_int8_per_channel": "YOLOv8n 640",
    "yolov5n_640_int8_per_channel": "YOLOv5n 640",
}
"""The shared models that the table has; the others are none of it."""


def some_model() -> CompileResult:
    return compile_model(conv_model(np.random.default_rng(0), 40, 40, 16, 32, 3, 3), Options())


def test_the_device_changes_the_answer() -> None:
    """One task: a kick of 50 to 65 us, or 8 in a submit of 100 to 167."""
    result = some_model()
    found = {
        device: whole_inference(result, drivers=drivers_of(device, RK3588))
        for device in ("rocket", "rknpu", "simulator")
    }
    assert [found[d]["driver"] for d in found] == ["rocket", "rknpu", None]
    ranges = found["rocket"]["ranges"]
    assert (ranges["launches_us"], ranges["submits_us"]) == ([50, 65], [0, 20])
    ranges = found["rknpu"]["ranges"]
    assert (ranges["launches_us"], ranges["submits_us"]) == ([8, 8], [100, 167])
    least, most = found["simulator"]["range_us"]
    both = [found[device]["range_us"] for device in ("rocket", "rknpu")]
    assert (least, most) == (min(r[0] for r in both), max(r[1] for r in both))
    assert found["simulator"] == whole_inference(result)


def test_parts_add_up_and_lie_in_their_ranges() -> None:
    for driver in RK3588.rates.drivers:
        found = whole_inference(some_model(), drivers=[driver])
        ends = np.array(list(found["ranges"].values())).sum(0)
        assert found["range_us"] == pytest.approx(list(ends))
        assert all(r[0] <= found[name] <= r[1] for name, r in found["ranges"].items())
        assert found["total_us"] == pytest.approx(ends.mean())


def test_a_slower_clock_takes_longer() -> None:
    ranges = list(whole_inference(some_model())["by_clock_mhz"].values())
    assert len(ranges) == 3
    assert ranges == sorted(ranges, reverse=True)
    assert ranges[0][0] > ranges[2][0]


@needs_models
def test_networks_are_known_by_their_structure() -> None:
    for path in sorted(MODELS.glob("*.tflite")):
        found = network_of(read_graph(path))
        assert (found and found.name) == FROM_NAMES.get(path.stem), path.name


@needs_models
def test_a_network_of_another_size_is_another() -> None:
    graph = read_graph(MODELS / "yolov8n_640_int8_per_channel.tflite")
    assert [item["ms"] for item in measured_by_others(graph)] == [[18.8, 18.8]]
    last = max(node.index for node in graph.nodes if node.op == "CONV_2D")
    without = [n for n in graph.nodes if n.op != "CONV_2D" or n.index > last - 40]
    assert network_of(replace(graph, nodes=tuple(without))) is None


def test_every_measurement_says_where_it_is_from() -> None:
    measured = [item for chip in every_chip() for item in chip.rates.measured]
    figures = [*measured, *(item for items in RELATED.values() for item in items)]
    assert {item.network for item in figures} == {network.name for network in NETWORKS}
    for item in figures:
        assert 0 < item.ms.least <= item.ms.most
        assert item.conditions
        assert item.source


def weights_behind_dequantize(*, is_constant: bool) -> Graph:
    """A product with weights from float16: a constant's, or an input's."""
    b = Net()
    x = b.input("x", (1, 64), DType.FLOAT32)
    half = np.ones((32, 64), np.float16)
    w = b.constant("w", half) if is_constant else b.input("w", half.shape, DType.FLOAT16)
    real = b.result("DEQUANTIZE", (w,), "w real", dtype=DType.FLOAT32)
    return read_graph(b.build(b.result("MUL", (x, real), "y", dtype=DType.FLOAT32)))


def test_what_runs_once_is_no_part_of_every_inference() -> None:
    off = Options.from_mapping({"float": "off"}, {})
    once, always = (
        whole_inference(compile_model(weights_behind_dequantize(is_constant=c), off))
        for c in (True, False)
    )
    assert always["once_us"] == 0 < once["once_us"]
    for key in ("cpu_us", "cpu_alone_us"):
        assert once[key] + once["once_us"] == pytest.approx(always[key])
