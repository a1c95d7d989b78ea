"""The delegate against TensorFlow Lite: whole models, and every delegated operator on its own.

Takes a model and samples; gives counts of equal elements and the largest differences. The operator
entries feed each delegated node TensorFlow Lite's own inputs to it, so errors cannot add up or hide
behind each other; they are what the numeric contract speaks of.

Nodes left to the CPU run with the same kernels on both sides. So outputs are equal if every
operator is; where outputs differ, the operators tell whether that is the contract's one step here
and there, or a program that is wrong as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from delegate.chip.chips import DEFAULT
from delegate.errors import EncodingError, LoweringError
from delegate.host.chosen_chip import chosen_chip
from delegate.host.delegated import DelegatedModel
from delegate.host.reference import ReferenceModel
from delegate.host.samples import Sample
from delegate.host.tally import Tally
from delegate.lower.lowered import Difference, Layer
from delegate.model.cached import cached_property
from delegate.model.graph import Graph, Node
from delegate.ops import OPERATORS
from delegate.ops.operator import Lowering
from delegate.ops.shared.host_values import is_float32
from delegate.options import Options
from delegate.partition.functions import partition_of, smallest_partition

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

    @property
    def most(self) -> int:
        """How far results may be off, in LSB."""
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

    @property
    def is_equal(self) -> bool:
        """Whether every element of every output is."""
        return all(output.equal == output.elements for output in self.outputs)

    def merge(self, other: Comparison) -> None:
        """Adds the comparison of other samples of the same model."""
        if not self.samples:
            self.outputs, self.ops = other.outputs, other.ops
            self.samples, self.top1_agreed = other.samples, other.top1_agreed
            self.unexplained = other.unexplained
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
            if op.difference is None or not exact_only:
                total.merge(op)
        return total

    def violations(self, differing: float = 0.0) -> list[str]:
        """Return what breaks the numeric contract, one sentence each; empty if it holds.
        ``differing``: the share of an operator's elements that may differ, see
        ``tolerance.share_of``.
        """
        broken = []
        per_op, in_total = MIN_EQUAL_PER_OP, MIN_EQUAL_IN_TOTAL
        if differing > 0:
            per_op = in_total = (round((1 - differing) * 1000), 1000)
        for op in self.ops:
            where = f"node {op.node} ({op.op})"
            if op.max_abs_diff > op.most:
                broken.append(f"{where} is off by {op.max_abs_diff}")
            if op.difference is None and not op.reaches(per_op):
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

    def compare(self, samples: Iterable[Sample]) -> Comparison:
        """Runs every sample on both sides."""
        total = Comparison()
        for sample in samples:
            total.merge(self.compare_one(sample))
        return total

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
            result.unexplained = int(self._is_unexplained(result))
        return result

    def _is_unexplained(self, result: Comparison) -> bool:
        """Other kernels, and nodes of further subgraphs, which are not compared, explain much; a
        model that is the runtime's alone differs from itself if it reads what nobody wrote.
        """
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
        from delegate._native import Executable
        from delegate.compile.compiler import compile_partition

        if difference is None:
            partition = smallest_partition(graph, nodes[0])
        else:
            partition = partition_of(graph, nodes)
        compiled = compile_partition(
            graph, partition, chip=chosen_chip(options), numerics=options.numerics
        )
        self._nodes, self._difference = nodes, difference
        self._executable = Executable(compiled.program, options.device, options.timeout_ms)

    @property
    def tensors(self) -> list[int]:
        """The tensors of the model that it reads and writes."""
        return [binding[0] for binding in (*self._executable.inputs, *self._executable.outputs)]

    def compare(self, reference: ReferenceModel) -> OpTally:
        arrays = [reference.tensor(binding[0]) for binding in self._executable.inputs]
        results = self._executable.run(arrays)
        names = " + ".join(node.op for node in self._nodes)
        tally = OpTally(node=self._nodes[0].index, op=names, difference=self._difference)
        for binding, ours in zip(self._executable.outputs, results, strict=True):
            tally.add(ours, reference.tensor(binding[0]))
        return tally


def _computes(graph: Graph, node: Node) -> bool:
    """Whether it has tasks; what has none is compared with what reads it."""
    return OPERATORS[node.op].lowering is Lowering.TASKS and not is_float32(graph, node)


def _joined(layers: Iterable[Layer]) -> dict[int, tuple[list[int], Difference]]:
    """By its first node: nodes that only together are as they are in the model, and how far they
    may be off. Layers that have nodes in common are parts of one result, each before its share of
    what follows the CONCATENATION.
    """
    groups: list[tuple[set[int], Difference]] = []
    for layer in layers:
        if layer.difference is None:
            continue
        nodes, difference = set(layer.nodes), layer.difference
        for group in [group for group in groups if group[0] & nodes]:
            groups.remove(group)
            nodes |= group[0]
            worst = max(difference.most_lsb, group[1].most_lsb)
            difference = Difference(worst, max(difference.share, group[1].share))
        groups.append((nodes, difference))
    return {min(nodes): (sorted(nodes), difference) for nodes, difference in groups}


def _with_what_lies_between(graph: Graph, indices: Sequence[int]) -> list[Node]:
    """The nodes, and all on the way from one to another: moves without tasks are in no layer."""
    own, first, last = set(indices), min(indices), max(indices)
    behind: set[int] = set()
    before: set[int] = set()
    span = [graph.node(index) for index in range(first, last + 1)]
    follows = set()
    for node in span:
        if node.index in own or behind.intersection(node.inputs):
            follows.add(node.index)
            behind.update(node.outputs)
    found = []
    for node in reversed(span):
        if node.index in own or (node.index in follows and before.intersection(node.outputs)):
            found.append(node)
            before.update(node.inputs)
    return found[::-1]


class _Operators:
    """All delegated nodes, each compiled alone, and TensorFlow Lite's tensors around them."""

    def __init__(self, path: Path, options: Options) -> None:
        from delegate.compile.compiler import compile_model

        result = compile_model(path, options)
        graph = result.graph
        indices = sorted(i for compiled in result.partitions for i in compiled.partition.nodes)
        self.delegated_nodes = result.delegated_nodes
        joined = _joined(layer for compiled in result.partitions for layer in compiled.layers)
        within = {index for nodes, _ in joined.values() for index in nodes}
        self._nodes = []
        for node in map(graph.node, indices):
            if node.index in joined:
                indices_within, difference = joined[node.index]
                nodes = _with_what_lies_between(graph, indices_within)
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
