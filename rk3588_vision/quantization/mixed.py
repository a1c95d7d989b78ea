"""Chooses the layers that stay in float, so that a model's outputs come nearer to the float
model's.

In: a prepared float model, the ranges of its tensors and pictures. Out: an int8 model in which some
layers are float32, which the NPU computes in fp16. A layer's result stays in float only with the
layers that read it, so the unit is a result: the layers that make it, move its values and read it.
Units are tried one by one, since noise of early layers grows on its way and no figure of a layer
alone tells what its noise does to the outputs. Then they are joined, the best first, each only if
the outputs gain by it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from delegate.model.graph import Graph
from rk3588_vision.quantization.float_model import FloatModel
from rk3588_vision.quantization.layer_errors import Accuracy, compare_layers, spread
from rk3588_vision.quantization.picture_input import PictureInput
from rk3588_vision.quantization.quantizer_package import quantize
from rk3588_vision.quantization.ranges import Range, moved_together, relu_limits

_MOST_PICTURES = 16
LEAST_GAIN_DB = 1.0
"""The gain that a unit must bring: each costs time, and cuts the model into more partitions."""
ENOUGH_DB = 50.0
"""Beyond it, nobody sees a difference of the outputs, and no further unit is joined."""
JOINS_PER_UNIT = 3


@dataclass(frozen=True, slots=True)
class Unit:
    """Nodes that stay in float together, the layer that led to them, and the outputs' mean signal
    to noise with these alone in float.
    """

    layer: str
    nodes: frozenset[int]
    mean_db: float


@dataclass(frozen=True, slots=True, eq=False)
class MixedModel:
    """The model with ``kept`` in float, of the units that were ``tried``; the outputs' mean signal
    to noise over all pictures, of the model in int8 alone and of this one.
    """

    content: bytes
    kept: tuple[Unit, ...]
    tried: tuple[Unit, ...]
    int8_db: float
    mixed_db: float


def most_models(units: int, trials: int) -> int:
    """Return how many models ``keep_worst_in_float`` makes and measures at most."""
    return 3 + trials + JOINS_PER_UNIT * units


def keep_worst_in_float(
    model: FloatModel,
    ranges: Mapping[int, Range],
    pictures: Sequence[Path],
    prepared: PictureInput,
    units: int,
    trials: int,
    *,
    done: Callable[[], None] = lambda: None,
) -> MixedModel:
    """Return the model with up to ``units`` units in float, of up to ``trials`` that are tried;
    ``done`` is called after every model that was measured (``most_models``).
    """
    few = spread(pictures, _MOST_PICTURES)

    def compared(content: bytes, seen: Sequence[Path], *, layers: bool = False) -> Accuracy:
        found = compare_layers(model, content, seen, prepared, with_layers=layers)
        done()
        return found

    def measured(floats: frozenset[int]) -> tuple[bytes, float]:
        content = quantize(model, ranges, floats)
        return content, compared(content, few).mean_db

    int8 = content = quantize(model, ranges)
    first = compared(int8, few, layers=True)
    tried = tuple(
        Unit(layer, nodes, measured(nodes)[1])
        for layer, nodes in _candidates(model.graph, first, trials)
    )
    kept: tuple[Unit, ...] = ()
    best_db = first.mean_db
    for unit in sorted(tried, key=lambda unit: -unit.mean_db)[: JOINS_PER_UNIT * units]:
        if len(kept) == units or best_db >= ENOUGH_DB:
            break
        candidate, mean_db = measured(unit.nodes.union(*(k.nodes for k in kept)))
        if mean_db >= best_db + LEAST_GAIN_DB:
            content, kept, best_db = candidate, (*kept, unit), mean_db
    alone, mixed = (compared(c, pictures).mean_db for c in (int8, content))
    if mixed < alone + LEAST_GAIN_DB:  # what gained was the few pictures alone
        return MixedModel(int8, (), tried, alone, alone)
    return MixedModel(content, kept, tried, alone, mixed)


def _candidates(graph: Graph, found: Accuracy, most: int) -> list[tuple[str, frozenset[int]]]:
    """Return up to ``most`` different units, with the layers that led to them: in turn those of the
    layer that adds most noise and of the first layer that is left.
    """
    in_turn = chain.from_iterable(zip(found.worst_first(), found.layers, strict=True))
    units: dict[frozenset[int], str] = {}
    for layer in in_turn:
        if len(units) < most:
            units.setdefault(_unit(graph, graph.node(layer.reference).outputs[0]), layer.name)
    return [(name, nodes) for nodes, name in units.items()]


def _unit(graph: Graph, tensor: int) -> frozenset[int]:
    """Return the nodes that make or read a tensor, or one that has to have its scale."""
    tied = next((group for group in moved_together(graph) if tensor in group), {tensor})
    limits = relu_limits(graph)
    for node in graph.nodes:
        if node.inputs[0] in limits and tied & {node.inputs[0], node.outputs[0]}:
            tied = tied | {node.inputs[0], node.outputs[0]}
    return frozenset(
        node.index for node in graph.nodes if tied.intersection((*node.inputs, *node.outputs))
    )
