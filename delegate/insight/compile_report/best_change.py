"""The one change to a model, or to its export, that would save the most time by estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from delegate.chip.rates import Driver
from delegate.compile.compiler import CompileResult
from delegate.insight.compile_report.causes import BY_CHOICE
from delegate.npu.duration import hull
from delegate.partition.partitioner import partition_graph

_WORTH_IT: Final = 0.05
"""The share of an inference below which a change is not worth the work."""
_LARGE_INPUT: Final = 160 * 160
"""Pixels from which a smaller input is an advice that people can follow."""


def best_change(
    result: CompileResult, document: dict[str, Any], drivers: Sequence[Driver] = ()
) -> dict[str, Any] | None:
    """Return ``change``, a sentence, and the most that it saves, ``at_most_us``: one that keeps
    what the model computes, or else a smaller input. None: nothing would save a twentieth, and
    the NPU has most of the nodes.
    ``document``: ``compile_document`` with its "causes".
    """
    least = _WORTH_IT * document["inference"]["total_us"]
    causes = _by_cause(result, document["causes"], drivers)
    for choices in ([*causes, *_on_the_npu(document)], _smaller(result, document)):
        saved, change = max(choices, default=(0.0, ""))
        if saved > least:
            return {"change": change, "at_most_us": saved}
    if causes and 2 * result.delegated_nodes < result.total_nodes:  # of times that nobody knows
        saved, change = causes[0]
        return {"change": change, "at_most_us": saved}
    return None


def _by_cause(
    result: CompileResult, causes: Sequence[dict[str, Any]], drivers: Sequence[Driver]
) -> list[tuple[float, str]]:
    """Return what each cause with a remedy costs: its nodes on the CPU, the remainders that are
    there for their sake, and submits between them.
    """
    submit_us = hull(one.submit_us for one in drivers or result.chip.rates.drivers).middle
    delegated = {node for compiled in result.partitions for node in compiled.partition.nodes}
    by_choice = [cause for cause in causes if cause["cause"] == BY_CHOICE.sentence]
    remainder = sum(cause["cpu_us"] for cause in by_choice)
    beside = delegated.union(*(cause["nodes"] for cause in by_choice))
    found = []
    for cause in causes:
        if not cause["remedy"]:
            continue
        saved = cause["cpu_us"]
        joined = len(partition_graph(result.graph, beside.union(cause["nodes"])))
        if joined <= len(result.partitions):
            saved += remainder + (len(result.partitions) - joined) * submit_us
        found.append((saved, cause["remedy"]))
    return found


def _on_the_npu(document: dict[str, Any]) -> list[tuple[float, str]]:
    """Return what other activations, or 8 bits instead of fp16, would save on the NPU."""
    moves = document["costs"]["without_macs"]
    found = [
        (
            moves["us"],
            f"{moves['tasks']} of {document['costs']['tasks']} tasks multiply no weights "
            "(activations of their own, additions, moves). ReLU or ReLU6 cost nothing behind a "
            "convolution; docs/models.md says which exports need fewer.",
        )
    ]
    if any(partition["fp16"] for partition in document["partitions"]):
        found.append(
            (
                document["inference"]["npu_us"] / 2,
                "Quantise to int8 (representative_dataset): the NPU takes 8 bits at twice the rate "
                "of fp16, and half the memory.",
            )
        )
    return found


def _smaller(result: CompileResult, document: dict[str, Any]) -> list[tuple[float, str]]:
    """Return what half the pixels would save, where the input is a picture."""
    shapes = [result.graph.tensor(tensor).shape for tensor in result.graph.inputs]
    if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][1] * shapes[0][2] < _LARGE_INPUT:
        return []
    height, width = shapes[0][1:3]
    smaller = [max(32, round(side * 0.7 / 32) * 32) for side in (height, width)]
    share = smaller[0] * smaller[1] / (height * width)
    sizes = f"{smaller[0]} x {smaller[1]} instead of {height} x {width}"
    text = f"A smaller input, {sizes}: time on the NPU goes with the pixels, launches stay."
    return [(document["inference"]["npu_us"] * (1 - share), text)]
