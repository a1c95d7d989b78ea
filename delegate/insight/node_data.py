"""Time and error of layers as ai-edge-model-explorer reads them: "node data", by tensor names.

In: numbers by the name of the tensor that a layer writes. Out: one JSON document per quantity, with
colours from white (least) to red (most).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from delegate.npu.perf import estimate_task, total
from rk3588_vision.quantization.layer_errors import BEST_DB, Accuracy

if TYPE_CHECKING:
    from delegate.compile.compiler import CompileResult

_WORSE_IS_MORE = ("#ffffff", "#d93025")


def node_data(values: Mapping[str, float], *, more_is_worse: bool = True) -> bytes:
    """Return the document of one quantity."""
    colours = _WORSE_IS_MORE if more_is_worse else _WORSE_IS_MORE[::-1]
    document = {
        "results": {name: {"value": value} for name, value in values.items()},
        "gradient": [{"stop": stop, "bgColor": colour} for stop, colour in enumerate(colours)],
    }
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()


def error_data(found: Accuracy) -> dict[str, bytes]:
    """Return documents by name: signal to noise in dB, cosine, noise added in percent."""
    snr = {layer.name: max(min(layer.distance.snr_db, BEST_DB), -BEST_DB) for layer in found.layers}
    cosine = {layer.name: layer.distance.cosine for layer in found.layers}
    adds = {layer.name: 100.0 * layer.adds for layer in found.layers if math.isfinite(layer.adds)}
    return {
        "snr_db": node_data(snr, more_is_worse=False),
        "cosine": node_data(cosine, more_is_worse=False),
        "noise_added_percent": node_data(adds),
    }


def time_data(result: CompileResult) -> bytes:
    """Return the document of modelled microseconds on the NPU; what joins another's task has none
    of its own.
    """
    times: dict[str, float] = {}
    for compiled in result.partitions:
        for layer in compiled.layers:
            cycles = total(estimate_task(result.chip, task) for task in layer.tasks).cycles
            us = result.chip.rates.microseconds(cycles)
            name = result.graph.tensor(result.graph.node(layer.nodes[-1]).outputs[0]).name
            times[name] = times.get(name, 0.0) + us
    return node_data(times)
