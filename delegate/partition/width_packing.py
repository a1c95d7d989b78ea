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

from collections.abc import Collection, Sequence
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
    Tensor,
)
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.operator import ABSENT, GraphFacts
from delegate.ops.shared.convolution import have_plain_kernels, most_kernel, most_stride
from delegate.ops.shared.image_rules import RANK
from delegate.ops.shared.padding import AMOUNTS, pad_amounts
from delegate.partition.rules import facts_of

T = TypeVar("T")

PAIR = 2


def pack_width(graph: Graph, partition: Partition, chip: Chip) -> Graph:
    """Return ``graph``, or one whose nodes do the same on pairs of pixels where that is cheaper.
    Their kernels have more rows than columns, or the other way round.
    """
    if Primitive.UNEQUAL_SIDES in chip.lacks:
        return graph
    members, outputs = frozenset(partition.nodes), frozenset(partition.outputs)
    pairing = _Pairing(facts_of(graph, chip), members, outputs)
    for node in map(graph.node, partition.nodes):
        if not any(graph.tensor(t).dtype is DType.FLOAT32 for t in node.outputs):
            pairing.pair(node)
    return pairing.graph()


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
    def __init__(
        self, facts: GraphFacts, members: Collection[int], outputs: Collection[int]
    ) -> None:
        self._facts, self._members, self._outputs = facts, members, outputs
        self._tensors = list(facts.graph.tensors)
        self._nodes: dict[int, Node] = {}

    def graph(self) -> Graph:
        if not self._nodes:
            return self._facts.graph
        given = self._facts.graph
        nodes = tuple(self._nodes.get(node.index, node) for node in given.nodes)
        return replace(given, tensors=tuple(self._tensors), nodes=nodes)

    def pair(self, maker: Node) -> None:
        """Pair the result of ``maker``, if it is a convolution of few channels."""
        if maker.index in self._nodes or not self._is_dense(maker):
            return
        result = self._tensors[maker.outputs[0]]
        images, height, width, channels = result.shape
        if width % PAIR or PAIR * channels > self._facts.chip.groups.dense_kernels:
            return
        found = self._followed(maker.outputs[0])
        if found is None:
            return
        first = self._making(maker)
        second = None if found.reader is None else self._reading(found.reader, found.pad)
        if first is None or second is None:
            return
        shape = (images, height, width // PAIR, PAIR * channels)
        for tensor in found.tensors:
            self._tensors[tensor] = replace(self._tensors[tensor], shape=shape, shape_signature=())
        self._nodes[maker.index] = first.node(self)
        assert found.reader is not None
        self._nodes[found.reader.index] = second.node(self)
        if found.pad is not None:
            self._pad(found.pad, second)

    def add(self, tensor: Tensor, constant: npt.NDArray[np.generic], scale: bool = False) -> int:
        """Add a constant instead of ``tensor``; ``scale``: with its scales once more."""
        quantization = tensor.quantization
        if scale and quantization is not None and quantization.is_per_channel:
            quantization = Quantization(
                quantization.scales * PAIR, quantization.zero_points * PAIR, quantization.axis
            )
        made = replace(
            tensor,
            index=len(self._tensors),
            shape=constant.shape,
            constant=constant,
            quantization=quantization,
        )
        self._tensors.append(made)
        return made.index

    def _is_dense(self, node: Node) -> bool:
        options = self._facts.options(node)
        if not isinstance(options, ConvOptions) or options.dilation_w != 1:
            return False
        source, weights = (self._tensors[index] for index in node.inputs[:2])
        return have_plain_kernels(weights, source)

    def _followed(self, first: int) -> _Map | None:
        """Return the functions from node ``first`` to one convolution; None: others use the
        tensors.
        """
        found = _Map([first])
        for tensor in found.tensors:
            if tensor in self._outputs or tensor in self._facts.graph.outputs:
                return None
            for node in dict.fromkeys(self._facts.readers.get(tensor, ())):
                if node.index not in self._members or node.index in self._nodes:
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
            return self._tensors[node.outputs[0]].shape == self._tensors[tensor].shape
        if found.reader is not None:
            return False
        if operator.pads is not None:
            readers = self._facts.readers.get(node.outputs[0], ())
            if len(readers) != 1 or node.outputs[0] in self._outputs:
                return False
            found.pad, (node,) = node, readers
            tensor = found.pad.outputs[0]
        found.reader = node
        is_reader = node.index in self._members and node.inputs[0] == tensor
        return is_reader and self._is_dense(node)

    def _is_single(self, tensor: int) -> bool:
        """Return whether a tensor is a constant that is the same for all pixels and channels."""
        constant = self._tensors[tensor].constant
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
        source, target = self._tensors[node.inputs[0]].shape, self._tensors[node.outputs[0]].shape
        if options.stride_w != PAIR:
            return None
        if pad is None:
            left = leading_padding(options.padding, source[2], target[2], kw, PAIR, 1)
            width = source[2] // PAIR
        elif options.padding is Padding.VALID:
            (_, _), _, (left, _), channels = pad_amounts(self._facts.graph, pad)
            width = self._tensors[pad.inputs[0]].shape[2] // PAIR
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
        constant = self._tensors[node.inputs[1]].constant
        assert constant is not None
        return constant

    def _empty(self, node: Node, shape: Sequence[int]) -> npt.NDArray[Any]:
        """Return weights that count as zero."""
        tensor = self._tensors[node.inputs[1]]
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
        source = self._tensors[pad.inputs[0]].shape
        shape = tuple(size + sum(side) for size, side in zip(source, amounts.tolist(), strict=True))
        assert len(shape) == RANK
        result = pad.outputs[0]
        self._tensors[result] = replace(self._tensors[result], shape=shape, shape_signature=())
        numbers = self._tensors[pad.inputs[AMOUNTS]]
        given = list(pad.inputs)
        given[AMOUNTS] = self.add(numbers, amounts.astype(self._dtype(numbers)))
        self._nodes[pad.index] = replace(pad, inputs=tuple(given))

    @staticmethod
    def _dtype(tensor: Tensor) -> np.dtype[Any]:
        assert tensor.constant is not None
        return tensor.constant.dtype

    def tensor(self, index: int) -> Tensor:
        return self._tensors[index]


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

    def node(self, pairing: _Pairing) -> Node:
        """Return the node with its constants in ``pairing``'s graph."""
        source, weights, *bias = self.conv.inputs
        given = [source, pairing.add(pairing.tensor(weights), self.weights, self.is_twice)]
        for index in bias:
            constant = None if index == ABSENT else pairing.tensor(index).constant
            if constant is None or not self.is_twice:
                given.append(index)
                continue
            twice = np.concatenate([constant.reshape(-1)] * PAIR)
            given.append(pairing.add(pairing.tensor(index), twice, scale=True))
        assert self.conv.options is not None
        options = _Changed(self.conv.options, (("stride_w", self.stride),))
        return replace(self.conv, inputs=tuple(given), options=options)
