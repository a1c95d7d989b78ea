"""Find dilated convolutions that a converter stored as SPACE_TO_BATCH_ND, a convolution and
BATCH_TO_SPACE_ND, and say them as a PAD, a convolution with dilations and a RESHAPE. Several
convolutions may read the blocks, as the two gates of WaveNet's layers do.

The blocks' pixels become images of a batch, on which a convolution without dilation does what one
with it does on the image. Pixels that BATCH_TO_SPACE_ND crops were not worth a border. Nodes and
tensors keep their numbers; those in between have other shapes, so that all of them run on the NPU
or none does. A line of whole blocks is an image already, a row a block: taps lie one above the
other, and neither dilation nor zeros between taps are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.chips import DEFAULT
from delegate.lower.legalize import close_size
from delegate.model.graph import DType, Graph, Node, Padding, Tensor, read_only
from delegate.ops import OPERATORS
from delegate.ops.shared.convolution import ConvolutionOptions

SPLITS: Final = "SPACE_TO_BATCH_ND"
"""The operator that begins such a chain: graphs without it have none."""
_JOINS: Final = "BATCH_TO_SPACE_ND"
_CONVOLUTIONS: Final = ("CONV_2D", "DEPTHWISE_CONV_2D")
_RESHAPES: Final = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")
_RANK: Final = 4


@dataclass(frozen=True, slots=True)
class _Dilation:
    """``nodes``: from SPACE_TO_BATCH_ND to BATCH_TO_SPACE_ND. ``dilations`` and ``pads`` are of
    rows and columns; ``shapes``: what each node gives. ``kernel``: the sides of the weights.
    """

    nodes: tuple[Node, ...]
    kernel: tuple[int, ...]
    dilations: tuple[int, int]
    pads: npt.NDArray[np.int32]
    shapes: tuple[tuple[int, ...], ...]


def with_dilations(graph: Graph, denied: Collection[str] = ()) -> Graph:
    """Return ``graph`` with dilated convolutions; ``denied``: operators that stay as they are."""
    if {SPLITS, _JOINS} & set(denied):
        return graph
    readers: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for tensor in node.inputs:
            readers.setdefault(tensor, []).append(node)
    tensors = list(graph.tensors)
    changed: dict[int, Node] = {}
    together = []
    for node in graph.nodes:
        dilations = _dilations(graph, node, readers) if node.op == SPLITS else ()
        for found in dilations:
            changed.update((one.index, one) for one in _written(found, tensors))
        if dilations:
            together.append(frozenset(one.index for found in dilations for one in found.nodes))
    if not together:
        return graph
    nodes = tuple(changed.get(node.index, node) for node in graph.nodes)
    return replace(graph, tensors=tuple(tensors), nodes=nodes, together=tuple(together))


def _dilations(
    graph: Graph, first: Node, readers: Mapping[int, Sequence[Node]]
) -> tuple[_Dilation, ...]:
    """Return the convolutions that read what ``first`` gives; none where not all are dilated ones
    with the same blocks.
    """
    found = tuple(_dilation(graph, nodes) for nodes in _chains(graph, first, readers) or ())
    known = tuple(one for one in found if one is not None)
    shapes: dict[int, tuple[int, ...]] = {}
    for one in known:
        for node, shape in zip(one.nodes, one.shapes, strict=True):
            if shapes.setdefault(node.index, shape) != shape:
                return ()
    return known if len(known) == len(found) else ()


def _dilation(graph: Graph, nodes: tuple[Node, ...]) -> _Dilation | None:
    first = nodes[0]
    last, conv = nodes[-1], nodes[len(nodes) // 2]
    options = _options(conv)
    x, y = graph.tensor(first.inputs[0]), graph.tensor(last.outputs[0])
    rank = len(x.shape)
    sides = rank - 2
    numbers = [_numbers(graph, t) for t in (*first.inputs[1:], *last.inputs[1:])]
    if options is None or len(y.shape) != rank or any(n is None for n in numbers):
        return None
    blocks, pads, same, crops = (np.asarray(n) for n in numbers)
    if blocks.shape != (sides,) or pads.shape != (sides, 2) or crops.shape != (sides, 2):
        return None
    less = pads - crops
    if not np.array_equal(blocks, same) or less.min() < 0 or blocks.min() < 1:
        return None
    if not _keeps_values(graph, nodes):
        return None
    constant = graph.tensor(conv.inputs[1]).constant
    weights = graph.tensor(conv.inputs[1]).shape
    if len(weights) != _RANK:
        return None
    images, *size, channels = x.shape
    kernel = weights[1:3]
    if sides == 1:  # rows or columns of one pixel, as the convolution sees them
        seen = graph.tensor(conv.inputs[0]).shape
        if 1 not in kernel or seen[1:3].count(1) != 1:
            return None
        along = 1 if seen[1] == 1 else 0
        if kernel[1 - along] != 1:
            return None
        sizes: tuple[int, ...] = kernel[along : along + 1]
    else:
        along, sizes = 0, kernel
    wide = [n + int(sum(pad)) for n, pad in zip(size, less, strict=True)]
    after = [n - int(b) * (k - 1) for n, b, k in zip(wide, blocks, sizes, strict=True)]
    outputs = y.shape[-1]
    if list(y.shape[1:-1]) != after or min(after) < 1 or not x.has_fixed_image:
        return None
    shapes: list[tuple[int, ...]] = [(images, *wide, channels)]
    block = int(blocks[0])
    is_known = constant is not None and constant.shape == weights
    is_whole = sides == 1 and wide[0] % block == 0 and is_known
    taps = (*sizes, 1) if is_whole else kernel
    if sides == 1:
        shapes += [
            (images, *((n // block, block) if is_whole else _placed(n, along)), c)
            for n, c in ((wide[0], channels), (after[0], outputs))
        ]
    else:
        shapes.append((images, *after, outputs))
    shapes += [(images, *after, outputs)] * (len(nodes) - len(shapes))
    spread = tuple(int(b) for b in blocks)
    rows, columns = (spread[0], spread[1]) if sides == 2 else _placed(spread[0], along)
    # A single tap lies nowhere apart.
    dilations = rows if weights[1] > 1 else 1, columns if weights[2] > 1 else 1
    if is_whole:
        dilations = 1, 1
    elif not _has_form(conv, kernel, dilations):
        return None
    return _Dilation(nodes, taps, dilations, less.astype(np.int32), tuple(shapes))


def _has_form(conv: Node, kernel: tuple[int, ...], dilations: tuple[int, int]) -> bool:
    """Return whether a task is known of such a convolution: dense with both dilations, or with
    zeros between taps. On images of a batch it has none.
    """
    if min(kernel) > 1 and min(dilations) > 1:
        return True
    size, is_depthwise = (kernel[0], kernel[1]), conv.op != _CONVOLUTIONS[0]
    return close_size(DEFAULT, size, dilations, is_depthwise=is_depthwise) is not None


def _placed(number: int, along: int) -> tuple[int, int]:
    """Return ``number`` for rows (0) or columns (1), and 1 for the others."""
    return (1, number) if along else (number, 1)


def _chains(
    graph: Graph, first: Node, readers: Mapping[int, Sequence[Node]]
) -> list[tuple[Node, ...]] | None:
    """Return the nodes from ``first`` to each BATCH_TO_SPACE_ND; None where others read a result
    in between.
    """
    ranks = {4: (_CONVOLUTIONS, (_JOINS,)), 3: (_RESHAPES, _CONVOLUTIONS, _RESHAPES, (_JOINS,))}
    if not _has_three_operands(first) or len(first.outputs) != 1:
        return None
    found: list[tuple[Node, ...]] = [(first,)]
    for kinds in ranks.get(len(graph.tensor(first.inputs[0]).shape), ((),)):
        longer = []
        for nodes in found:
            (result,) = nodes[-1].outputs
            for node in readers.get(result, ()):
                is_next = node.op in kinds and node.inputs[0] == result
                if not is_next or len(node.outputs) != 1 or result in node.inputs[1:]:
                    return None
                longer.append((*nodes, node))
            if result in graph.outputs:
                return None
        found = longer
    return found if all(_has_three_operands(nodes[-1]) for nodes in found) else None


def _has_three_operands(node: Node) -> bool:
    return len(node.inputs) == 3 and min(node.inputs) >= 0


def _options(conv: Node) -> ConvolutionOptions | None:
    """Return the options of a convolution without padding, strides and dilations."""
    kind = OPERATORS[conv.op].options
    options = None if kind is None else conv.options_as(kind)
    if not isinstance(options, ConvolutionOptions) or options.padding is not Padding.VALID:
        return None
    steps = (options.stride_h, options.stride_w, options.dilation_h, options.dilation_w)
    return options if steps == (1, 1, 1, 1) else None


def _numbers(graph: Graph, index: int) -> npt.NDArray[np.generic] | None:
    tensor = graph.tensor(index)
    is_known = tensor.dtype in (DType.INT32, DType.INT64) and index not in graph.inputs
    return tensor.constant if is_known else None


def _keeps_values(graph: Graph, nodes: Sequence[Node]) -> bool:
    """Return whether all but the convolution hand values on as they are."""
    for node in nodes:
        before, after = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
        is_same = (before.dtype, before.quantization) == (after.dtype, after.quantization)
        if node.op not in _CONVOLUTIONS and not is_same:
            return False
    return True


def _written(found: _Dilation, tensors: list[Tensor]) -> list[Node]:
    """Return the nodes of ``found`` as they are now; ``tensors`` get their shapes."""
    nodes = []
    for node, shape in zip(found.nodes, found.shapes, strict=True):
        (result,) = node.outputs
        if node is not found.nodes[-1]:
            given = tensors[result]
            tensors[result] = replace(
                given, shape=shape, stored_shape=given.shape, shape_signature=(), is_inner=True
            )
        if node.op in _CONVOLUTIONS:
            options = _options(node)
            assert options is not None
            rows, columns = found.dilations
            options = replace(options, dilation_h=rows, dilation_w=columns)
            turned = _with_kernel(node, found.kernel, tensors)
            nodes.append(replace(turned, options=options, given_op=node.op))
        elif node.op == SPLITS and found.pads.any():
            pads = np.concatenate([np.zeros((1, 2)), found.pads, np.zeros((1, 2))])
            nodes.append(with_constant(node, "PAD", pads, tensors))
        else:
            size = np.array([-1, *shape[1:]])
            nodes.append(with_constant(node, "RESHAPE", size, tensors))
    return nodes


def _with_kernel(node: Node, kernel: tuple[int, ...], tensors: list[Tensor]) -> Node:
    """Return a convolution whose weights have a ``kernel`` of as many taps."""
    weights = tensors[node.inputs[1]]
    shape = (weights.shape[0], *kernel, weights.shape[-1])
    if weights.shape == shape:
        return node
    assert weights.constant is not None
    index, constant = len(tensors), weights.constant.reshape(shape)
    tensors.append(replace(weights, index=index, shape=shape, constant=constant))
    return replace(node, inputs=(node.inputs[0], index, *node.inputs[2:]))


def with_constant(
    node: Node, op: str, numbers: npt.NDArray[np.generic], tensors: list[Tensor]
) -> Node:
    """Return ``node`` as ``op`` of its first input and of constant ``numbers``, which ``tensors``
    get.
    """
    constant = read_only(np.asarray(numbers, np.int32))
    name, index = f"{op} of node {node.index}", len(tensors)
    tensors.append(Tensor(index, name, constant.shape, DType.INT32, constant=constant))
    inputs = (node.inputs[0], index)
    return replace(node, op=op, inputs=inputs, options=None, given_op=node.op)
