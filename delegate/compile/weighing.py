"""Weigh partitions against the CPU: the whole, and stretches of it.

In: a partition whose tasks are known. Out: nothing where the NPU is faster, and would not be much
faster with less to do, nor faster at all without operators that are dear; else SlowerError with
what the CPU keeps: these, or all but the stretches of operations that gain more than crossing over
to the NPU and back costs. Whether such a stretch is faster shows once it is a partition of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from delegate.chip.chip import Chip, Driver
from delegate.lower.lowered import Layer
from delegate.model.graph import Graph, Partition
from delegate.npu.perf import Work, duration, work_of_tasks
from delegate.ops.operator import known_record
from delegate.partition.partitioner import (
    PartitionCost,
    SlowerError,
    conversion_us,
    nodes_cost,
    partition_cost,
)

LEAST_GAIN = 0.05
"""A share of what a partition takes on the CPU: estimates do not tell smaller gains from none."""
MUCH_FASTER = 2 * LEAST_GAIN
"""A share of what a partition takes on the NPU: what is left to the CPU occupies the CPU, so it has
to gain twice of what estimates tell apart.
"""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that run together. ``cost``: without crossing over to the NPU before them,
    ``enter_us``, and back behind them, ``leave_us``.
    """

    nodes: tuple[int, ...]
    cost: PartitionCost
    enter_us: float
    leave_us: float


def worth_crossing(groups: Sequence[Group]) -> tuple[float, frozenset[int]]:
    """Return what the stretches that together gain most over the CPU do, and their nodes; no nodes
    if that is next to nothing.
    """
    outside: tuple[float, tuple[Group, ...]] = (0.0, ())
    inside: tuple[float, tuple[Group, ...]] = (-inf, ())
    for group in groups:
        entered = (outside[0] - group.enter_us, outside[1])
        gained, before = max(inside, entered, key=lambda one: one[0])
        inside = (gained + group.cost.cpu_us - group.cost.npu_us, (*before, group))
        left = (inside[0] - group.leave_us, inside[1])
        outside = max(outside, left, key=lambda one: one[0])
    if outside[0] < LEAST_GAIN * sum(group.cost.cpu_us for group in groups):
        return 0.0, frozenset()
    return outside[0], frozenset(node for group in outside[1] for node in group.nodes)


@dataclass(frozen=True, slots=True)
class Weigher:
    """Compares what partitions of ``graph`` take on ``chip`` behind the better of ``drivers`` with
    what they take on the CPU.
    """

    graph: Graph
    chip: Chip
    drivers: Sequence[Driver]

    def check(
        self, partition: Partition, layers: Sequence[Layer], work: Work | None = None
    ) -> None:
        """Raise SlowerError unless the NPU is faster, and would not be much faster with less to do.
        ``work``: of ``layers`` and besides them; before there are commands that of the tasks alone.
        """
        if work is None:
            work = work_of_tasks(self.chip, (task for layer in layers for task in layer.tasks))
        driver = min(self.drivers, key=lambda one: self._us(work, one))
        cost = partition_cost(self.chip.rates, self.graph, partition, self._us(work, driver))
        groups = self._groups(partition, layers, driver)
        gained_us, kept = worth_crossing(groups)
        left = tuple(node for node in partition.nodes if node not in kept)
        # Whatever else there is is weighed again without them.
        dear = tuple(node for node in left if self._is_dear(node))
        if dear:
            raise _slower(dear, (one for one in groups if not set(dear).isdisjoint(one.nodes)))
        # Neither side has what programs take besides, such as loads of tables.
        saved_us = gained_us - sum(group.cost.cpu_us - group.cost.npu_us for group in groups)
        if cost.is_faster and saved_us < MUCH_FASTER * cost.npu_us:
            return
        if kept and left:
            raise _slower(left, (one for one in groups if kept.isdisjoint(one.nodes)))
        raise SlowerError(partition.nodes, cost)

    def _is_dear(self, node: int) -> bool:
        operator = known_record(self.graph, self.graph.node(node))
        return operator is not None and operator.is_dear

    def _us(self, work: Work, driver: Driver) -> float:
        return duration(self.chip, [work], driver).total.middle

    def _groups(self, partition: Partition, layers: Sequence[Layer], driver: Driver) -> list[Group]:
        """Return the nodes of a partition in groups, in the order of their first nodes."""
        crossing_us = driver.submit_us.middle
        found = []
        for nodes, own in nodes_together(partition, layers):
            work = work_of_tasks(self.chip, [task for layer in own for task in layer.tasks])
            time = duration(self.chip, [work], driver)
            inputs, outputs = _edges(self.graph, nodes)
            rates = self.chip.rates
            found.append(
                Group(
                    nodes,
                    nodes_cost(self.graph, nodes, (time.work + time.launches).middle),
                    crossing_us + conversion_us(rates, self.graph, inputs),
                    conversion_us(rates, self.graph, outputs),
                )
            )
        return found


def _slower(nodes: tuple[int, ...], groups: Iterable[Group]) -> SlowerError:
    """Return the error for ``nodes``, which are in ``groups``."""
    costs = [group.cost for group in groups]
    sums = (sum(one.npu_us for one in costs), sum(one.cpu_us for one in costs))
    return SlowerError(nodes, PartitionCost(*sums))


def nodes_together(
    partition: Partition, layers: Iterable[Layer]
) -> list[tuple[tuple[int, ...], list[Layer]]]:
    """Return the nodes of a partition in groups, with the layers that compute them: nodes of one
    layer stay together, others are alone.
    """
    groups: dict[int, tuple[set[int], list[Layer]]] = {n: ({n}, []) for n in partition.nodes}
    for layer in layers:
        mine = {id(group): group for n in layer.nodes if (group := groups.get(n)) is not None}
        nodes, own = set[int](), [layer]
        for members, before in mine.values():
            nodes |= members
            own += before
        groups.update(dict.fromkeys(nodes, (nodes, own)))
    unique = {min(nodes): (tuple(sorted(nodes)), own) for nodes, own in groups.values()}
    return [unique[first] for first in sorted(unique)]


def _edges(graph: Graph, nodes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the tensors that go into a group of nodes and those that come out."""
    members = [graph.node(node) for node in nodes]
    made = {t for node in members for t in node.outputs}
    read = {t for node in members for t in node.inputs if t >= 0} - made
    inner = {t for node in members for t in node.inputs}
    inputs = [t for t in sorted(read) if graph.tensor(t).constant is None]
    return inputs, sorted(made - inner) or sorted(made)
