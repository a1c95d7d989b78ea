"""Say nodes that are computed together as one node.

All that is computed in float32 between 8-bit tensors is one function of them, and the nodes of a
deviation in fp16 are one: none of these is ever computed alone.

Products of computed matrices exchange rows and columns themselves, where a TRANSPOSE beside them
does. Attention multiplies queries by keys with rows and columns exchanged, and the result may be
turned again before its softmax. On the NPU that moves channels to pixels, a convolution for every
few channels. A product takes its second operand either way, rows as kernels more cheaply, and the
product of the exchanged operands in the other order is the exchanged result: sums and multipliers
are the same. What else the TRANSPOSE does, as bringing heads in front of pixels, it still does.

A move that undoes others, as a TRANSPOSE back to channels last whose way there has another reader,
is a reshape of what was there before: it moves nothing.

A dense layer behind a flattened image reads the image itself: one kernel covers it, and constant
weights take its order, so that nothing brings its pixels to channels.

Nobody has run a task whose weights another one wrote. The host packs weights where a matrix enters
a partition, so a product runs in a later part than what its matrix comes from.

Comes from: a partition whose nodes keep the rules. Goes to: ``workload``, which lowers the graph
that this gives instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from delegate.chip.chip import Chip
from delegate.errors import LoweringError
from delegate.lower.image_parts import fits_one_task
from delegate.lower.legalize import computes_weights, sums_over_tasks
from delegate.lower.memory.tensors import device_element, view_of
from delegate.lower.rules import FORM_IS_KNOWN
from delegate.model.graph import Graph, Node, Partition
from delegate.ops.operator import (
    RESULT,
    GraphFacts,
    Movement,
    OnImage,
    Role,
    Shape,
    Turn,
    known_record,
    named,
    record_of,
)
from delegate.ops.shared.parts import is_free, is_spread
from delegate.ops.shared.real_functions import chain_to, is_end
from delegate.ops.shared.reshaping import chain_of, images_behind, undone
from delegate.partition.partitions import RESHAPE, PartitionsOf, Rewriter, Rewritten, inner_part
from delegate.partition.rules import HOST_CONVERTS, Refusal, check_node


def join_real_functions(given: Rewritten, chip: Chip) -> Rewritten:
    """Return ``given`` with one node for each function's result. Raises LoweringError for a node
    of one whose neighbours are not in the partition.
    """
    facts, before = GraphFacts(given.graph, chip), {**given.before}
    to, partition = Rewriter(given.graph, given.partition), given.partition
    members = {*partition.nodes}
    inner: set[int] = set()
    for node in map(given.graph.node, partition.nodes):
        found = chain_to(facts, node, members) if is_end(facts, node) else None
        if found is None:
            continue
        made, before[node.index] = found
        to.put(node.index, made)
        inner.update(before[node.index])
    read = Counter(t for node in to.nodes for t in node.inputs)
    read.update(partition.outputs)
    for node in reversed([given.graph.node(index) for index in partition.nodes]):
        is_real = facts.operator(node).real is not None
        if node.index in before or not (is_real or node.index in inner):
            continue
        if node.index in inner and not any(read[t] for t in node.outputs):
            read.subtract(node.inputs)
            to.put(node.index)
        elif is_real:  # a DEQUANTIZE may be the host's, too
            problem = "its DEQUANTIZE or QUANTIZE is in no partition with it"
            raise LoweringError(node.index, HOST_CONVERTS, problem)
    return Rewritten(*to.made(), before)


def join_nodes(given: Rewritten, chip: Chip) -> Rewritten:
    """Return ``given`` with one node for each whole. Raises LoweringError for a node whose others
    are not in the partition.
    """
    facts, before = GraphFacts(given.graph, chip), {**given.before}
    to, partition = Rewriter(given.graph, given.partition), given.partition
    for node in map(given.graph.node, partition.nodes):
        whole = facts.operator(node).whole
        if whole is None:
            continue
        found = whole(facts, node)
        between = set() if found is None else {t for n in found.nodes for t in n.outputs}
        between.difference_update(() if found is None else found.outputs)
        if (
            found is None
            or not between.isdisjoint(partition.outputs)
            or not all(one.index in partition.nodes for one in found.nodes)
        ):
            problem = "a node that it is computed with is in no partition with it"
            raise LoweringError(node.index, HOST_CONVERTS, problem)
        for one in found.nodes:
            if one is not node:
                to.put(one.index)
        to.put(node.index, replace(node, inputs=found.inputs, outputs=found.outputs))
        before[node.index] = tuple(one.index for one in found.nodes)
    return Rewritten(*to.made(), before)


def turn_products(given: Rewritten, chip: Chip) -> Rewritten:
    """Return ``given`` with every exchange in its product that may be there."""
    found, facts = given, GraphFacts(given.graph, chip)
    for index in given.partition.nodes:
        node = facts.graph.node(index)
        turn = _turn(facts, found.partition, node)
        made = None if turn is None else _turned(facts, found, node, turn)
        if made is not None:
            found, facts = made, GraphFacts(made.graph, chip)
    return found


def _turn(facts: GraphFacts, partition: Partition, node: Node) -> Turn | None:
    """Return what is left of ``node`` where a product of the partition may do the rest."""
    turn = facts.operator(node).turn
    found = None if turn is None else turn(facts, node)
    if found is None or found.product.index not in partition.nodes:
        return None
    between = node.inputs[0] if found.place == RESULT else node.outputs[0]
    return None if between in partition.outputs else found


def _turned(facts: GraphFacts, given: Rewritten, node: Node, turn: Turn) -> Rewritten | None:
    """Return ``given`` with the exchange in the product; None: the rules forbid it."""
    to = Rewriter(given.graph, given.partition)
    source, result = node.inputs[0], node.outputs[0]
    exchange = facts.operator(turn.product).exchange
    assert exchange is not None
    product = exchange(turn.product, turn.place)
    is_result = turn.place == RESULT
    packed = product.inputs[1] if is_result and not computes_weights(facts.chip) else None
    if packed is not None and packed not in given_tensors(given.graph, given.partition):
        return None
    between = facts.graph.tensor(source if is_result else result)
    left = [] if turn.axes == tuple(range(len(turn.axes))) else [node]
    other = to.add(between, (*between.shape[:-2], *between.shape[:-3:-1])) if left else None
    if is_result:
        product = replace(product, outputs=(result if other is None else other,))
    else:
        inputs = list(product.inputs)
        inputs[turn.place] = source if other is None else other
        product = replace(product, inputs=tuple(inputs))
    if other is not None:
        ends = (other, result) if is_result else (source, other)
        axes = to.numbers(turn.axes)
        left = [replace(node, inputs=(ends[0], axes), outputs=ends[1:])]
    to.put(node.index, *left)
    to.put(product.index, product)
    graph, partition = to.made()
    changed = GraphFacts(graph, facts.chip)
    if any(check_node(changed, one) is not None for one in (*left, product)):
        return None
    nodes = (*given.before.get(product.index, ()), node.index, product.index)
    before = given.before if left else {**given.before, product.index: tuple(sorted({*nodes}))}
    return Rewritten(graph, partition, before)


def flatten_by_weights(given: Rewritten, chip: Chip) -> Rewritten:
    """Return ``given`` with sums that read images in the order in which these lie."""
    found, facts = given, GraphFacts(given.graph, chip)
    for node in map(given.graph.node, given.partition.nodes):
        before = facts.makers.get(node.inputs[0])
        if facts.operator(node).on_image is not None and before is not None:
            made = _flattened(facts, found, before)
            if made is not None:
                found, facts = made, GraphFacts(made.graph, chip)
    return found


def undo_moves(given: Rewritten, chip: Chip) -> Rewritten:
    """Return ``given`` with moves that undo others, which somebody else reads, as reshapes of what
    was there before these.
    """
    facts, members = GraphFacts(given.graph, chip), {*given.partition.nodes}
    to = Rewriter(given.graph, given.partition)
    for node in map(given.graph.node, given.partition.nodes):
        if facts.movement(node) is not Movement.KEEP or is_free(facts, node):
            continue
        found = undone(facts, node)
        if found is None or not members.issuperset(one.index for one in found):
            continue
        inner = [one.outputs[0] for one in found[:-1]]
        kept = not {*inner}.isdisjoint(given.partition.outputs)
        if kept or any(len(facts.readers_of_values(tensor)) > 1 for tensor in inner):
            source = facts.graph.tensor(found[0].inputs[0])
            inputs = source.index, to.numbers(source.shape)
            to.put(node.index, Node(node.index, RESHAPE, inputs, node.outputs))
    if not to.changed:
        return given
    graph, partition = to.made()
    return Rewritten(graph, partition, given.before)


def _flattened(facts: GraphFacts, given: Rewritten, last: Node) -> Rewritten | None:
    """Return ``given`` without the moves up to ``last``; None: they are needed, or cost nothing."""
    members, partition = {*given.partition.nodes}, given.partition
    if last.index not in members or facts.movement(last) is not Movement.KEEP:
        return None
    whole = chain_of(facts, last, members, partition.outputs)
    for chain in (whole[begin:] for begin in range(len(whole))):
        source = chain[0].inputs[0]
        readers = [node for node in facts.readers[source] if node.index in members]
        is_edge = source in partition.inputs and readers == [chain[0]]
        if is_edge or all(is_free(facts, node) for node in chain):
            return None
        found = images_behind(facts, chain)
        if found is not None and chain[-1].outputs[0] not in partition.outputs:
            made = _on_images(facts, given, chain, *found)
            if made is not None:
                return made
    return None


def _on_images(
    facts: GraphFacts,
    given: Rewritten,
    chain: Sequence[Node],
    shape: Shape,
    readers: Sequence[OnImage],
) -> Rewritten | None:
    """Return ``given`` with ``readers`` of the image before ``chain``; None: rules forbid it."""
    to, before = Rewriter(given.graph, given.partition), {**given.before}
    image = facts.graph.tensor(chain[0].inputs[0])
    first = []
    if image.shape != shape:
        seen = to.add(image, shape)
        first = [Node(chain[0].index, RESHAPE, (image.index, to.numbers(shape)), (seen,))]
        image = to.tensors[seen]
    for node in chain:
        to.put(node.index, *first)
        first = []
    element = device_element(image)
    for node, weights_of in readers:
        values = weights_of()
        fits = fits_one_task(facts.chip, view_of(shape), len(values), element.bytes)
        if not fits and not sums_over_tasks(facts.chip, element):
            return None
        weights = to.add(facts.graph.tensor(node.inputs[1]), values.shape, values)
        to.put(node.index, replace(node, inputs=(image.index, weights, *node.inputs[2:])))
        nodes = (*(one.index for one in chain), *before.get(node.index, ()), node.index)
        before[node.index] = tuple(sorted({*nodes}))
    graph, partition = to.made()
    changed = GraphFacts(graph, facts.chip)
    if any(check_node(changed, graph.node(index)) is not None for index in to.changed):
        return None
    return Rewritten(graph, partition, before)


def parts_of(
    graph: Graph, whole: Partition, chip: Chip, partitions_of: PartitionsOf
) -> list[Partition]:
    """Return the parts of a partition that run one after the other, so that the host packs what a
    later one reads as weights. The whole alone where the chip takes computed weights, or where the
    runtime would not make these parts.
    """
    levels = _levels(graph, whole, chip)
    members: dict[int, set[int]] = {}
    for node, level in levels.items():
        members.setdefault(level, set()).add(node)
    if len(members) < 2:
        return [whole]
    found = []
    for level in sorted(members):
        made = partitions_of(frozenset(members[level]))
        if [set(one.nodes) for one in made] != [members[level]]:
            return [whole]
        found.append(inner_part(graph, made[0], members[level].intersection(whole.nodes)))
    return found


def given_tensors(graph: Graph, partition: Partition) -> set[int]:
    """Return the inputs of a partition, and what the host makes of them when it only moves them."""
    nodes = [graph.node(index) for index in partition.nodes]
    reads = Counter(t for node in nodes for t in node.inputs)
    reads.update(partition.outputs)
    given = {*partition.inputs}
    for node in nodes:
        source, result = node.inputs[0], node.outputs[0]
        if source not in given or not is_spread(graph.tensor(source)):
            continue
        if reads[source] == reads[result] == 1:
            record = known_record(graph, node)
            if record is not None and record.movement is Movement.KEEP:
                given.add(result)
    return given


def _levels(graph: Graph, whole: Partition, chip: Chip) -> Mapping[int, int]:
    """Return the number of the part that each node belongs to; of what is computed before, that of
    its readers, if they are in one.
    """
    nodes = [graph.node(index) for index in whole.nodes]
    matrices = _matrices(graph, nodes)
    if not matrices or computes_weights(chip):
        return {}
    given = given_tensors(graph, whole)
    levels: dict[int, int] = {}
    made: dict[int, int] = {}  # by tensor
    for node in nodes:
        before = [made[t] for t in node.inputs if t in made]
        matrix = matrices.get(node.index)
        if matrix in made and matrix not in given:
            before.append(made[matrix] + 1)
        levels[node.index] = level = max(before, default=0)
        made.update(dict.fromkeys(node.outputs, level))
    for node in reversed([graph.node(index) for index in whole.computed]):
        readers = {levels[n.index] for n in graph.nodes
                   if n.index in levels and not {*n.inputs}.isdisjoint(node.outputs)}  # fmt: skip
        if len(readers) != 1:
            return {}
        levels[node.index] = readers.pop()
    return levels


def _matrices(graph: Graph, nodes: Sequence[Node]) -> Mapping[int, int]:
    """Return the tensor that each product reads as weights, by node; ``nodes`` may be such that the
    NPU does not take, of which reports ask.
    """
    return {
        node.index: matrix
        for node in nodes
        if (record := known_record(graph, node)) is not None
        for matrix in record.inputs_of(node, Role.MATRIX)
    }


def early_products(graph: Graph, partition: Partition, chip: Chip) -> Iterator[Refusal]:
    """Yield the refusals of products that read what ``partition`` computes as weights. Those that
    are in another partition once these are gone are none of them.
    """
    nodes = [graph.node(index) for index in partition.nodes]
    matrices = _matrices(graph, nodes)
    if not matrices or computes_weights(chip):
        return
    features = {
        tensor
        for node in nodes
        for tensor in record_of(graph, node).inputs_of(node, Role.FEATURE, Role.OPERAND)
    }
    mine = {*partition.outputs, *features}
    levels = dict.fromkeys(partition.inputs, 0)
    for node in nodes:
        level = max((levels.get(tensor, 0) for tensor in node.inputs), default=0)
        matrix = matrices.get(node.index)
        is_given = matrix in partition.inputs and matrix not in mine
        if matrix is not None and not is_given and levels.get(matrix, 0) == level:
            problem = f"its partition computes {named(graph.tensor(matrix))}"
            if matrix in partition.inputs:
                problem = f"others read {named(graph.tensor(matrix))} as features"
            yield Refusal(node, FORM_IS_KNOWN, problem)
            level += 1
        levels.update(dict.fromkeys(node.outputs, level))
