"""Define operators and rules: an operator is the record that each file of ``delegate.ops`` exports,
and what a rule is: a small function whose docstring is the sentence the user sees.

Comes from: one file per operator. Goes to: both readers (options), the partitioner (rules), the
generated page, cost and lowering. A check gets the facts of the graph and a node; it gives None, or
the value that breaks the rule ("stride_h is 9").
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.chips import DEFAULT
from delegate.errors import Rule
from delegate.lower.lowered import Fold
from delegate.lower.memory.tensors import View
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.selection import Move
from delegate.model.cached import cached_property
from delegate.model.graph import ABSENT as ABSENT
from delegate.model.graph import DType, Graph, Node, Tensor, find_disorder
from delegate.model.graph import named as named
from delegate.model.index_map import IndexMap
from delegate.model.operator_options import Options
from delegate.model.tflite_operators import BUILTIN_OPERATORS
from delegate.ops.shared.kinds import RESULT as RESULT
from delegate.ops.shared.kinds import HostValues as HostValues
from delegate.ops.shared.kinds import Movement as Movement
from delegate.ops.shared.kinds import OnImage as OnImage
from delegate.ops.shared.kinds import Role as Role
from delegate.ops.shared.kinds import Side as Side
from delegate.ops.shared.kinds import Turn as Turn
from delegate.ops.shared.kinds import Whole as Whole


@dataclass(eq=False)
class GraphFacts:
    """A graph, the chip that is to run it, and what several rules derive, derived once: by node
    what ``is_free`` found, by nodes what ``reorder_of`` did.
    """

    graph: Graph
    chip: Chip = DEFAULT
    free: dict[int, bool] = field(default_factory=dict)
    moves: dict[tuple[int, ...], Move | None] = field(default_factory=dict)
    _maps: dict[int, Sequence[IndexMap]] = field(default_factory=dict)

    def operator(self, node: Node) -> Operator:
        """The record of a node's operator, which must have one."""
        return record_of(self.graph, node)

    def known_operator(self, node: Node) -> Operator | None:
        """The same; None: the NPU does not take it by itself."""
        return known_record(self.graph, node)

    def movement(self, node: Node) -> Movement | None:
        """Return how a node without tasks moves data; None: it has tasks, or is none of ours."""
        operator = self.known_operator(node)
        return None if operator is None else operator.movement

    def options(self, node: Node) -> Options | None:
        """Return the node's options as its operator reads them; None: missing, unknown, or it has
        none.
        """
        kind = self.operator(node).options
        return None if kind is None else node.options_as(kind)

    def features(self, node: Node) -> list[Tensor]:
        """Feature maps: those it reads, then what it writes."""
        read = self.operator(node).feature_inputs(node)
        return [self.graph.tensor(t) for t in (*read, *node.outputs)]

    def inputs(self, node: Node) -> list[Tensor]:
        """The inputs that are there, in order."""
        return [self.graph.tensor(t) for t in node.inputs if t != ABSENT]

    def outputs(self, node: Node) -> list[Tensor]:
        return [self.graph.tensor(t) for t in node.outputs if t != ABSENT]

    def maps(self, node: Node) -> Sequence[IndexMap]:
        """See ``Operator.maps``, of an operator that has some. Raises MapError."""
        found = self._maps.get(node.index)
        if found is None:
            maps = self.operator(node).maps
            assert maps is not None, node.op
            found = self._maps[node.index] = maps(self.graph, node)
        return found

    def bias(self, node: Node) -> Tensor | None:
        """The bias, if the node has one."""
        found = next(iter(self.operator(node).inputs_of(node, Role.BIAS)), ABSENT)
        return None if found == ABSENT else self.graph.tensor(found)

    @cached_property
    def has_eight_bits(self) -> bool:
        """Return whether a node gives results of 8 bits."""
        return any(self.graph.tensor(t).dtype in (DType.INT8, DType.UINT8) for t in self.makers)

    @cached_property
    def makers(self) -> Mapping[int, Node]:
        """The node that writes each computed tensor."""
        return {t: node for node in self.graph.nodes for t in node.outputs if t != ABSENT}

    @cached_property
    def readers(self) -> Mapping[int, tuple[Node, ...]]:
        """The nodes that read each tensor, one for each time."""
        found: dict[int, list[Node]] = {}
        for node in self.graph.nodes:
            for tensor in node.inputs:
                found.setdefault(tensor, []).append(node)
        return {tensor: tuple(nodes) for tensor, nodes in found.items()}

    def readers_of_values(self, tensor: int) -> tuple[Node, ...]:
        """Return the readers while the model runs: not those that are computed from the shape."""
        found, folded = self.readers.get(tensor, ()), self.graph.folded
        return tuple(node for node in found if not folded.issuperset(node.outputs))

    @cached_property
    def disorder(self) -> str | None:
        """Say what keeps the nodes from running in the order of the file; None: nothing."""
        return find_disorder(self.graph)

    @cached_property
    def changing_constants(self) -> tuple[npt.NDArray[np.generic], ...]:
        """Constants that the host or a node may write: inputs of the model and outputs of nodes."""
        written = (t for node in self.graph.nodes for t in node.outputs if t != ABSENT)
        indices = {*written, *self.graph.inputs} - self.graph.folded
        found = (self.graph.tensor(index).constant for index in sorted(indices))
        return tuple(constant for constant in found if constant is not None)

    @cached_property
    def behind_dynamic(self) -> frozenset[int]:
        """Tensors of dynamic shape (beyond the batch) and all that is computed from them."""
        found = {tensor.index for tensor in self.graph.tensors if not tensor.has_fixed_image}
        for node in self.graph.nodes:
            if any(tensor in found for tensor in node.inputs):
                found.update(t for t in node.outputs if t != ABSENT)
        return frozenset(found)


Check = Callable[[GraphFacts, Node], str | None]

Shape = tuple[int, ...]
Shapes = Callable[[Graph, Node], Sequence[Shape]]

Maps = Callable[[Graph, Node], Sequence[IndexMap]]
"""One for each result; sources are numbered as ``Operator.feature_inputs`` gives them."""

Ends = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""The least and the largest value, of every channel or of all together."""

RangeOf = Callable[[int], tuple[float, float]]
"""The ends of a tensor's values."""

Ranges = Callable[[Graph, Node, RangeOf], Ends]

Values = npt.NDArray[np.int64]
Folds = Callable[[Graph, Node], npt.NDArray[np.generic] | None]
Real = Callable[[Node, Sequence[npt.NDArray[Any]]], npt.NDArray[Any]]
"""The results of elements of float32, raw values or truth values."""
Function = Callable[[Graph, Node, Sequence[Values]], Values]


@dataclass(frozen=True, slots=True)
class Constraint(Rule):
    """A rule that the node, its graph and the chip decide. ``ranges``: what the sentence leaves
    open, values or functions of the chip.
    """

    check: Check
    ranges: Mapping[str, object]

    def sentence_for(self, chip: Chip) -> str:
        """The sentence with the ranges of ``chip``."""
        ranges = {k: v(chip) if callable(v) else v for k, v in self.ranges.items()}
        return self.sentence.format(**ranges)


def constraint(**ranges: object) -> Callable[[Check], Constraint]:
    """Makes a check a ``Constraint``; ``ranges``, values or functions of the chip, are formatted
    into its docstring.
    """

    def wrap(check: Check) -> Constraint:
        # Python's -OO removes docstrings; the rule's name still says what is meant.
        text = check.__doc__ or check.__name__.replace("_", " ")
        return Constraint(check.__name__, " ".join(text.split()).rstrip("."), check, ranges)

    return wrap


def no_macs(graph: Graph, node: Node) -> int:
    """Return 0, for an operator that multiplies nothing."""
    return 0


def is_in_half(graph: Graph, node: Node) -> bool:
    """Return whether ``node`` is computed in fp16: where the graph is, and the node's output and
    its first input that is no shape or axis are float32.
    """
    if not graph.half:
        return False
    kinds = [None if t < 0 else graph.tensor(t).dtype for t in node.inputs]
    given = next((kind for kind in kinds if kind is not DType.INT32), None)
    results = [None if t < 0 else graph.tensor(t).dtype for t in node.outputs[:1]]
    return [given, *results] == [DType.FLOAT32] * 2


def is_real(graph: Graph, node: Node) -> bool:
    """Return whether ``node`` gives float32."""
    return any(t >= 0 and graph.tensor(t).dtype is DType.FLOAT32 for t in node.outputs)


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator that the NPU takes.

    ``name``: the builtin's. ``inputs``: the role of each, the last one repeated where ``repeats``;
    ``needed`` of them must be there (all, if None). ``most_outputs``: at least 1 is written.
    ``rules``: checked in this order, a later one relies on the earlier ones. ``options``: the class
    of its options; None: it has none that count. ``weights_axis``: the axis of the weights that
    counts output channels. ``macs``: multiply-accumulates of one run. ``pads_input``: its task can
    give pixels around its first input a value, so that a PAD before it needs none. ``movement``: of
    an alias. ``plan``: how it becomes tasks.
    ``function``: the results of elements, as the reference kernels compute them, from raw values of
    its feature maps (arrays that broadcast); what is beyond the result's type is clamped. Without
    a ``plan``, the operator runs on the NPU where its operands follow from one value.
    ``shapes``: those of its outputs, which follow from its inputs alone (ValueError: from these
    none do); left out, they are what the operands of ``function`` broadcast to.
    ``maps``: which element of which operand every element of a result is, where it computes
    nothing. Raises MapError.
    ``fold``: how the host may fold its first input. ``pads``: the rows above and columns left of
    the image that a neighbour gives its reader; ``hides``: whether all readers of the graph do what
    the node does, so that it needs no tasks. ``host_values``: what the host's conversion at an
    edge of the partition does so that the node needs no task; None: it cannot.
    ``follows_runtime``: reference kernels of runtimes differ, see ``Graph.rounds_once``.
    ``half``: makes of this record the one for float32 tensors that are computed in fp16,
    ``computed`` the one for weights that are no constant, feature maps there; see ``record_of``.
    ``folds``: its result where that follows from constants alone; None: not known. ``folds_once``:
    the runtime's kernel keeps that result from the first inference on. ``of_constants``: the result
    of a node that keeps the rules, but for its constant feature map. ``ranges``: the ends of its
    float32 results by those of its inputs; None: anything. ``real``: the results of
    elements in a function of 8 bits that is computed in float32, see ``shared.real_functions``;
    ``real_form``: makes of this record the one for that. ``whole``: the nodes that its
    node is computed with, if it never is alone; None: they are not there. ``turn``: how a product
    beside it does a part of it; ``exchange``: the product that takes the operand at a place, or
    gives its result, with rows and columns exchanged. ``on_image``: how its node reads an image
    of a shape instead, whose elements it has in an order; None: it sums over something else.
    ``is_dear``: its tasks are many for what they compute, so that the CPU keeps it wherever that is
    faster, by however little.
    """

    name: str
    inputs: tuple[Role, ...]
    rules: tuple[Constraint, ...]
    options: type[Options] | None = None
    needed: int | None = None
    repeats: bool = False
    most_outputs: int = 1
    weights_axis: int = 0
    pads_input: bool = False
    macs: Callable[[Graph, Node], int] = no_macs
    movement: Movement | None = None
    plan: Callable[[Planning, Operation], Plan] | None = None
    function: Function | None = None
    shapes: Shapes | None = None
    maps: Maps | None = None
    fold: Callable[[Chip, Graph, Operation], tuple[View, Fold] | None] | None = None
    pads: Callable[[Graph, Node], tuple[int, int]] | None = None
    hides: Callable[[GraphFacts, Node], bool] | None = None
    host_values: Callable[[Graph, Node, Side], HostValues | None] | None = None
    follows_runtime: bool = False
    half: Callable[[Operator], Operator] | None = None
    computed: Callable[[Operator], Operator] | None = None
    folds: Folds | None = None
    folds_once: bool = False
    of_constants: Folds | None = None
    ranges: Ranges | None = None
    is_dear: bool = False
    real: Real | None = None
    real_form: Callable[[Operator], Operator] | None = None
    whole: Callable[[GraphFacts, Node], Whole | None] | None = None
    turn: Callable[[GraphFacts, Node], Turn | None] | None = None
    exchange: Callable[[Node, int], Node] | None = None
    on_image: Callable[[Graph, Node, Shape, IndexMap], OnImage | None] | None = None

    @property
    def has_tasks(self) -> bool:
        """Return whether nodes become tasks, or a part of a function's. Others are aliases, which
        have a ``movement``, or a part of the host's conversion.
        """
        is_computed = self.plan is not None or self.function is not None
        return is_computed and self.movement is None

    @property
    def is_elementwise(self) -> bool:
        """Return whether a result's element follows from the operands' that broadcast to it."""
        return any((self.function, self.real, self.host_values))

    @property
    def in_half(self) -> Operator:
        """The record in fp16, of an operator that has one: made when the first model asks."""
        assert self.half is not None, self.name
        return _form(self, self.half)

    @property
    def of_computed(self) -> Operator:
        """The record for computed weights, likewise."""
        assert self.computed is not None, self.name
        return _form(self, self.computed)

    def output_shapes(self, graph: Graph, node: Node) -> Sequence[Shape] | None:
        """The shapes of what ``node`` writes, whatever ``graph`` says of them; None: nobody says.
        Raises ValueError.
        """
        if self.shapes is not None:
            return self.shapes(graph, node)
        return self.broadcast_shapes(graph, node) if self.is_elementwise else None

    def broadcast_shapes(self, graph: Graph, node: Node) -> Sequence[Shape]:
        """Return the shapes that the operands of ``function`` broadcast to. Raises ValueError."""
        operands = (graph.tensor(t).shape for t in self.feature_inputs(node))
        return (np.broadcast_shapes(*operands),)

    def feature_inputs(self, node: Node) -> tuple[int, ...]:
        """The tensors of ``node`` that it reads as feature maps."""
        return self.inputs_of(node, Role.FEATURE, Role.OPERAND, Role.MATRIX)

    def weights(self, node: Node) -> int | None:
        """The tensor that holds the weights, if the operator has any."""
        return next(iter(self.inputs_of(node, Role.WEIGHTS)), None)

    def inputs_of(self, node: Node, *roles: Role) -> tuple[int, ...]:
        """The tensors of ``node`` in these roles; inputs beyond the last one have its role."""
        last = len(self.inputs) - 1
        return tuple(t for i, t in enumerate(node.inputs) if self.inputs[min(i, last)] in roles)


@cache
def _form(operator: Operator, made: Callable[[Operator], Operator]) -> Operator:
    return made(operator)


@cache
def _record(name: str) -> Operator:
    record: Operator = importlib.import_module(f"{__package__}.{name.lower()}").OPERATOR
    return record


class _Records(Mapping[str, Operator]):
    """A file is read when its operator is first asked for: few models have all of them."""

    def __init__(self) -> None:
        files = {module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])}
        self._names = dict.fromkeys(op for op in BUILTIN_OPERATORS if op.lower() in files)

    def __getitem__(self, name: str) -> Operator:
        if name not in self._names:
            raise KeyError(name)
        return _record(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


OPERATORS: Mapping[str, Operator] = _Records()
"""The operators by name, in the order of the schema's numbers."""


def record_of(graph: Graph, node: Node) -> Operator:
    """Return the record for a node whose operator the NPU takes: in fp16, for float32, or for
    computed weights.
    """
    found = OPERATORS[node.op]
    if graph.half and found.half is not None and is_in_half(graph, node):
        found = found.in_half
    elif not graph.half and found.real_form is not None and is_real(graph, node):
        found = _form(found, found.real_form)
    if found.computed is None:
        return found
    weights = found.weights(node)
    is_computed = weights is not None and weights >= 0 and graph.tensor(weights).constant is None
    return found.of_computed if is_computed else found


def known_record(graph: Graph, node: Node) -> Operator | None:
    """Return the same; None for an operator that the NPU does not take by itself."""
    return record_of(graph, node) if node.op in OPERATORS else None
