"""A head that a model's outputs may have, and what speaks for it: also the sizes that the graph
concatenates to the channels of an output.

The shape of a detector's output fits several heads; which tensors went into it tells them apart (a
v8 head joins a box with the classes, a pose head also with the key points, and so on).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from delegate.model.graph import Graph, Node
from rk3588_vision.detection.head import Anchors, Head, OutputTensor
from rk3588_vision.placement import Fit, Preparation

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
    """The hints of the user: the decoder's name, the number of classes, the anchors, and how
    pictures are prepared; None leaves it to the model's family.
    """

    decoder: str | None = None
    classes: int | None = None
    anchors: Anchors = ()
    fit: Fit | None = None
    mean: float | None = None
    std: float | None = None
    is_bgr: bool | None = None

    def prepared(self, usual: Preparation) -> Preparation:
        """Return the ``usual`` preparation with what is wanted otherwise."""
        wanted = {name: getattr(self, name) for name in ("fit", "mean", "std", "is_bgr")}
        return replace(usual, **{name: v for name, v in wanted.items() if v is not None})


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


_MOST_STEPS = 16


def output_parts(graph: Graph, tensor: int, channels: int) -> tuple[int, ...]:
    """The sizes of the parts that ``channels`` are joined from; empty where the graph does not say,
    as in a model that was compiled ahead of time. Nodes behind the joint that keep the channels
    (transposed, reshaped, dequantised) are looked through.
    """
    producers: dict[int, Node] = {out: node for node in graph.nodes for out in node.outputs}
    for _ in range(_MOST_STEPS):
        node = producers.get(tensor)
        if node is None or not node.inputs or node.inputs[0] < 0:
            return ()
        if channels not in graph.tensor(tensor).shape:
            return ()
        sizes = _joined(graph, node, channels)
        if sizes:
            return sizes
        tensor = node.inputs[0]
    return ()


def _joined(graph: Graph, node: Node, channels: int) -> tuple[int, ...]:
    """Sizes of a node's inputs that differ along one axis alone and have ``channels`` in sum."""
    if len(node.inputs) < 2 or min(node.inputs) < 0:
        return ()
    shapes = [graph.tensor(index).shape for index in node.inputs]
    if len({len(shape) for shape in shapes}) != 1:
        return ()
    for axis in range(len(shapes[0])):
        sizes = tuple(shape[axis] for shape in shapes)
        others = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
        if sum(sizes) == channels and len(others) == 1:
            return sizes
    return ()


def boundaries(parts: tuple[int, ...]) -> frozenset[int]:
    """Return where one part ends and the next begins."""
    ends, total = set(), 0
    for size in parts[:-1]:
        total += size
        ends.add(total)
    return frozenset(ends)
