"""Operators that give the same values another shape or order. Free where pixels stay what they are,
whole channels one after the other; else convolutions move them, those of a chain of nodes at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from delegate.errors import LoweringError
from delegate.lower.close_rows import in_close_rows
from delegate.lower.memory.tensors import device_element, memory_view, whole_channels
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.order import Order
from delegate.lower.reorder import MOST_TASKS, Reorder
from delegate.lower.rules import FORM_IS_KNOWN, REORDERED_ALONE
from delegate.model.graph import Graph, Node, Tensor
from delegate.ops.operator import (
    Constraint,
    GraphFacts,
    Lowering,
    Movement,
    Operator,
    Reordering,
    Role,
    Shapes,
    constraint,
    is_in_half,
    named,
)
from delegate.ops.shared import common, half_records
from delegate.ops.shared.image_rules import feature_rank, of_kept_values
from delegate.ops.shared.links import Link, extent
from delegate.ops.shared.task_plans import move_plan

ORIGIN = (0, 0, 0, 0)
MOST_NODES = 8
"""The most nodes of a chain: more than any network has in a row."""


def as_it_is(graph: Graph, node: Node, order: Order) -> Order | None:
    """Return the order of operators that change the shape alone."""
    return order


def order_of(facts: GraphFacts, nodes: Sequence[Node]) -> Order | None:
    """Return the order of the elements that ``nodes``, one after the other, give."""
    order: Order | None = Order.same(facts.graph.tensor(nodes[0].inputs[0]).shape)
    for node in nodes:
        follow = facts.operator(node).order
        if order is None or follow is None:
            return None
        order = follow(facts.graph, node, order)
    return order


def reorder_of(facts: GraphFacts, nodes: Sequence[Node]) -> Reorder | None:
    """How the tasks of ``nodes`` together move elements; None: they cannot."""
    source, result = (facts.graph.tensor(t) for t in (nodes[0].inputs[0], nodes[-1].outputs[0]))
    before, after = memory_view(source), memory_view(result)
    order = order_of(facts, nodes)
    if order is None or max(before.images, after.images) > 1:
        return None
    moves = order.in_bytes(device_element(result).bytes).moves(before.channels, after.channels)
    if moves is None:
        return None
    found = Reorder(facts.chip, moves, before.channels, whole_channels(result))
    return found if found.is_possible else None


def is_free(facts: GraphFacts, node: Node) -> bool:
    """Whether the result can be the operand, in memory."""
    before, after = facts.graph.tensor(node.inputs[0]), facts.graph.tensor(node.outputs[0])
    is_same = order_of(facts, (node,)) == Order.same(before.shape)
    return is_same and extent(before) == extent(after)


def chain_of(
    facts: GraphFacts,
    node: Node,
    members: Collection[int] | None = None,
    kept: Collection[int] = (),
) -> tuple[Node, ...]:
    """``node``, and nodes before and behind it that need tasks, too, each of which is the only
    reader of the one before; of ``members``, by index, if given. ``kept``: tensors that somebody
    else needs, too, beside the graph's outputs (which a runtime does not tell a delegate).
    """
    chain = [node]
    while len(chain) < MOST_NODES:
        before = facts.makers.get(chain[0].inputs[0])
        if before is None or not _is_link(facts, before, chain[0], members, kept):
            break
        chain.insert(0, before)
    while len(chain) < MOST_NODES:
        (behind, *others) = facts.readers.get(chain[-1].outputs[0], (chain[-1],))
        if others or not _is_link(facts, chain[-1], behind, members, kept):
            break
        chain.append(behind)
    return tuple(chain)


def _is_link(
    facts: GraphFacts,
    before: Node,
    behind: Node,
    members: Collection[int] | None,
    kept: Collection[int],
) -> bool:
    """Whether ``behind`` alone needs what ``before`` gives, and both need tasks."""
    result = before.outputs[0]
    if facts.readers.get(result) != (behind,) or result in (*facts.graph.outputs, *kept):
        return False
    return all(
        (members is None or node.index in members) and _needs_tasks(facts, node)
        for node in (before, behind)
    )


def _needs_tasks(facts: GraphFacts, node: Node) -> bool:
    operator = facts.operators.get(node.op)
    if operator is None or operator.order is None:
        return False
    first = next(rule for rule in operator.rules if rule is order_possible)
    rules = operator.rules[: operator.rules.index(first)]
    return all(rule.check(facts, node) is None for rule in rules) and not is_free(facts, node)


@constraint()
def new_shape_constant(facts: GraphFacts, node: Node) -> str | None:
    """The new shape, axis or axes must be constant."""
    wrong = next((t for t in facts.inputs(node)[1:] if t.constant is None), None)
    return None if wrong is None else f"{named(wrong)} is computed while running"


def is_spread(tensor: Tensor) -> bool:
    """Whether the host brings elements elsewhere while it converts: those of 8 bits."""
    return tensor.dtype in common.FEATURE_TYPES


def _is_first(facts: GraphFacts, node: Node) -> bool:
    """Whether it alone reads an input of the model, which a live interpreter does not name."""
    source = facts.graph.tensor(node.inputs[0])
    is_given = source.constant is None and not source.is_variable
    is_input = is_given and source.index not in facts.makers and is_spread(source)
    return is_input and facts.readers.get(source.index) == (node,)


def _is_last(facts: GraphFacts, node: Node) -> bool:
    """Whether its result is nothing but an output of the model, likewise."""
    result, ends = node.outputs[0], facts.graph.outputs
    is_output = result not in facts.readers and (result in ends or not ends)
    return is_output and is_spread(facts.graph.tensor(result))


@constraint(most=MOST_TASKS)
def order_possible(facts: GraphFacts, node: Node) -> str | None:
    """Where channels or the order change inside the model, at most {most} convolutions must be able
    to do it, of one image.
    """
    if is_free(facts, node) or reorder_of(facts, (node,)) is not None:
        return None
    if _is_first(facts, node) or _is_last(facts, node):
        return None
    if reorder_of(facts, chain_of(facts, node)) is not None:
        return None
    before, after = facts.graph.tensor(node.inputs[0]), facts.outputs(node)[0]
    return f"{named(before)} is {list(before.shape)}, {named(after)} {list(after.shape)}"


def reorder_operations(
    facts: GraphFacts, nodes: Sequence[Node], kept: Collection[int]
) -> Mapping[int, Operation]:
    """Return the operations of ``nodes``, which are not free, by the last node of each; those in
    between need none, unless their results are to be ``kept``. Raises LoweringError.
    """
    found: dict[int, Operation] = {}
    done: set[int] = set()
    members = {node.index for node in nodes}
    for node in nodes:
        if node.index in done:
            continue
        chain = chain_of(facts, node, members, kept)
        chains = [chain] if _known(facts, chain) is not None else [(n,) for n in chain]
        for part in chains:
            found[part[-1].index] = _operation(facts, part)
        done.update(n.index for n in chain)
    return found


def _known(facts: GraphFacts, nodes: Sequence[Node]) -> Reorder | None:
    """``reorder_of``, in a form that the chip is known to have."""
    found = reorder_of(facts, nodes)
    return None if found is None else in_close_rows(found)


def _operation(facts: GraphFacts, nodes: Sequence[Node]) -> Operation:
    last = nodes[-1]
    reorder = _known(facts, nodes)
    if reorder is None:
        before = facts.graph.tensor(nodes[0].inputs[0]).shape
        problem = f"from {list(before)} to {list(facts.outputs(last)[0].shape)}"
        is_unknown = reorder_of(facts, nodes) is not None
        rule = FORM_IS_KNOWN if is_unknown else REORDERED_ALONE
        raise LoweringError(last.index, rule, problem)

    def plan(planning: Planning, operation: Operation) -> Plan:
        return move_plan(
            planning,
            operation,
            reorder.tasks,
            reads=reorder.surfaces_read,
            writes=reorder.surfaces_written,
            work_bytes=reorder.work_bytes,
            surface_pixels=reorder.surface_pixels,
        )

    is_half = is_in_half(facts.graph, last)
    if is_half:
        from delegate.ops.shared.half_moves import exactly
    return Operation(
        node=last,
        nodes=tuple(node.index for node in nodes),
        operands=(nodes[0].inputs[0],),
        result=last.outputs[0],
        plan=exactly(plan) if is_half else plan,
    )


def reshaping(
    name: str,
    shapes: Shapes,
    *numbers: Role,
    order: Reordering = as_it_is,
    rules: tuple[Constraint, ...] = (),
) -> Operator:
    """The record of such an operator; ``numbers``: its inputs beside the feature map; ``rules``:
    those of its own.
    """

    def links(graph: Graph, node: Node) -> tuple[Link, ...]:
        return (Link(node.inputs[0], node.outputs[0], ORIGIN),)

    own = (new_shape_constant, *rules, order_possible)

    return Operator(
        name=name,
        inputs=(Role.FEATURE, *numbers),
        needed=1,
        lowering=Lowering.ALIAS,
        movement=Movement.KEEP,
        links=links,
        shapes=shapes,
        order=order,
        rules=of_kept_values(feature_rank, *own),
        half=half_records.alias((feature_rank, *own)),
    )
