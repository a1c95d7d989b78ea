"""Measures how far a quantised model is from its float model, layer by layer, over pictures.

In: a prepared float model, a model made of it, and pictures. Both run on the CPU, each with its own
input of the same picture; results of layers are compared by their tensors' names. Out: for every
layer the signal to noise, the cosine, and the noise that the layer adds to what its inputs bring.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.errors import ModelError
from delegate.host.delegated import ReferenceModel
from delegate.model.graph import DType, Graph, Node, Tensor
from delegate.model.tflite_reader import read_graph
from rk3588_vision.quantization.float_model import MADE, FloatModel
from rk3588_vision.quantization.picture_input import PictureInput
from rk3588_vision.quantization.ranges import Range, relu_limits

BEST_DB = 120.0
"""The decibels that a tensor without any noise counts in means."""
_COMPARED = frozenset({DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16})


@dataclass(slots=True)
class Distance:
    """The distance of a tensor from the wanted one, picture by picture. Figures are those of the
    middle picture (the median): a single odd picture has many times the power of the others.
    """

    shares: list[float] = field(default_factory=list)
    cosines: list[float] = field(default_factory=list)
    worst: float = 0.0

    def add(self, wanted: npt.NDArray[Any], given: npt.NDArray[Any]) -> None:
        """Add the pair of tensors of one picture, as real values."""
        a, b = (values.astype(np.float32, copy=False).ravel() for values in (wanted, given))
        difference = a - b
        signal, other, noise = (float(values @ values) for values in (a, b, difference))
        share = noise / signal if signal else math.inf
        self.shares.append(share if noise else 0.0)
        lengths = math.sqrt(signal) * math.sqrt(other)
        alike = 1.0 if signal == other else 0.0
        self.cosines.append(min(float(a @ b) / lengths, 1.0) if lengths else alike)
        self.worst = max(self.worst, float(np.abs(difference).max(initial=0.0)))

    @property
    def noise_share(self) -> float:
        """The noise's power as a share of the signal's; infinite for noise without a signal."""
        return statistics.median_high(self.shares)

    @property
    def snr_db(self) -> float:
        """Signal to noise in decibels; infinite without noise."""
        share = self.noise_share
        if share == 0.0:
            return math.inf
        return -math.inf if math.isinf(share) else -10.0 * math.log10(share)

    @property
    def cosine(self) -> float:
        """1 where both tensors point the same way; 1 for two tensors of zeros."""
        return statistics.median_low(self.cosines)


@dataclass(frozen=True, slots=True)
class Pair:
    """A tensor of the float model and the one that the other model has in its place. ``limits``:
    what a RELU behind it leaves of its values, when nobody else reads them.
    """

    wanted: int
    given: int
    limits: Range | None = None
    distance: Distance = field(default_factory=Distance)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer. ``node`` is its number in the compared model, ``reference`` that in the float
    model; ``adds`` the share of noise in its result beyond what its noisiest input brings.
    """

    node: int
    reference: int
    op: str
    name: str
    distance: Distance
    inputs_db: float
    adds: float
    is_float: bool


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The comparison. ``unmatched``: layers of the float model without a counterpart; ``top1``: how
    many pictures have the same best class, None where the model has no single list of scores.
    """

    layers: tuple[Layer, ...]
    outputs: tuple[tuple[str, Distance], ...]
    unmatched: tuple[str, ...]
    pictures: int
    top1: int | None

    @property
    def mean_db(self) -> float:
        """The mean signal to noise of the outputs, by which models are compared."""
        levels = [min(distance.snr_db, BEST_DB) for _, distance in self.outputs]
        return sum(max(level, -BEST_DB) for level in levels) / len(levels)

    def worst_first(self) -> list[Layer]:
        """Return the layers by the noise they add, most first."""
        return sorted(self.layers, key=lambda layer: (-layer.adds, layer.reference))


def compare_layers(
    reference: FloatModel,
    content: Path | bytes,
    pictures: Sequence[Path],
    prepared: PictureInput,
    *,
    with_layers: bool = True,
    done: Callable[[], None] = lambda: None,
) -> Accuracy:
    """Compare a model, or its ``content``, with the float model it was made from, without
    ``with_layers`` the outputs alone; ``done`` is called per picture.

    Raises ModelError if the two do not belong together, or a runtime refuses one.
    """
    model, graph = content if isinstance(content, Path) else MADE, read_graph(content)
    if len(graph.inputs) != 1:
        raise ModelError(f"{model}: has {len(graph.inputs)} inputs; pictures need a model with one")
    pairs = _pairs(reference, graph, model) if with_layers else []
    outputs = _output_pairs(reference.graph, graph, model)
    entry = Distance()
    agreed = 0
    wanted = _runner(reference.content, [p.wanted for p in (*pairs, *outputs)])
    given = _runner(content, [p.given for p in (*pairs, *outputs)])
    for picture in pictures:
        samples = [prepared.sample(picture, r.inputs[0]) for r in (wanted, given)]
        entry.add(samples[0], _real(samples[1], graph.tensor(graph.inputs[0])))
        best = [np.argmax(r.run([s])[0]) for r, s in zip((wanted, given), samples, strict=True)]
        agreed += int(best[0] == best[1])
        for pair in (*pairs, *outputs):
            values = _real(given.tensor(pair.given), graph.tensor(pair.given))
            compared = [wanted.tensor(pair.wanted), values]
            if pair.limits is not None:
                compared = [np.clip(tensor, *pair.limits) for tensor in compared]
            pair.distance.add(*compared)
        done()
    by_tensor = {p.wanted: p for p in pairs}
    layers = [
        _layer(node, by_tensor, reference.graph, graph, entry)
        for node in reference.graph.nodes
        if node.outputs[0] in by_tensor
    ]
    names = [reference.graph.tensor(p.wanted).name for p in outputs]
    return Accuracy(
        layers=tuple(layers),
        outputs=tuple(zip(names, (p.distance for p in outputs), strict=True)),
        unmatched=tuple(
            reference.graph.tensor(node.outputs[0]).name
            for node in reference.graph.nodes
            if node.outputs[0] not in by_tensor
        ),
        pictures=len(pictures),
        top1=agreed if _is_score_list(reference.graph) else None,
    )


def spread(pictures: Sequence[Path], most: int) -> Sequence[Path]:
    """Return at most ``most`` of the pictures, spread over all: for what is tried several times."""
    return pictures[:: max(len(pictures) // most, 1)][:most]


def _runner(model: Path | bytes, tensors: Sequence[int]) -> ReferenceModel:
    return ReferenceModel.load(model, reference_kernels=False, tensors=tensors)


def _real(values: npt.NDArray[Any], tensor: Tensor) -> npt.NDArray[np.float32]:
    real = values.astype(np.float32, copy=False)
    if tensor.dtype is DType.FLOAT32 or tensor.quantization is None:
        return real
    zero_point, scale = tensor.quantization.zero_point, tensor.quantization.scale
    return (real - np.float32(zero_point)) * np.float32(scale)


def _is_comparable(tensor: Tensor) -> bool:
    quantized = tensor.quantization
    if tensor.dtype not in _COMPARED or tensor.constant is not None:
        return False
    return tensor.dtype is DType.FLOAT32 or (quantized is not None and not quantized.is_per_channel)


def _pairs(reference: FloatModel, graph: Graph, model: object) -> list[Pair]:
    """Return the tensors of layers that both models have, in the float model's order."""
    computed = {t for node in graph.nodes for t in node.outputs}
    limits = relu_limits(reference.graph)
    by_name = {
        tensor.name: tensor.index
        for tensor in graph.tensors
        if tensor.index in computed and _is_comparable(tensor)
    }
    pairs = []
    for wanted in reference.activations():
        source = reference.graph.tensor(wanted)
        given = by_name.get(source.name)
        if wanted in reference.graph.inputs or given is None:
            continue
        if graph.tensor(given).shape == source.shape:
            pairs.append(Pair(wanted, given, limits.get(wanted)))
    if not pairs:
        raise ModelError(
            f"{model}: no layer has the name and shape of one in {reference.source}; the reference "
            "must be the float model that it was made from"
        )
    return pairs


def _output_pairs(wanted: Graph, given: Graph, model: object) -> list[Pair]:
    """Match outputs by name, else by their place."""
    names = {given.tensor(t).name: t for t in given.outputs}
    by_place = len(wanted.outputs) == len(given.outputs)
    pairs = []
    for place, tensor in enumerate(wanted.outputs):
        source = wanted.tensor(tensor)
        found = names.get(source.name, given.outputs[place] if by_place else None)
        if found is None or given.tensor(found).shape != source.shape:
            raise ModelError(
                f"{model}: has no output like {source.name!r} of shape {list(source.shape)}, which "
                "the reference has"
            )
        pairs.append(Pair(tensor, found))
    return pairs


def _is_score_list(graph: Graph) -> bool:
    shape = graph.tensor(graph.outputs[0]).shape
    return len(graph.outputs) == 1 and len(shape) == 2 and shape[0] == 1 and shape[1] > 1


def _layer(
    node: Node, pairs: dict[int, Pair], wanted: Graph, given: Graph, entry: Distance
) -> Layer:
    pair = pairs[node.outputs[0]]
    sources = [pairs[t].distance for t in node.inputs if t in pairs]
    if any(t in wanted.inputs for t in node.inputs):
        sources.append(entry)
    brought = max((s.noise_share for s in sources), default=0.0)
    made = next(n for n in given.nodes if pair.given in n.outputs)
    return Layer(
        node=made.index,
        reference=node.index,
        op=made.op,
        name=given.tensor(pair.given).name,
        distance=pair.distance,
        inputs_db=min((s.snr_db for s in sources), default=math.inf),
        adds=0.0 if math.isinf(brought) else max(pair.distance.noise_share - brought, 0.0),
        is_float=given.tensor(pair.given).dtype is DType.FLOAT32,
    )
