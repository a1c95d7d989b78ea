"""Heads of detectors, whose channels the model makes pixels, with the anchors left in the channels.

A convolution gives rows x columns x (anchors * values). The model sees that as pixels x anchors x
values, cuts boxes, sizes and classes apart and scales each. To the device all of that is tasks that
only move. Here each part is a convolution of its own, with the part's kernels anchor by anchor,
each in surfaces of its own. What computes element by element does so in the convolution's shape,
and the host's conversion brings elements in the model's order. Kernels that complete a surface
count as zero; nobody needs what they give.

Comes from: a partition whose nodes keep the rules. Goes to: ``workload``, which lowers the graph
that this gives instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import CHANNELS_PER_SURFACE, align
from delegate.errors import LoweringError
from delegate.lower.image_parts import planned_cycles
from delegate.lower.tiling.geometry import Axis
from delegate.lower.weights import leading_padding
from delegate.model.graph import DType, Graph, Node, Partition, Quantization, Tensor
from delegate.model.index_map import MapError
from delegate.ops.conv_2d import ConvOptions, plain_options
from delegate.ops.operator import ABSENT, GraphFacts, Movement
from delegate.ops.shared.image_rules import RANK
from delegate.ops.shared.parts import parts_of
from delegate.partition.partitions import RESHAPE, SLICE, Rewriter, Rewritten
from delegate.partition.rules import check_node

HostTakes = Callable[[Graph, Partition, Collection[int]], bool]
"""Says whether the host does these nodes of a partition, by index."""


def unfold_heads(given: Rewritten, chip: Chip, host_takes: HostTakes) -> Rewritten:
    """Return ``given``, or the same with the heads in their convolution's shape whose elements the
    host brings back in order, where that is cheaper.
    """
    graph, partition, before = given.graph, given.partition, {**given.before}
    facts = GraphFacts(graph, chip)
    for index in partition.nodes:
        if facts.movement(graph.node(index)) is not Movement.KEEP:
            continue
        head = _head_of(facts, partition, graph.node(index))
        if head is None or not _is_cheaper(head, chip):
            continue
        unfolding = _Unfolding(Rewriter(graph, partition), head)
        made = unfolding.made()
        changed = unfolding.to.changed
        if _keeps_rules(made[0], changed, chip) and host_takes(*made, unfolding.back):
            graph, partition = made
            facts = GraphFacts(graph, chip)
            nodes = head.conv.index, head.reshape.index
            before.update((part.node.index, nodes) for part in head.parts)
    return Rewritten(graph, partition, before)


def _keeps_rules(graph: Graph, nodes: Collection[int], chip: Chip) -> bool:
    facts = GraphFacts(graph, chip)
    return all(check_node(facts, graph.node(index)) is None for index in nodes)


@dataclass(frozen=True, slots=True)
class _Part:
    """``size`` values of every anchor from number ``first`` on, which ``node`` cuts out."""

    node: Node
    first: int
    size: int

    @property
    def lanes(self) -> int:
        """Return the channels that an anchor takes: whole surfaces."""
        return align(self.size, CHANNELS_PER_SURFACE)


@dataclass(frozen=True, slots=True)
class _Head:
    """``reshape`` of the result of ``conv``, whose tensors are ``source``, ``weights`` and
    ``result``, makes pixels of ``anchors`` times ``values`` channels.
    """

    conv: Node
    reshape: Node
    source: Tensor
    weights: npt.NDArray[np.generic]
    result: Tensor
    anchors: int
    values: int
    parts: Sequence[_Part]

    def kernels(self, part: _Part) -> npt.NDArray[np.int64]:
        """Return the kernel of each channel of ``part``; below 0: none."""
        found = np.full((self.anchors, part.lanes), -1)
        values = np.arange(part.first, part.first + part.size)
        found[:, : part.size] = np.arange(self.anchors)[:, np.newaxis] * self.values + values
        return found.ravel()


def _head_of(facts: GraphFacts, partition: Partition, reshape: Node) -> _Head | None:
    """Return the head that ``reshape`` belongs to; None: it is in none."""
    graph, members = facts.graph, frozenset(partition.nodes)
    ends = {*partition.outputs, *graph.outputs}
    before, after = reshape.inputs[0], reshape.outputs[0]
    conv = facts.makers.get(before)
    result, whole = graph.tensor(before), graph.tensor(after)
    if conv is None or conv.index not in members or {before, after} & ends:
        return None
    if len(result.shape) != RANK or len(whole.shape) != RANK or result.dtype is DType.FLOAT32:
        return None
    images, rows, columns, channels = result.shape
    anchors, values = whole.shape[2:]
    if whole.shape[:2] != (images, rows * columns) or images > 1 or anchors < 2:
        return None
    weights = graph.tensor(conv.inputs[1]).constant if plain_options(facts, conv) else None
    parts = _parts(facts, members, after)
    is_ours = facts.readers.get(before) == (reshape,) and anchors * values == channels
    is_ours = is_ours and facts.maps(reshape)[0].shift() == 0
    if weights is None or len(weights) != channels or not is_ours or not parts:
        return None
    source = graph.tensor(conv.inputs[0])
    return _Head(conv, reshape, source, weights, result, anchors, values, parts)


def _parts(facts: GraphFacts, members: Collection[int], whole: int) -> list[_Part]:
    """Return what the readers of ``whole`` cut out of its last dimension; nothing if one does
    something else.
    """
    found = []
    for node in facts.readers.get(whole, ()):
        is_cut = node.index in members and facts.movement(node) is Movement.CUT
        if not is_cut or len(node.outputs) > 1:
            return []
        try:
            (part,) = parts_of(facts.graph, facts.operator(node), node)
        except MapError:
            return []
        if part.begin[:3] != (0, 0, 0) or part.part.shape[:3] != part.whole.shape[:3]:
            return []
        found.append(_Part(node, part.begin[3], part.channels))
    return found


def _is_cheaper(head: _Head, chip: Chip) -> bool:
    """Return whether the parts cost less as convolutions than as one and the tasks that move the
    channels of each anchor to pixels, which are convolutions of rows of one pixel.
    """
    pixels = head.result.shape[1] * head.result.shape[2]
    try:
        made = sum(_cycles(head, chip, head.anchors * part.lanes) for part in head.parts)
        whole = _cycles(head, chip, len(head.weights))
        moved = planned_cycles(chip, Axis(pixels, pixels), Axis(1, 1), head.values, head.values)
    except LoweringError:
        return False
    return made < whole + head.anchors * moved


def _cycles(head: _Head, chip: Chip, kernels: int) -> int:
    """Return the estimated cycles of the convolution with so many kernels. Raises LoweringError."""
    options = head.conv.known_options(ConvOptions)
    _, *taps, channels = head.weights.shape
    steps = (options.stride_h, options.dilation_h), (options.stride_w, options.dilation_w)
    sizes = zip(head.source.shape[1:3], head.result.shape[1:3], taps, steps, strict=True)
    rows, columns = (
        Axis(*size, *step, leading_padding(options.padding, *size, *step))
        for size, step in (((given, made, kernel), step) for given, made, kernel, step in sizes)
    )
    return planned_cycles(chip, rows, columns, channels, kernels)


@dataclass(slots=True)
class _Unfolding:
    """Makes the graph and the partition with ``head`` unfolded. ``back``: the nodes that bring
    elements in the model's order, by index.
    """

    to: Rewriter
    head: _Head
    back: list[int] = field(default_factory=list)
    _unfolded: dict[int, tuple[int, _Part]] = field(default_factory=dict)

    def made(self) -> tuple[Graph, Partition]:
        """Return both."""
        head, graph = self.head, self.to.graph
        facts = GraphFacts(graph)
        parts = {part.node.index: part for part in head.parts}
        for node in map(graph.node, self.to.partition.nodes):
            if node.index in (head.conv.index, head.reshape.index):
                self.to.put(node.index)
            elif node.index in parts:
                self._convolve(parts[node.index])
            elif part := self._part_of(facts, node):
                self._compute(node, part)
        self._bring_back()
        return self.to.made()

    def _convolve(self, part: _Part) -> None:
        """Add the convolution of ``part``."""
        head, kernels, (result,) = self.head, self.head.kernels(part), part.node.outputs
        source, weights, *biases = head.conv.inputs
        given = [source, self._selected(weights, kernels)]
        given += [b if b == ABSENT else self._selected(b, kernels) for b in biases]
        shape = (*head.result.shape[:3], kernels.size)
        made = self.to.add(self.to.graph.tensor(result), shape)
        self._unfolded[result] = made, part
        conv = replace(head.conv, index=part.node.index, given_op=part.node.stored_op)
        self.to.put(conv.index, replace(conv, inputs=tuple(given), outputs=(made,)))

    def _selected(self, index: int, kernels: npt.NDArray[np.int64]) -> int:
        """Add the constant of so many kernels with those of ``kernels``; others count as zero."""
        tensor = self.to.graph.tensor(index)
        values, scaling = tensor.constant, tensor.quantization
        assert values is not None
        made = values[np.maximum(kernels, 0)]
        made[kernels < 0] = 0
        if scaling is not None:
            # Per channel the zero points are 0.
            made[kernels < 0] = scaling.zero_points[0]
            if scaling.is_per_channel:
                places = np.maximum(kernels, 0).tolist()
                scales, zeros = (
                    tuple(numbers[place] for place in places)
                    for numbers in (scaling.scales, scaling.zero_points)
                )
                scaling = Quantization(scales, zeros, scaling.axis)
        return self.to.add(replace(tensor, quantization=scaling), made.shape, made)

    def _part_of(self, facts: GraphFacts, node: Node) -> _Part | None:
        """Return the part that ``node`` computes with element by element, nothing else but
        constants.
        """
        operator = facts.known_operator(node)
        if operator is None or operator.function is None or len(node.outputs) > 1:
            return None
        parts, shape = set(), facts.graph.tensor(node.outputs[0]).shape
        for index in operator.feature_inputs(node):
            tensor = facts.graph.tensor(index)
            if index in self._unfolded:
                parts.add(self._unfolded[index][1])
                if tensor.shape != shape:
                    return None
            elif tensor.constant is None or tensor.constant.shape != tensor.shape:
                return None
        return parts.pop() if len(parts) == 1 else None

    def _compute(self, node: Node, part: _Part) -> None:
        """Add ``node`` in the convolution's shape."""
        head, graph = self.head, self.to.graph
        result = graph.tensor(node.outputs[0])
        given = []
        for index in node.inputs:
            if index in self._unfolded:
                given.append(self._unfolded[index][0])
            elif index == ABSENT or graph.tensor(index).constant is None:
                given.append(index)
            else:
                given.append(self._spread(index, result.shape, part))
        shape = (*head.result.shape[:3], head.anchors * part.lanes)
        made = self.to.add(result, shape)
        self._unfolded[result.index] = made, part
        self.to.put(node.index, replace(node, inputs=tuple(given), outputs=(made,)))

    def _spread(self, index: int, shape: Sequence[int], part: _Part) -> int:
        """Add a constant as the operand of a map of ``shape`` in the convolution's one."""
        tensor, head = self.to.graph.tensor(index), self.head
        values = tensor.constant
        assert values is not None
        if values.size == 1:
            return index
        wide = values.reshape((1,) * (RANK - values.ndim) + values.shape)
        is_map = wide.shape[1] > 1
        wide = np.broadcast_to(wide, (1, shape[1] if is_map else 1, *shape[2:]))
        spare = part.lanes - part.size
        wide = np.pad(wide, ((0, 0), (0, 0), (0, 0), (0, spare)), mode="edge")
        pixels = head.result.shape[1:3] if is_map else (1, 1)
        made = wide.reshape(1, *pixels, -1)
        return self.to.add(tensor, made.shape, made)

    def _bring_back(self) -> None:
        """Add what brings tensors in the model's order that others read, or that are results."""
        ends = {*self.to.partition.outputs, *self.to.graph.outputs}
        wanted = ends | {t for node in self.to.nodes for t in node.inputs}
        for tensor, (unfolded, part) in self._unfolded.items():
            if tensor in wanted:
                self._back(tensor, unfolded, part)

    def _back(self, tensor: int, unfolded: int, part: _Part) -> None:
        """Add nodes behind the one that makes ``unfolded`` that make ``tensor`` of it."""
        to, given = self.to, self.to.graph.tensor(tensor)
        shape = (*given.shape[:3], part.lanes)
        wide, numbers = to.add(given, shape), to.numbers(shape)
        begin, size = to.numbers((0,) * RANK), to.numbers(given.shape)
        self.back += (to.spare, to.spare + 1)
        to.put_behind(
            unfolded,
            Node(to.spare, RESHAPE, (unfolded, numbers), (wide,)),
            Node(to.spare + 1, SLICE, (wide, begin, size), (tensor,)),
        )
