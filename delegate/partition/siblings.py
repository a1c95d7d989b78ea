"""Convolutions of one map that differ in their kernels alone, two at a time as one.

The branches of a network often begin so, and each is a task that reads the same map. One
convolution with the kernels of both writes both results, one behind the other: two slices of its
result that cost nothing. Both have whole groups of channels, so that no padding lies in between.
Each channel keeps its scale, so its multiplier is the same, bit for bit.

Where a result lies in a concatenation, the other one has to lie behind it: which of both is first
follows from what is free.

Comes from: a partition whose nodes keep the rules. Goes to: ``workload``, which lowers the graph
that this gives instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.lower.numerics.tflite import quantize_multipliers
from delegate.lower.operation import Operation, Planning
from delegate.model.graph import (
    Activation,
    DType,
    Graph,
    Node,
    Partition,
    Quantization,
    Tensor,
)
from delegate.ops import conv_2d
from delegate.ops.operator import GraphFacts, Movement
from delegate.ops.shared.image_rules import RANK
from delegate.partition.partitions import SLICE, Rewriter, Rewritten
from delegate.partition.rules import check_node

FreeNodes = Callable[[Graph, Partition], int | None]
"""Return how many nodes that move data are free; None: one cannot run at all."""

SIBLINGS = 2

Pair = tuple[Node, Node]
"""Convolutions in the order of their results in memory."""


def join_siblings(given: Rewritten, chip: Chip, free_nodes: FreeNodes) -> Rewritten:
    """Return ``given`` with siblings joined where that is cheaper."""
    families = _families(GraphFacts(given.graph, chip), given.partition)
    free = free_nodes(given.graph, given.partition) if families else None
    if free is None:
        return given

    def is_free(made: Rewritten) -> bool:
        added = len(made.partition.nodes) - len(given.partition.nodes)  # two slices for one node
        return free_nodes(made.graph, made.partition) == free + SIBLINGS * added

    found = given
    for family in families:
        found = _with_joined(found, chip, family)
    if is_free(found):
        return found
    found = given
    for family in families:  # those that can be
        joined = _with_joined(found, chip, family)
        found = joined if is_free(joined) else found
    return found


def _with_joined(given: Rewritten, chip: Chip, family: Sequence[Node]) -> Rewritten:
    """Return ``given`` with as many of ``family`` joined as are better so."""
    for two in combinations(family, 2):
        facts = GraphFacts(given.graph, chip)
        one, other = sorted(two, key=lambda node: _order(facts, node))
        joined = _joined(facts, given, (one, other))
        if joined is not None:
            kept = [n.index for n in family if n.index in joined.partition.nodes]
            return _with_joined(joined, chip, [joined.graph.node(index) for index in kept])
    return given


def _order(facts: GraphFacts, node: Node) -> int:
    """Return the place of a result: one that ends a concatenation has room behind it, one that
    begins it has room before it.
    """
    result = node.outputs[0]
    for reader in facts.readers.get(result, ()):
        if facts.movement(reader) is Movement.JOIN:
            return 1 if facts.operator(reader).feature_inputs(reader)[0] == result else -1
    return 0


def _families(facts: GraphFacts, partition: Partition) -> list[list[Node]]:
    """Return the siblings whose results nobody outside needs, and no task of their own changes."""
    ends = {*partition.outputs, *facts.graph.outputs}
    found: dict[tuple[object, ...], list[Node]] = {}
    for node in map(facts.graph.node, partition.nodes):
        family = _family(facts, node)
        if family is not None and node.outputs[0] not in ends and not _is_followed(facts, node):
            found.setdefault(family, []).append(node)
    return [nodes for nodes in found.values() if len(nodes) > 1]


def _family(facts: GraphFacts, node: Node) -> tuple[object, ...] | None:
    """Return what siblings have in common; None: ``node`` is no convolution that has any."""
    options = conv_2d.plain_options(facts, node)
    if options is None:
        return None
    source, weights = (facts.graph.tensor(index) for index in node.inputs[:2])
    result = facts.graph.tensor(node.outputs[0])
    is_int8 = source.dtype is weights.dtype is result.dtype is DType.INT8
    is_int8 = is_int8 and facts.bias(node) is not None
    if not is_int8 or len(result.shape) != RANK:
        return None
    if result.shape[3] % facts.chip.groups.dense_kernels:
        return None
    assert result.quantization is not None
    # Other clamps lie where the scale puts them.
    is_plain = options.activation in (Activation.NONE, Activation.RELU)
    scale = None if is_plain else result.quantization.scale
    return source.index, options, weights.shape[1:3], result.quantization.zero_point, scale


def _is_followed(facts: GraphFacts, node: Node) -> bool:
    """Return whether a function or a sum of the result may join the convolution's own tasks."""
    readers = facts.readers.get(node.outputs[0], ())
    operators = [facts.known_operator(reader) for reader in readers]
    return bool(operators) and all(o is not None and o.function is not None for o in operators)


def _joined(facts: GraphFacts, given: Rewritten, pair: Pair) -> Rewritten | None:
    """Return ``given`` with one convolution instead of ``pair``; None: it would not be better."""
    made = _Joining(facts.graph, given.partition, pair)
    if made.quantization is None:
        return None
    graph, partition, conv = made.rewritten()
    is_kept = check_node(GraphFacts(graph, facts.chip), conv) is None
    if not is_kept or not _is_cheaper(graph, facts.chip, conv, pair, facts.graph):
        return None
    nodes = sorted({n for node in pair for n in (*given.before.get(node.index, ()), node.index)})
    return Rewritten(graph, partition, {**given.before, conv.index: tuple(nodes)})


def _is_cheaper(graph: Graph, chip: Chip, conv: Node, pair: Pair, given: Graph) -> bool:
    """Return whether ``conv`` costs less than ``pair``, by the modelled cycles and launches."""
    whole = conv_2d.cost(Planning(chip, graph, {}), _operation(conv))
    apart = [conv_2d.cost(Planning(chip, given, {}), _operation(node)) for node in pair]
    if whole is None or None in apart:
        return False
    return whole < sum(cost for cost in apart if cost is not None)


def _operation(node: Node) -> Operation:
    return Operation(node, (node.index,), node.inputs[:1], node.outputs[0], conv_2d.plan)


@dataclass(frozen=True, slots=True)
class _Joining:
    """Makes a graph and a partition with one convolution instead of ``pair``."""

    graph: Graph
    partition: Partition
    pair: Pair

    @property
    def quantization(self) -> Quantization | None:
        """Return that of all kernels, whose scales bring both to the first result's scale. None: a
        multiplier would not be the same.
        """
        first = self._tensors(-1)[0]
        source = self.graph.tensor(self.pair[0].inputs[0])
        assert first.quantization is not None
        assert source.quantization is not None
        scales: list[float] = []
        for result, weights in zip(self._tensors(-1), self._tensors(1), strict=True):
            assert weights.quantization is not None
            assert result.quantization is not None
            if any(weights.quantization.zero_points):
                return None
            given = np.broadcast_to(weights.quantization.scales, weights.shape[:1])
            made = given * (first.quantization.scale / result.quantization.scale)
            ratios = source.quantization.scale * given / result.quantization.scale
            again = source.quantization.scale * made / first.quantization.scale
            multipliers = map(quantize_multipliers, (ratios, again))
            if not all(map(np.array_equal, *multipliers)):
                return None
            scales += made.tolist()
        return Quantization(tuple(scales), (0,) * len(scales))

    def rewritten(self) -> tuple[Graph, Partition, Node]:
        """Return both, and the convolution."""
        to = Rewriter(self.graph, self.partition)
        results, kernels = self._tensors(-1), self._tensors(1)
        counts = [result.shape[3] for result in results]
        packed = np.concatenate([_constant(weights) for weights in kernels])
        weights = replace(kernels[0], quantization=self.quantization)
        summands = np.concatenate([_constant(given).reshape(-1) for given in self._tensors(2)])
        bias = replace(kernels[0], name="bias", dtype=DType.INT32, quantization=None)
        inputs = (
            self.pair[0].inputs[0],
            to.add(weights, packed.shape, packed),
            to.add(bias, summands.shape, summands),
        )
        made = to.add(results[0], (*results[0].shape[:3], sum(counts)))
        earlier, later = sorted(self.pair, key=self.graph.nodes.index)
        conv = replace(earlier, inputs=inputs, outputs=(made,))
        slices = []
        for number, result in enumerate(results):
            begin = to.numbers((0, 0, 0, sum(counts[:number])))
            given = made, begin, to.numbers(result.shape)
            slices.append(Node(to.spare + number, SLICE, given, (result.index,)))
        to.put(later.index)
        to.put(earlier.index, conv, *slices)
        return *to.made(), conv

    def _tensors(self, place: int) -> list[Tensor]:
        """Return the results of ``pair`` (-1), or its operands of one kind."""
        return [
            self.graph.tensor(node.outputs[0] if place < 0 else node.inputs[place])
            for node in self.pair
        ]


def _constant(tensor: Tensor) -> npt.NDArray[np.generic]:
    assert tensor.constant is not None
    return tensor.constant
