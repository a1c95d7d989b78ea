"""Maps of few channels as pairs of pixels: half the columns, twice the channels.

The MAC array makes 32 channels at a time of 32 at a time. A convolution with up to 16 kernels uses
half of it, as does one that reads its result with a stride of 2. Two pixels side by side as one of
twice the channels: the first convolution has its kernels twice, moved by its stride, the second
one those of its taps that lie in the same pair in one step. Weights in between count as zero, so
sums are the same, and functions of one value in between do not see the difference.

Comes from: a partition whose nodes keep the rules. Goes to: ``workload``, which lowers the graph
that this gives instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip, Primitive
from delegate.lower.weights import leading_padding
from delegate.model.graph import (
    DType,
    Graph,
    Node,
    Padding,
    Partition,
    Quantization,
    StoredOptions,
)
from delegate.ops.conv_2d import ConvOptions, plain_options
from delegate.ops.operator import ABSENT, GraphFacts
from delegate.ops.shared.convolution import most_kernel, most_stride
from delegate.ops.shared.image_rules import RANK
from delegate.ops.shared.padding import AMOUNTS, pad_amounts
from delegate.partition.partitions import Rewriter

T = TypeVar("T")

PAIR = 2


def pack_width(graph: Graph, partition: Partition, chip: Chip) -> Graph:
    """Return ``graph``, or one whose nodes do the same on pairs of pixels where that is cheaper.
    Their kernels have more rows than columns, or the other way round.
    """
    if Primitive.UNEQUAL_SIDES in chip.lacks:
        return graph
    facts = GraphFacts(graph, chip)
    makers = [node for node in map(graph.node, partition.nodes) if _has_few_channels(facts, node)]
    if not makers:
        return graph
    pairing = _Pairing(facts, partition)
    for node in makers:
        pairing.pair(node)
    return pairing.to.made()[0] if pairing.to.changed else graph


def _has_few_channels(facts: GraphFacts, node: Node) -> bool:
    """Return whether ``node`` is a convolution whose result may become pairs."""
    if not _is_dense(facts, node):
        return False
    result = facts.graph.tensor(node.outputs[0])
    _, _, width, channels = result.shape
    is_narrow = PAIR * channels <= facts.chip.groups.dense_kernels
    return result.dtype is not DType.FLOAT32 and width % PAIR == 0 and is_narrow


def _is_dense(facts: GraphFacts, node: Node) -> bool:
    options = plain_options(facts, node)
    return options is not None and options.dilation_w == 1


@dataclass(frozen=True, slots=True)
class _Changed:
    """Options of which some fields are other ones."""

    options: StoredOptions
    fields: tuple[tuple[str, Any], ...]

    def decode(self, kind: type[T]) -> T | None:
        found = self.options.decode(kind)
        return None if found is None else replace(found, **dict(self.fields))  # type: ignore[type-var]


@dataclass(slots=True)
class _Map:
    """Tensors that become pairs together, from ``maker`` on, until ``reader`` reads the last one,
    perhaps behind ``pad``.
    """

    tensors: list[int] = field(default_factory=list)
    reader: Node | None = None
    pad: Node | None = None


class _Pairing:
    """Puts nodes that compute on pairs of pixels in the place of those that do so on pixels."""

    def __init__(self, facts: GraphFacts, partition: Partition) -> None:
        self._facts, self._members = facts, frozenset(partition.nodes)
        self._ends = {*partition.outputs, *facts.graph.outputs}
        self.to = Rewriter(facts.graph, partition)

    def pair(self, maker: Node) -> None:
        """Pair the result of ``maker``, a convolution of few channels, where that is cheaper."""
        if maker.index in self.to.changed:
            return
        tensors = self.to.tensors
        images, height, width, channels = tensors[maker.outputs[0]].shape
        found = self._followed(maker.outputs[0])
        if found is None:
            return
        first = self._making(maker)
        second = None if found.reader is None else self._reading(found.reader, found.pad)
        if first is None or second is None:
            return
        shape = (images, height, width // PAIR, PAIR * channels)
        for tensor in found.tensors:
            tensors[tensor] = replace(tensors[tensor], shape=shape, shape_signature=())
        for kernels in (first, second):
            self.to.put(kernels.conv.index, kernels.node(self.to))
        if found.pad is not None:
            self._pad(found.pad, second)

    def _followed(self, first: int) -> _Map | None:
        """Return the functions from node ``first`` to one convolution; None: others use the
        tensors.
        """
        found = _Map([first])
        for tensor in found.tensors:
            if tensor in self._ends:
                return None
            for node in dict.fromkeys(self._facts.readers.get(tensor, ())):
                if node.index not in self._members or node.index in self.to.changed:
                    return None
                if not self._is_followed(found, tensor, node):
                    return None
        return found if found.reader is not None else None

    def _is_followed(self, found: _Map, tensor: int, node: Node) -> bool:
        operator = self._facts.operator(node)
        if operator.function is not None:
            others = (t for t in operator.feature_inputs(node) if t not in found.tensors)
            if not all(self._is_single(t) for t in others):
                return False
            if node.outputs[0] not in found.tensors:
                found.tensors.append(node.outputs[0])
            made, given = (self.to.tensors[index] for index in (node.outputs[0], tensor))
            return made.shape == given.shape
        if found.reader is not None:
            return False
        if operator.pads is not None:
            readers = self._facts.readers.get(node.outputs[0], ())
            if len(readers) != 1 or node.outputs[0] in self.to.partition.outputs:
                return False
            found.pad, (node,) = node, readers
            tensor = found.pad.outputs[0]
        found.reader = node
        is_reader = node.index in self._members and node.inputs[0] == tensor
        return is_reader and _is_dense(self._facts, node)

    def _is_single(self, tensor: int) -> bool:
        """Return whether a tensor is a constant that is the same for all pixels and channels."""
        constant = self.to.tensors[tensor].constant
        return constant is not None and constant.size == 1

    def _making(self, node: Node) -> _Kernels | None:
        """Return kernels for the left pixel, then for the right one."""
        options = node.known_options(ConvOptions)
        values = self._values(node)
        outputs, kh, kw, inputs = values.shape
        stride = options.stride_w
        made = self._empty(node, (PAIR, outputs, kh, kw + stride, inputs))
        for pixel in range(PAIR):
            made[pixel, :, :, pixel * stride : pixel * stride + kw] = values
        weights = made.reshape(PAIR * outputs, kh, kw + stride, inputs)
        chip = self._facts.chip
        if kw + stride > most_kernel(chip) or PAIR * stride > most_stride(chip):
            return None
        if self._steps(weights.shape) >= PAIR * self._steps(values.shape):
            return None
        return _Kernels(node, weights, PAIR * stride, is_twice=True)

    def _reading(self, node: Node, pad: Node | None) -> _Kernels | None:
        """Return kernels with a stride of one pair, whose channels are the taps of a pair."""
        options = node.known_options(ConvOptions)
        values = self._values(node)
        outputs, kh, kw, inputs = values.shape
        tensors = self.to.tensors
        source, target = (tensors[t].shape for t in (node.inputs[0], node.outputs[0]))
        if options.stride_w != PAIR:
            return None
        if pad is None:
            left = leading_padding(options.padding, source[2], target[2], kw, PAIR, 1)
            width = source[2] // PAIR
        elif options.padding is Padding.VALID:
            (_, _), _, (left, _), channels = pad_amounts(self._facts.graph, pad)
            width = tensors[pad.inputs[0]].shape[2] // PAIR
            if any(channels):
                return None
        else:
            return None
        before = -(-left // PAIR)
        taps = (kw - 1 - left) // PAIR + before + 1
        made = self._empty(node, (outputs, kh, taps, PAIR, inputs))
        for tap in range(kw):
            pair, pixel = divmod(tap - left, PAIR)
            made[:, :, pair + before, pixel] = values[:, :, tap]
        weights = made.reshape(outputs, kh, taps, PAIR * inputs)
        if self._steps(weights.shape) > self._steps(values.shape):
            return None
        after = max(target[2] - 1 + taps - before - width, 0)
        if pad is None:
            again = leading_padding(options.padding, width, target[2], taps, 1, 1)
            is_same = options.padding is Padding.SAME and again == before
            if not is_same and (before or after):
                return None
        return _Kernels(node, weights, 1, sides=(before, after))

    def _values(self, node: Node) -> npt.NDArray[np.generic]:
        constant = self.to.tensors[node.inputs[1]].constant
        assert constant is not None
        return constant

    def _empty(self, node: Node, shape: Sequence[int]) -> npt.NDArray[Any]:
        """Return weights that count as zero."""
        tensor = self.to.tensors[node.inputs[1]]
        assert tensor.quantization is not None
        zero = tensor.quantization.zero_points[0]  # per channel: 0 for all
        return np.full(shape, zero, self._values(node).dtype)

    def _steps(self, shape: Sequence[int]) -> int:
        """Return the steps of the MAC array for a pixel, see ``npu.perf``."""
        outputs, kh, kw, inputs = shape
        groups, chip = self._facts.chip.groups, self._facts.chip
        steps = kh * kw * -(-inputs // groups.input_lanes)
        return -(-outputs // groups.dense_kernels) * max(steps, chip.rates.min_dense_steps)

    def _pad(self, pad: Node, reader: _Kernels) -> None:
        """Return pairs before and behind the columns instead of pixels."""
        before, rows, _, channels = pad_amounts(self._facts.graph, pad)
        amounts = np.array((before, rows, reader.sides, channels), np.int32)
        tensors = self.to.tensors
        source = tensors[pad.inputs[0]].shape
        shape = tuple(size + sum(side) for size, side in zip(source, amounts.tolist(), strict=True))
        assert len(shape) == RANK
        result = pad.outputs[0]
        tensors[result] = replace(tensors[result], shape=shape, shape_signature=())
        numbers = tensors[pad.inputs[AMOUNTS]]
        assert numbers.constant is not None
        given = list(pad.inputs)
        pairs = amounts.astype(numbers.constant.dtype)
        given[AMOUNTS] = self.to.add(numbers, pairs.shape, pairs)
        self.to.put(pad.index, replace(pad, inputs=tuple(given)))


@dataclass(frozen=True, slots=True)
class _Kernels:
    """The kernels that ``conv`` becomes: ``weights``, columns' stride, whether each kernel is there
    twice, and the pairs of padding before and behind its operand's.
    """

    conv: Node
    weights: npt.NDArray[Any]
    stride: int
    is_twice: bool = False
    sides: tuple[int, int] = (0, 0)

    def node(self, to: Rewriter) -> Node:
        """Return the node with its constants in the graph that ``to`` makes."""
        source, weights, *bias = self.conv.inputs
        given = [source, self._added(to, weights, self.weights)]
        for index in bias:
            constant = None if index == ABSENT else to.tensors[index].constant
            if constant is None or not self.is_twice:
                given.append(index)
                continue
            given.append(self._added(to, index, np.concatenate([constant.reshape(-1)] * PAIR)))
        assert self.conv.options is not None
        options = _Changed(self.conv.options, (("stride_w", self.stride),))
        return replace(self.conv, inputs=tuple(given), options=options)

    def _added(self, to: Rewriter, index: int, values: npt.NDArray[np.generic]) -> int:
        """Add a constant instead of tensor ``index``, with its scales once more if twice."""
        tensor = to.tensors[index]
        scaling = tensor.quantization
        if self.is_twice and scaling is not None and scaling.is_per_channel:
            scaling = Quantization(scaling.scales * PAIR, scaling.zero_points * PAIR, scaling.axis)
        return to.add(replace(tensor, quantization=scaling), values.shape, values)
