"""Whole networks that others measured on Rockchip's NPUs, as facts beside an estimate.

A model is taken for a published network by its structure, never by its name: as many layers that
multiply weights but for two (a head may be another or be cut off), and as many multiply-accumulates
but for 3 %. It is the same network then, not the same file: weights, activations and what the host
does may differ.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from delegate.chip.rates import Span
from delegate.model.graph import Graph
from delegate.partition.partitioner import node_macs

_LAYERS_MAY_DIFFER = 2
_MACS_MAY_DIFFER = 0.03


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure of others. ``ms``: an inference; ``source``: who published it."""

    chip: str
    ms: Span
    conditions: str
    source: str


@dataclass(frozen=True, slots=True)
class Network:
    """A published network. ``layers``: those that multiply weights, in all ``macs`` times."""

    name: str
    layers: int
    macs: float
    measurements: tuple[Measurement, ...]


def _one(ms: float) -> Span:
    return Span(ms, ms)


_IAV = "iav/rk3568-npu, 2026-09"
_TFLITE_ROCKET = "gregordinary/tflite-rocket, 2026-08"
_TEFLON = "Teflon, each task kicked by itself, clock not stated"
_ONE_KICK_3568 = "modified rocket, one kick, 800 MHz, half of RK3588's multipliers"
_ONE_KICK_3576 = "modified rocket, one kick, 786 MHz"
_VENDOR = "the vendor's runtime, one core"

NETWORKS = (
    Network(
        "MobileNetV1 1.0 224", 28, 569e6,
        (
            Measurement("rk3588", Span(10.8, 11.5), _TEFLON, "T. Vizoso 2024-03; allbilly/rk3588"),
            Measurement("rk3576", _one(5.0), _ONE_KICK_3576, _TFLITE_ROCKET),
            Measurement(
                "rk3576", _one(10.4), "rocket, a kick per task, 786 MHz", _TFLITE_ROCKET
            ),
            Measurement("rk3568", _one(5.4), _ONE_KICK_3568, _IAV),
        ),
    ),
    Network(
        "MobileNetV2 1.0 224", 53, 300e6,
        (
            Measurement("rk3588", _one(15.0), _TEFLON, "allbilly/rk3588"),
            Measurement("rk3576", _one(6.8), _ONE_KICK_3576, _TFLITE_ROCKET),
            Measurement("rk3568", _one(6.3), _ONE_KICK_3568, _IAV),
        ),
    ),
    Network(
        "ResNet-18 224", 21, 1.81e9,
        (
            Measurement("rk3576", _one(8.8), _ONE_KICK_3576, _TFLITE_ROCKET),
            Measurement(
                "rk3568", Span(10.8, 11.2), f"{_ONE_KICK_3568}; 5.6 ms of it the NPU", _IAV
            ),
        ),
    ),
    Network(
        "SSDLite MobileDet 320", 93, 1.53e9,
        (Measurement("rk3588", _one(38.0), _TEFLON, "allbilly/rk3588"),),
    ),
    Network(
        "YOLOv8n 320", 64, 1.09e9,
        (
            Measurement(
                "rk3568", _one(14.9), f"{_ONE_KICK_3568}, SiLU fused; 7.9 ms of it the NPU", _IAV
            ),
        ),
    ),
    Network(
        "YOLOv8n 640", 64, 4.37e9,
        (Measurement("rk3588", _one(18.8), f"{_VENDOR}, 53.1 per second", "Qengineering"),),
    ),
    Network(
        "YOLOv5n 640", 60, 2.25e9,
        (Measurement("rk3588", _one(17.0), f"{_VENDOR}, 58.8 per second", "Qengineering"),),
    ),
    Network(
        "YOLOv5s 640", 60, 8.25e9,
        (
            Measurement(
                "rk3588", Span(18.8, 27.5), f"{_VENDOR}; 22.9 MB moved",
                "jas-hacks 2023; airockchip/rknn-toolkit2#129",
            ),
        ),
    ),
)  # fmt: skip


def network_of(graph: Graph) -> Network | None:
    """Return the network that ``graph`` is by its structure; None: none of the table."""
    macs = [count for node in graph.nodes if (count := node_macs(graph, node))]
    return next(
        (
            network
            for network in NETWORKS
            if abs(network.layers - len(macs)) <= _LAYERS_MAY_DIFFER
            and abs(network.macs - sum(macs)) <= _MACS_MAY_DIFFER * network.macs
        ),
        None,
    )


def measured_by_others(graph: Graph) -> list[dict[str, Any]]:
    """Return what others measured of the network that ``graph`` is, as JSON has it."""
    network = network_of(graph)
    if network is None:
        return []
    return [
        {"network": network.name, **asdict(item), "ms": [item.ms.least, item.ms.most]}
        for item in network.measurements
    ]
