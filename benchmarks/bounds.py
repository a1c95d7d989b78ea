"""Holds what plans are compared with: other compilers' programs, our limits, and a floor for
bytes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from delegate.lower.lowered import Layer
from delegate.lower.task import ConvTask


@dataclass(frozen=True, slots=True)
class Bound:
    """Tasks and cycles at most, and "tasks / cycles" of programs of Mesa's driver and of the
    vendor's compiler, counted by the formulas of delegate/lower/tiling/geometry.py.
    """

    tasks: int = 0
    cycles: int = 0
    mesa: str = "-"
    vendor: str = "-"

    def text(self, tasks: int, cycles: int) -> str:
        return f"{tasks} / {cycles:,}" if tasks else "-"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


BOUNDS = {
    "mobilenet_v1_0.25_128_quant": Bound(28, 140_000, "28 / 156,813", "29 / 157,836"),
    "mobilenet_v1_1.0_224_quant": Bound(35, 1_125_000, "42 / 1,186,521", "38 / 1,198,505"),
    "mobilenet_v2_1.0_224_quant": Bound(61, 1_240_000, "63 / 1,300,634", "68 / 1,324,463"),
    "ssdlite_mobiledet_coco_qat_postprocess": Bound(110, 3_430_000, "113 / 3,537,272"),
    "yolov8n_640_int8_per_channel": Bound(135, 6_050_000, "refused", "146 / 6,510,574"),
    "yolox_nano_320_int8_per_channel": Bound(92, 1_550_000, "refused", "93 / 1,557,149"),
    "resnet8_cifar10_int8": Bound(10, 34_000, "refused", "12 / 38,880"),
}


MOST_BYTES_OVER_FLOOR = 1.05
"""The ratio of the bytes that tasks move to each tensor once in and out per layer: see
``bytes_floor``.
"""


def bytes_floor(layer: Layer) -> int:
    """Each input, weight and output of a layer once, channels in whole atoms of 16.

    The input is what the tiles of the layer cover together, so the rows two tiles share count once.
    """
    weights: set[tuple[int, int]] = set()
    inputs: dict[tuple[int, int], int] = {}
    moved = 0
    for task in layer.tasks:
        pixels = task.output.height * task.output.width
        cube = pixels * (-(-task.output.channels_real // 16) * 16)
        moved += cube
        if task.ew is not None and task.ew.operand is not None and not task.ew.per_channel:
            moved += cube
        if not isinstance(task, ConvTask):
            moved += cube
            continue
        weights.add((task.weights.source.offset, task.weights.total_bytes))
        feature = task.feature
        for surface in range(feature.channels // 16):
            base = feature.source.offset + surface * feature.surface_stride_bytes
            for row in range(feature.height):
                start = base + row * feature.line_stride_bytes
                key = (int(feature.source.buffer), start)
                inputs[key] = max(inputs.get(key, 0), feature.width * 16)
    return moved + sum(size for _, size in weights) + sum(inputs.values())
