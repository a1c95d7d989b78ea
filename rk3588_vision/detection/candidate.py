"""A head that a model's outputs may have, and what speaks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from delegate.model.graph import Graph
from rk3588_vision.detection.head import Head, OutputTensor
from rk3588_vision.detection.output_parts import output_parts
from rk3588_vision.detection.yolo_grids import Anchors

COCO_CLASSES = 80

COCO_POINTS = 17
"""Key points of a person in COCO."""

# What each finding counts. The graph's own parts weigh more than what published models usually
# have, and labels that do not fit more than both together.
PARTS_FIT = 2
LABELS_FIT = 2
LABELS_DIFFER = -4
USUAL = 1


@dataclass(frozen=True, slots=True)
class Hints:
    """The hints of the user: the decoder's name, the number of classes, the anchors."""

    decoder: str | None = None
    classes: int | None = None
    anchors: Anchors = ()


@dataclass(frozen=True, slots=True)
class Outputs:
    """The facts that a head is found from: the graph, its outputs, and rows and columns of its
    input.
    """

    graph: Graph
    tensors: Sequence[OutputTensor]
    input_h: int
    input_w: int
    hints: Hints

    def parts(self, index: int, channels: int) -> tuple[int, ...]:
        """Return the parts that the graph joins ``channels`` of an output from; empty: unknown."""
        if index >= len(self.graph.outputs):
            return ()
        return output_parts(self.graph, self.graph.outputs[index], channels)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A head with the reading of the outputs that it stands for.

    ``doubt``: why the outputs cannot show that this is the one, whatever else speaks for it.
    """

    head: Head
    reading: str
    score: int
    reasons: tuple[str, ...] = field(default=())
    doubt: str | None = None

    def __str__(self) -> str:
        reasons = f" ({', '.join(self.reasons)})" if self.reasons else ""
        return f"{self.head.name}: {self.reading}{reasons}"


def class_score(classes: int, hints: Hints) -> tuple[int, tuple[str, ...]]:
    """Return the number of classes: the labels' number, or COCO's."""
    if hints.classes is not None:
        if classes == hints.classes:
            return LABELS_FIT, ("as many as labels",)
        return LABELS_DIFFER, (f"not the {hints.classes} of the labels",)
    if classes == COCO_CLASSES:
        return USUAL, ("as many as COCO has",)
    return 0, ()
