"""Operators that give the same values another shape or order. Free where pixels stay what they are,
whole channels one after the other; else convolutions move them, those of a chain of nodes at once.

Results of operators that only move constants, computed while a model is compiled.

Rules of operators that resize images.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from delegate.errors import LoweringError
from delegate.lower.memory.tensors import view_of
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.reorder import MOST_TASKS
from delegate.lower.rules import FORM_IS_KNOWN, REORDERED_ALONE
from delegate.lower.selection import Move
from delegate.model.graph import Graph, Node, read_only
from delegate.model.index_map import IndexMap, MapError, identity
from delegate.model.operator_options import Options
from delegate.ops.operator import (
    Constraint,
    GraphFacts,
    Maps,
    Movement,
    OnImage,
    Operator,
    Role,
    Shape,
    Shapes,
    Side,
    constraint,
    is_in_half,
    named,
)
from delegate.ops.shared import half_records
from delegate.ops.shared.common import feature_rank, other_shape
from delegate.ops.shared.image_rules import of_kept_values, output_sides_in_range
from delegate.ops.shared.maps import Values, integers, moved
from delegate.ops.shared.moving import move_plan
from delegate.ops.shared.parts import is_free, is_spread, rearrangement_of
from delegate.ops.shared.pooling import pool_rank
from delegate.ops.shared.reductions import summed_image

MOST_NODES = 8
"""The most nodes of a chain: more than any network has in a row."""

SHARING: Final = frozenset({"RESHAPE", "EXPAND_DIMS", "SQUEEZE", "BITCAST"})
"""Operators whose result runtimes let lie where their operand does."""


def as_it_is(graph: Graph, node: Node) -> tuple[IndexMap]:
    """Return the map of operators that change the shape alone. Raises MapError."""
    before, after = (graph.tensor(t).shape for t in (node.inputs[0], node.outputs[0]))
    if math.prod(before) != math.prod(after):  # as a file may have it of what changes later
        raise MapError(f"{list(before)} makes no {list(after)}")
    return (identity(before),)


def map_of(facts: GraphFacts, nodes: Sequence[Node]) -> IndexMap:
    """Return what ``nodes``, one after the other, move. Raises MapError."""
    found = identity(facts.graph.tensor(nodes[0].inputs[0]).shape)
    for node in nodes:
        (moved,) = facts.maps(node)
        found = moved.compose(found)
    return found


def reorder_of(facts: GraphFacts, nodes: Sequence[Node], *, is_known: bool = False) -> Move | None:
    """Return how the tasks of ``nodes`` together move elements; None: they cannot, or with
    ``is_known`` the chip is not known to.
    """
    key = (*(node.index for node in nodes), is_known)
    if key not in facts.moves:
        facts.moves[key] = _reorder_of(facts, nodes, is_known=is_known)
    return facts.moves[key]


def _reorder_of(facts: GraphFacts, nodes: Sequence[Node], *, is_known: bool) -> Move | None:
    try:
        moved = map_of(facts, nodes)
    except MapError:
        return None
    source, result = (facts.graph.tensor(t) for t in (nodes[0].inputs[0], nodes[-1].outputs[0]))
    return rearrangement_of(facts.chip, source, result, moved, is_known=is_known)


def chain_of(
    facts: GraphFacts,
    node: Node,
    members: Collection[int] | None = None,
    kept: Collection[int] = (),
) -> tuple[Node, ...]:
    """``node``, and nodes before and behind it that move data, too, each of which is the only
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
        behind, *others = facts.readers_of_values(chain[-1].outputs[0]) or (chain[-1],)
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
    """Return whether ``behind`` alone needs what ``before`` gives, and both move data."""
    result = before.outputs[0]
    if facts.readers_of_values(result) != (behind,) or result in (*facts.graph.outputs, *kept):
        return False
    return all(
        (members is None or node.index in members) and _moves(facts, node)
        for node in (before, behind)
    )


def _moves(facts: GraphFacts, node: Node) -> bool:
    operator = facts.known_operator(node)
    if operator is None or operator.movement is not Movement.KEEP:
        return False
    first = next(rule for rule in operator.rules if rule is order_possible)
    rules = operator.rules[: operator.rules.index(first)]
    return all(rule.check(facts, node) is None for rule in rules)


def swallowed(
    facts: GraphFacts, nodes: Sequence[Node], members: Collection[int], kept: Collection[int]
) -> set[int]:
    """Return the free nodes of ``members`` that are part of one move with ``nodes`` that are not
    free: free reshapes between the transpositions of a channel shuffle, which is one permutation.
    """
    found, done = set[int](), set[int]()
    for node in nodes:
        chain = chain_of(facts, node, members, kept) if node.index not in done else ()
        done.update(one.index for one in chain)
        if any(is_free(facts, one) for one in chain):
            steps = _steps(facts, chain, is_known=True, is_alias=is_free) or ()
            parts = (one for step in steps if len(step) > 1 for one in step)
            found.update(one.index for one in parts if is_free(facts, one))
    return found


@constraint()
def new_shape_constant(facts: GraphFacts, node: Node) -> str | None:
    """The new shape, axis or axes must be constant."""
    wrong = next((t for t in facts.inputs(node)[1:] if t.constant is None), None)
    return None if wrong is None else f"{named(wrong)} is computed while running"


def _is_first(facts: GraphFacts, node: Node) -> bool:
    """Return whether ``node`` alone reads an input of the model, which a live interpreter does not
    name, as it is or as the host converts it, and leaves nothing of it out.
    """
    source = facts.graph.tensor(node.inputs[0])
    is_order = facts.maps(node)[0].is_order(math.prod(source.shape))
    if not is_order or not is_spread(source) or facts.readers_of_values(source.index) != (node,):
        return False
    maker = facts.makers.get(source.index)
    if maker is not None and _is_converted(facts, maker, Side.INPUT):
        source = facts.graph.tensor(maker.inputs[0])
        if facts.readers_of_values(source.index) != (maker,):
            return False
    is_made = source.index in facts.makers or source.is_variable
    return source.constant is None and not is_made


def _is_last(facts: GraphFacts, node: Node) -> bool:
    """Return whether the result of ``node`` is nothing but an output of the model, likewise."""
    result, ends = node.outputs[0], facts.graph.outputs
    if not is_spread(facts.graph.tensor(result)):
        return False
    readers = facts.readers.get(result, ())
    if len(readers) == 1 and result not in ends and _is_converted(facts, readers[0], Side.OUTPUT):
        result = readers[0].outputs[0]
    return result not in facts.readers and (result in ends or not ends)


def _is_converted(facts: GraphFacts, node: Node, side: Side) -> bool:
    """Return whether the host's conversion does what ``node`` does at such an edge."""
    operator = facts.known_operator(node)
    if operator is None or operator.host_values is None:
        return False
    is_kept = all(rule.check(facts, node) is None for rule in operator.rules)
    return is_kept and operator.host_values(facts.graph, node, side) is not None


@constraint(most=MOST_TASKS)
def order_possible(facts: GraphFacts, node: Node) -> str | None:
    """At most {most} convolutions must be able to change channels or the order inside the model."""
    try:
        facts.maps(node)
    except MapError as error:
        return str(error)
    if is_free(facts, node) or reorder_of(facts, (node,)) is not None:
        return None
    if _is_first(facts, node) or _is_last(facts, node):
        return None
    if _steps(facts, chain_of(facts, node), is_known=False, is_alias=is_free) is not None:
        return None
    if _is_turned_by_product(facts, node) or _is_read_as_image(facts, node):
        return None
    if undone(facts, node) is not None:
        return None
    before, after = facts.graph.tensor(node.inputs[0]), facts.outputs(node)[0]
    return f"{named(before)} is {list(before.shape)}, {named(after)} {list(after.shape)}"


def undone(facts: GraphFacts, node: Node) -> tuple[Node, ...] | None:
    """Return moves of which ``node``, the last, undoes the others: what the first one reads is its
    result. None: it undoes none.
    """
    chain, result = [node], facts.outputs(node)[0]
    while len(chain) < MOST_NODES:
        before = facts.makers.get(chain[0].inputs[0])
        if before is None or not _moves(facts, before):
            return None
        chain.insert(0, before)
        try:
            order = map_of(facts, chain)
        except MapError:
            return None
        source = facts.graph.tensor(before.inputs[0])
        if source.shape == result.shape and order.is_whole and order.shift() == 0:
            return tuple(chain)
    return None


def _is_turned_by_product(facts: GraphFacts, node: Node) -> bool:
    """Return whether a product that may run exchanges rows and columns itself, so that less is left
    to move.
    """
    turn = facts.operator(node).turn
    found = None if turn is None else turn(facts, node)
    if found is None:
        return False
    rules = facts.operator(found.product).rules
    return all(rule.check(facts, found.product) is None for rule in rules)


def _is_read_as_image(facts: GraphFacts, node: Node) -> bool:
    """Return whether sums behind the node read the image before it, in the order that it has."""
    chain = chain_of(facts, node)
    begins = range(chain.index(node) + 1)
    return any(images_behind(facts, chain[begin:]) is not None for begin in begins)


def images_behind(facts: GraphFacts, chain: Sequence[Node]) -> tuple[Shape, list[OnImage]] | None:
    """Return an image that has the memory of what ``chain`` reads, and all readers of its result,
    which can read that instead; None: one of them cannot, or there is none.
    """
    source, result = facts.graph.tensor(chain[0].inputs[0]), chain[-1].outputs[0]
    readers = facts.readers_of_values(result)
    image = summed_image(facts.chip, view_of(source.shape))
    if image is None or source.constant is not None or result in facts.graph.outputs:
        return None
    try:
        order = map_of(facts, chain)
    except MapError:
        return None
    if not order.is_order(order.size):
        return None
    shape = dataclasses.astuple(image)
    found = []
    for node in readers:
        operator = facts.known_operator(node)
        if operator is not None and operator.on_image is not None:
            made = operator.on_image(facts.graph, node, shape, order)
            if made is not None and node.inputs.count(result) == 1:
                found.append(made)
    return (shape, found) if found and len(found) == len(readers) else None


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
        for part in _steps(facts, chain, is_known=True) or [(n,) for n in chain]:
            found[part[-1].index] = _operation(facts, part)
        done.update(n.index for n in chain)
    return found


def _is_no_alias(facts: GraphFacts, node: Node) -> bool:
    return False


def _steps(
    facts: GraphFacts,
    chain: tuple[Node, ...],
    *,
    is_known: bool,
    is_alias: Callable[[GraphFacts, Node], bool] = _is_no_alias,
) -> list[tuple[Node, ...]] | None:
    """Return ``chain`` in the moves that take the fewest tasks, and of those in the fewest, where a
    node that ``is_alias`` needs none by itself; None: some node is in none.
    """
    found: list[tuple[tuple[int, int], list[tuple[Node, ...]]] | None] = [((0, 0), [])]
    for end in range(1, len(chain) + 1):
        made = []
        for begin, before in enumerate(found):
            step = chain[begin:end]
            count = None if before is None else _count(facts, step, is_known, is_alias)
            if before is not None and count is not None:
                tasks, moves = before[0]
                made.append(((tasks + count, moves + (count > 0)), [*before[1], step]))
        found.append(min(made, key=lambda one: one[0], default=None))
    return None if found[-1] is None else found[-1][1]


def _count(
    facts: GraphFacts,
    step: tuple[Node, ...],
    is_known: bool,
    is_alias: Callable[[GraphFacts, Node], bool],
) -> int | None:
    """Return how many tasks make a move; None: it is none."""
    if len(step) == 1 and is_alias(facts, step[0]):
        return 0
    move = reorder_of(facts, step, is_known=is_known)
    return None if move is None else max(move.launches, 1)


def _operation(facts: GraphFacts, nodes: Sequence[Node]) -> Operation:
    last = nodes[-1]
    move = reorder_of(facts, nodes, is_known=True)
    if move is None:
        before = facts.graph.tensor(nodes[0].inputs[0]).shape
        problem = f"from {list(before)} to {list(facts.outputs(last)[0].shape)}"
        is_unknown = reorder_of(facts, nodes) is not None
        rule = FORM_IS_KNOWN if is_unknown else REORDERED_ALONE
        raise LoweringError(last.index, rule, problem)

    def plan(planning: Planning, operation: Operation) -> Plan:
        return move_plan(planning, operation, move)

    is_half = is_in_half(facts.graph, last)
    if is_half:
        from delegate.ops.shared.half import exactly
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
    options: type[Options] | None = None,
    maps: Maps = as_it_is,
    rules: tuple[Constraint, ...] = (),
) -> Operator:
    """Return the record of such an operator; ``numbers``: its inputs beside the feature map;
    ``rules``: those of its own.
    """

    own = (new_shape_constant, *rules, order_possible)

    return Operator(
        name=name,
        options=options,
        inputs=(Role.FEATURE, *numbers),
        needed=1 if maps is as_it_is else None,
        movement=Movement.KEEP,
        shapes=shapes,
        maps=maps,
        folds=lambda graph, node: moved_constant(graph, node, maps, shapes),
        rules=of_kept_values(feature_rank, *own),
        half=half_records.alias((feature_rank, *own)),
    )


def moved_constant(graph: Graph, node: Node, maps: Maps, shapes: Shapes) -> Values | None:
    """Return what ``maps`` make of the first input of ``node``; None: it is no constant of a type
    that NumPy has, map or shape are not known, or the result is larger.
    """
    source, result = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    values = source.constant
    if values is None or values.shape != source.shape or source.dtype is not result.dtype:
        return None
    try:
        (found,), (shape,) = maps(graph, node), shapes(graph, node)
        if found.size > values.size or found.size != math.prod(shape):
            return None
        if found.shift() == 0:
            return read_only(values.reshape(shape))
    except ValueError:
        return None
    return read_only(moved(found, values).reshape(shape))


SIZES = 1


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Return the shape with the new height and width. Raises MapError where they are no
    constants.
    """
    images, *_, channels = graph.tensor(node.inputs[0]).shape
    rows, columns = integers(graph, node.inputs[SIZES], 2)
    return ((images, rows, columns, channels),)


@constraint()
def new_size_known(facts: GraphFacts, node: Node) -> str | None:
    """The new height and width must be constants, those of the output."""
    return other_shape(facts, node)


GEOMETRY = (pool_rank, new_size_known, output_sides_in_range)

RULES = of_kept_values(*GEOMETRY)
