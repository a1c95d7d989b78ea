"""The delegate against TensorFlow Lite: whole models, and every delegated operator on its own.

Takes a model and samples; gives counts of equal elements and the largest differences. The operator
entries feed each delegated node TensorFlow Lite's own inputs to it, so errors cannot add up or hide
behind each other; they are what the numeric contract speaks of.

Nodes left to the CPU run with the same kernels on both sides. So outputs are equal if every
operator is; where outputs differ, the operators tell whether that is the contract's one step here
and there, or a program that is wrong as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.chip.chips import DEFAULT
from delegate.errors import EncodingError, LoweringError
from delegate.host.chosen import chosen_chip
from delegate.host.delegated import DelegatedModel, ReferenceModel
from delegate.host.kernels import for_runtime
from delegate.host.runtimes import find_runtime
from delegate.host.samples import Sample
from delegate.host.tally import Tally
from delegate.lower.numerics.pipeline import Difference
from delegate.model.cached import cached_property
from delegate.model.graph import Graph, Node
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.ops.operator import record_of
from delegate.ops.shared.common import is_float32
from delegate.options import Options
from delegate.partition.aliases import partition_of, smallest_partition
from delegate.partition.shapes import following_shapes, with_shapes
from rk3588_conformance import reference
from rk3588_conformance.joined_nodes import joined_nodes, with_said_together, with_what_lies_between
from rk3588_conformance.reference.arithmetic import Call

Array = npt.NDArray[Any]

# The numeric contract: no element off by more than one step; shares of equal elements at least
# these.
MAX_ABS_DIFF = 1
MIN_EQUAL_PER_OP = (995, 1000)
MIN_EQUAL_IN_TOTAL = (9999, 10000)
# Fraction of pictures whose best class must be TensorFlow Lite's.
MIN_TOP1_AGREEMENT = (99, 100)


@dataclass(slots=True)
class OpTally(Tally):
    """The tally of one delegated node, or of several that numerics=auto made one task: ``op`` names
    all, and ``difference`` is how far they may be off.
    """

    node: int = -1
    op: str = ""
    difference: Difference | None = None
    runtime_off: int = 0
    """The distance of the runtime's own kernel from the operator's definition, which ours meet."""

    @property
    def has_share(self) -> bool:
        """Return whether the contract says how many of its elements have to be equal."""
        known = reference.of(self.op)
        return self.difference is None and not (known and known.steps_together)

    @property
    def most(self) -> int:
        """Return how far results may be off, in LSB."""
        return MAX_ABS_DIFF if self.difference is None else self.difference.most_lsb


@dataclass(slots=True)
class OutputTally(Tally):
    """The tally of one output of the model."""

    name: str = ""


@dataclass(slots=True)
class Comparison:
    """Tallies over ``samples`` inputs. ``top1_agreed`` is None unless the model is a classifier.

    ``ops`` are over the samples whose operators were compared. ``unexplained`` counts samples with
    unequal outputs all of whose operators are equal.
    """

    outputs: list[OutputTally] = field(default_factory=list)
    ops: list[OpTally] = field(default_factory=list)
    samples: int = 0
    top1_agreed: int | None = None
    unexplained: int = 0
    in_half: bool = False
    """True if a part of the model was computed in fp16, which no kernel of the CPU does."""

    @property
    def is_equal(self) -> bool:
        """Return whether every element of every output is."""
        return all(output.equal == output.elements for output in self.outputs)

    def merge(self, other: Comparison) -> None:
        """Adds the comparison of other samples of the same model."""
        if not self.samples:
            for each in fields(self):
                setattr(self, each.name, getattr(other, each.name))
            return
        for mine, theirs in zip(self.outputs, other.outputs, strict=True):
            mine.merge(theirs)
        if self.ops and other.ops:
            for op, other_op in zip(self.ops, other.ops, strict=True):
                op.merge(other_op)
        else:
            self.ops = self.ops or other.ops
        self.samples += other.samples
        self.unexplained += other.unexplained
        if self.top1_agreed is not None and other.top1_agreed is not None:
            self.top1_agreed += other.top1_agreed

    def ops_total(self, *, exact_only: bool = False) -> Tally:
        """All operators together, or those that are held to the contract's shares."""
        total = Tally()
        for op in self.ops:
            if not exact_only or (op.has_share and not op.runtime_off):
                total.merge(op)
        return total

    def doubts_of_runtime(self) -> list[str]:
        """Name the operators of which the runtime's own kernel is wrong, one sentence each."""
        return [
            f"node {op.node} ({op.op}): the runtime's reference kernel is off by {op.runtime_off} "
            "from what the operator is defined to give; the NPU's results are within the contract "
            "of that"
            for op in self.ops
            if op.runtime_off
        ]

    def violations(self, differing: float = 0.0) -> list[str]:
        """Return what breaks the numeric contract, one sentence each; empty if it holds.
        ``differing``: the share of an operator's elements that may differ, see
        ``tolerance.share_of``.
        """
        broken = []
        per_op, in_total = least_equal(differing)
        for op in self.ops:
            if op.runtime_off:
                continue
            where = f"node {op.node} ({op.op})"
            if op.max_abs_diff > op.most:
                broken.append(f"{where} is off by {op.max_abs_diff}")
            if op.has_share and not op.reaches(per_op):
                broken.append(f"{where} has {op.equal} of {op.elements} elements equal")
        total = self.ops_total(exact_only=True)
        if not total.reaches(in_total):
            broken.append(f"all operators: {total.equal} of {total.elements} elements equal")
        if self.unexplained:
            broken.append(
                f"outputs differ for {self.unexplained} of {self.samples} inputs although every "
                "operator alone is equal: the program as a whole is wrong"
            )
        return broken


def least_equal(differing: float) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the shares of equal elements of an operator and of all together, where a share of
    ``differing`` may differ.
    """
    if differing > 0:
        return ((round((1 - differing) * 1000), 1000),) * 2
    return MIN_EQUAL_PER_OP, MIN_EQUAL_IN_TOTAL


class Comparer:
    """Compares one model for any number of samples.

    ``per_op`` compares the operators of every sample, else only of those whose outputs differ:
    every delegated node is compiled alone, as a partition of one. ``reference_kernels`` chooses the
    CPU's kernels, on both sides; operators are always compared with the reference kernels.
    """

    def __init__(
        self, path: Path, options: Options, *, per_op: bool, reference_kernels: bool = True
    ) -> None:
        self._is_reference = reference_kernels or per_op
        self.model = DelegatedModel.load(path, options, reference_kernels=self._is_reference)
        self._reference = ReferenceModel.load(path, reference_kernels=self._is_reference)
        self._per_op = per_op
        self._path, self._options = path, options

    @cached_property
    def _operators(self) -> _Operators:
        return _Operators(self._path, self._options)

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """The runtime's details of the model's inputs."""
        return self.model.inputs

    def compare_one(self, sample: Sample) -> Comparison:
        """Runs one sample on both sides."""
        theirs = self._reference.run(sample)
        ours = self.model.run(sample)
        result = Comparison(samples=1)
        for details, mine, other in zip(self.model.outputs, ours, theirs, strict=True):
            tally = OutputTally(name=str(details["name"]))
            tally.add(mine, other)
            result.outputs.append(tally)
        if _is_classifier(self.model.outputs):
            result.top1_agreed = int(np.argmax(ours[0]) == np.argmax(theirs[0]))
        if self._per_op or not result.is_equal:
            result.ops = self._operators.compare(sample)
            result.in_half = self._operators.in_half
            result.unexplained = int(self._is_unexplained(result))
        return result

    def _is_unexplained(self, result: Comparison) -> bool:
        """Other kernels, and nodes of further subgraphs, which are not compared, explain much; a
        model that is the runtime's alone differs from itself if it reads what nobody wrote.
        """
        if result.in_half:  # rounded to fp16, which no operator alone tells
            return False
        ops = result.ops_total()
        delegated = self.model.delegation.delegated_nodes
        if not self._is_reference or not delegated or delegated != self._operators.delegated_nodes:
            return False
        return ops.equal == ops.elements and not result.is_equal


def _is_classifier(outputs: Sequence[dict[str, Any]]) -> bool:
    shape = tuple(outputs[0]["shape"]) if len(outputs) == 1 else ()
    return bool(shape) and int(np.prod(shape[:-1])) == 1 and int(shape[-1]) >= 2


class _Operator:
    """Delegated nodes, one or those of a task with a ``difference``, compiled alone."""

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[Node],
        options: Options,
        difference: Difference | None = None,
    ) -> None:
        if len(nodes) == 1 and difference is None:
            self._partition = smallest_partition(graph, nodes[0])
        else:
            self._partition = partition_of(graph, nodes)
        self._nodes, self._difference, self._options = nodes, difference, options
        self._compile(graph)

    def _compile(self, graph: Graph) -> None:
        from delegate._native import Executable
        from delegate.compile.compiler import compile_partition

        options = self._options
        compiled = compile_partition(
            graph, self._partition, chip=chosen_chip(options), numerics=options.numerics
        )
        self._graph = graph
        self._executable = Executable(compiled.program, options.device, options.timeout_ms)

    def _follow(self, arrays: Mapping[int, Array]) -> None:
        """Compile again for ``arrays`` of other shapes than the file says: it says 1 of a batch
        that SPACE_TO_BATCH_ND makes.
        """
        shapes = {index: array.shape for index, array in arrays.items()}
        tensors = {index: self._graph.tensor(index) for index in shapes}
        if any((t.stored_shape or t.shape) != shapes[i] for i, t in tensors.items()):
            given = with_shapes(self._graph, shapes)
            self._compile(with_shapes(given, following_shapes(given, self._partition)))

    @property
    def tensors(self) -> list[int]:
        """The tensors of the model that it reads and writes."""
        return [binding[0] for binding in (*self._executable.inputs, *self._executable.outputs)]

    def compare(self, runtime: ReferenceModel) -> OpTally:
        arrays = [runtime.tensor(binding[0]) for binding in self._executable.inputs]
        given = {b[0]: a for b, a in zip(self._executable.inputs, arrays, strict=True)}
        self._follow(given)
        results = self._executable.run(arrays)
        names = " + ".join(node.op for node in self._nodes)
        tally = OpTally(node=self._nodes[0].index, op=names, difference=self._difference)
        theirs = [runtime.tensor(binding[0]) for binding in self._executable.outputs]
        for ours, other in zip(results, theirs, strict=True):
            tally.add(ours, other)
        if tally.max_abs_diff > tally.most:
            tally.runtime_off = self._runtime_off(given, results, theirs, tally.most)
        return tally

    def _runtime_off(
        self, given: dict[int, Array], ours: Sequence[Array], theirs: Sequence[Array], most: int
    ) -> int:
        """Return how far the runtime's results are from the definition, where ours are within
        ``most`` of it; else 0.
        """
        outputs = tuple(binding[0] for binding in self._executable.outputs)
        alone = replace(self._graph, nodes=tuple(self._nodes), inputs=(*given,), outputs=outputs)
        if not reference.supports(alone, _FUNCTIONS):
            return 0
        mine, runtimes = Tally(), Tally()
        right_ones = reference.compute(alone, given, _FUNCTIONS)
        for right, our, other in zip(right_ones, ours, theirs, strict=True):
            mine.add(our, right)
            runtimes.add(other, right)
        return int(runtimes.max_abs_diff) if mine.max_abs_diff <= most else 0


def _by_record(call: Call) -> Array:
    """Return what the kernel of a function of one value gives, as its record has it."""
    operator = record_of(call.graph, call.node)
    assert operator.function is not None
    given = [call.value(place).astype(np.int64) for place in call.places]
    return operator.function(call.graph, call.node, given)


_FUNCTIONS = {
    name: reference.Reference(_by_record)
    for name, operator in OPERATORS.items()
    if operator.function is not None
}
"""Functions behind a kernel that may be wrong; tests compare all values with the kernels' own."""


def _computes(graph: Graph, node: Node) -> bool:
    """Return whether ``node`` has tasks; a node that has none is compared with what reads it."""
    return OPERATORS[node.op].has_tasks and not is_float32(graph, node)


class _Operators:
    """All delegated nodes, each compiled alone, and TensorFlow Lite's tensors around them."""

    def __init__(self, path: Path, options: Options) -> None:
        from delegate.compile.compiler import compile_model

        # As the delegate compiles it: reference kernels of runtimes differ.
        result = compile_model(for_runtime(read_graph(path), find_runtime()), options)
        graph = result.graph
        self.in_half = any(compiled.bound for compiled in result.partitions)
        indices = sorted(i for compiled in result.partitions for i in compiled.partition.nodes)
        self.delegated_nodes = result.delegated_nodes
        joined = joined_nodes(layer for compiled in result.partitions for layer in compiled.layers)
        groups = with_said_together(graph, joined, indices)
        within = {index for nodes, _ in groups.values() for index in nodes}
        self._nodes = []
        for node in map(graph.node, indices):
            if node.index in groups:
                indices_within, difference = groups[node.index]
                nodes = with_what_lies_between(graph, indices_within)
                self._nodes.append(_Operator(graph, nodes, options, difference))
            elif node.index not in within and _computes(graph, node):
                try:
                    self._nodes.append(_Operator(graph, [node], options))
                except (LoweringError, EncodingError):
                    # It is a part of a neighbour's task, or of the host's conversion, and of a
                    # chip of which less is known nothing by itself.
                    if chosen_chip(options).name == DEFAULT.name:
                        raise
        tensors = [tensor for node in self._nodes for tensor in node.tensors]
        self._reference = ReferenceModel.load(path, reference_kernels=True, tensors=tensors)

    def compare(self, sample: Sample) -> list[OpTally]:
        """A tally for each node, in the order of the model."""
        if self._nodes:
            self._reference.run(sample)
        return [node.compare(self._reference) for node in self._nodes]
