"""One changed model per seed: through the compiler, and where the runtime alone survives it,
through the delegate."""

import ctypes
import resource
from collections.abc import Mapping
from typing import Any

import numpy as np

from delegate.compile.compiler import compile_model
from delegate.errors import ModelError
from delegate.host.runtimes import find_runtime
from delegate.model.graph import Graph, Node
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_conformance.cut_model import exposed_model
from rk3588_conformance.generated.campaign import (
    BROKEN,
    PASSED,
    SKIPPED,
    UNJUDGED,
    ChildResult,
    Outcome,
    in_child,
)
from rk3588_conformance.generated.judge import (
    BrokenContractError,
    judge_model,
    largest_difference,
)
from rk3588_conformance.generated.model_mutations import mutant
from rk3588_conformance.generated.run import Array, Run

SECONDS = 60.0
ALONE_SECONDS = 10.0  # for the runtime alone
MEMORY_BYTES = 6 << 30
M_PERTURB = -6  # of mallopt: fills memory that is allocated
OPTIONS = Options.from_mapping({"device": "simulator", "log_level": "error", "deny_ops": ""})


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _compile(content: bytes) -> tuple[int, int]:
    """Delegated nodes, and whether the file was refused."""
    _bounded()
    try:
        result = compile_model(content, OPTIONS)
    except ModelError:
        return 0, 1
    assert result.delegated_nodes + len(result.rejections) == result.total_nodes
    return result.delegated_nodes, 0


def _feeds(interpreter: Any, seed: int) -> dict[int, Array]:
    """Random values; wide integers keep theirs, since the runtime takes any for sizes and axes."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for entry in interpreter.get_input_details():
        kind = np.dtype(entry["dtype"])
        shape = tuple(int(d) for d in entry["shape"])
        if kind.itemsize > 2 and np.issubdtype(kind, np.integer):
            values = interpreter.get_tensor(entry["index"])
        elif np.issubdtype(kind, np.integer):
            limits = np.iinfo(kind)
            low, high = max(limits.min, -1000), min(limits.max, 1000)
            values = rng.integers(low, high, shape, endpoint=True)
        else:
            values = rng.normal(0, 10, shape)
        feeds[int(entry["index"])] = values.astype(kind)
    return feeds


def _run(content: bytes, seed: int, *, is_delegated: bool, reference: bool = False) -> Any:
    """Two inferences: the outputs, and the nodes that were left to the CPU."""
    _bounded()
    run = Run(content, is_delegated=is_delegated, reference_kernels=reference)
    results = []
    for number in range(2):
        outputs = run.run(_feeds(run.interpreter, 2 * seed + number))
        results.append({t: np.array(value) for t, value in outputs.items()})
    return results, run.rejected, run.delegated_nodes


def _run_alone(content: bytes, seed: int) -> Any:
    """The results of the reference kernels, and of the default ones. Each has its own copy of the
    file: a host that sets an input that is a constant writes into it.
    """
    copy = bytes(bytearray(content))
    reference = _run(copy, seed, is_delegated=False, reference=True)[0]
    return reference, _run(content, seed, is_delegated=False)[0]


def _is_defined(graph: Graph) -> bool:
    """Return whether nothing is read that nobody wrote: else results are whatever memory held."""
    known = set(graph.inputs)
    known.update(t.index for t in graph.tensors if t.constant is not None or t.is_variable)
    for node in graph.nodes:
        if any(t not in known for t in node.inputs if t != -1):
            return False
        known.update(node.outputs)
    return known.issuperset(graph.outputs)


def _blames_runtime(content: bytes, kind: str) -> str | None:
    """Return why a failure is the runtime's, which survives the file only by where its tensors lie.

    It prepares nodes once more for any delegate, which fails where one reads what a later one
    writes, or makes tensors larger each time; its SLICE writes where begin and size point, without
    a look at the tensor, and its TRANSPOSE where axes that name one twice lead.
    """
    try:
        graph = read_graph(content)
    except ModelError:
        return None
    if kind == BROKEN and not _is_defined(graph):
        return "reads what nobody wrote"
    if kind != BROKEN and not _is_defined(graph) and _grows(content):
        return "tensors grow whenever the runtime prepares its nodes"
    if kind != BROKEN and any(_slices_beyond(graph, node) for node in graph.nodes):
        return "the runtime's SLICE leaves its tensors"
    if kind != BROKEN and any(_names_an_axis_twice(graph, node) for node in graph.nodes):
        return "the runtime's TRANSPOSE leaves its tensors"
    return None


def _grows(content: bytes) -> bool:
    """Return whether the runtime alone gives tensors other shapes when it prepares nodes again."""

    def shapes() -> bool:
        _bounded()
        content_of_its_own = bytes(bytearray(content))
        interpreter: Any = find_runtime().interpreter(content_of_its_own, reference_kernels=True)
        interpreter.allocate_tensors()
        found = []
        for _ in range(2):
            details = interpreter.get_tensor_details()
            found.append([(d["index"], tuple(d["shape"])) for d in details])
            first = interpreter.get_input_details()[0]
            shape = [int(size) for size in first["shape"]]
            for images in (shape[0] + 1, shape[0]):
                interpreter.resize_tensor_input(first["index"], [images, *shape[1:]])
                interpreter.allocate_tensors()
        return found[0] != found[1]

    result = in_child(shapes, ALONE_SECONDS)
    return bool(result.kind != PASSED or result.value)


def _slices_beyond(graph: Graph, node: Node) -> bool:
    if node.op != "SLICE" or len(node.inputs) != 3 or -1 in node.inputs:
        return False
    data, begin, size = (graph.tensor(t) for t in node.inputs)
    if begin.constant is None or size.constant is None:
        return False
    places = zip(data.shape, np.ravel(begin.constant), np.ravel(size.constant), strict=False)
    return any(first < 0 or count < -1 or first + count > dim for dim, first, count in places)


def _names_an_axis_twice(graph: Graph, node: Node) -> bool:
    if node.op != "TRANSPOSE" or len(node.inputs) != 2 or -1 in node.inputs:
        return False
    axes = graph.tensor(node.inputs[1]).constant
    rank = len(graph.tensor(node.inputs[0]).shape)
    return axes is not None and len({int(axis) % max(rank, 1) for axis in np.ravel(axes)}) < rank


def _is_same(content: bytes, seed: int) -> bool:
    """Return whether the runtime alone gives the same with tensors at other places and other values
    in fresh memory: some kernels read beyond their tensors.
    """
    results = []
    for model, fill in ((bytes(bytearray(content)), 85), (exposed_model(content), 170)):
        ctypes.CDLL(None).mallopt(M_PERTURB, fill)
        results.append(_run(model, seed, is_delegated=False)[0])
    return _equal(*results)


def _judge_nodes(content: bytes, seed: int, judged: frozenset[int]) -> dict[str, int]:
    _bounded()
    interpreter = find_runtime().interpreter(bytes(bytearray(content)))
    inferences: list[Mapping[int, Array]] = [_feeds(interpreter, 2 * seed + n) for n in range(2)]
    return judge_model(content, inferences, judged=judged)


def judge(seed: int, seconds: float = SECONDS) -> Outcome:
    content = mutant(seed)
    compiled = in_child(lambda: _compile(content), seconds)
    if compiled.kind != PASSED:
        return Outcome(seed, compiled.kind, f"compile_model: {compiled.text}")
    counts = {"mutants": 1, "refused_by_the_reader": compiled.value[1]}
    alone = in_child(lambda: _run_alone(content, seed), ALONE_SECONDS)
    if alone.kind != PASSED:
        return Outcome(seed, SKIPPED, "the runtime alone does not survive it", counts)
    ours = in_child(lambda: _run(content, seed, is_delegated=True), seconds)
    if ours.kind != PASSED:
        reason = _blames_runtime(content, ours.kind)
        kind = SKIPPED if reason is not None else ours.kind
        return Outcome(seed, kind, reason or f"delegate: {ours.text}", counts)
    results, rejected, delegated = ours.value
    counts |= {"run": 1, "run_with_delegated_nodes": int(delegated > 0), "nodes_run": delegated}
    if any(_equal(results, theirs) for theirs in alone.value):
        return Outcome(seed, PASSED, counts={**counts, "run_equal": 1})
    return _judge_inequality(seed, content, rejected, counts, seconds)


def _judge_inequality(
    seed: int, content: bytes, rejected: set[int], counts: dict[str, int], seconds: float
) -> Outcome:
    """Outputs differ: each delegated operator must be within the contract by itself."""
    try:
        graph = read_graph(content)
    except ModelError as error:
        return Outcome(seed, UNJUDGED, f"the reader refuses it: {error}", counts)
    if not _is_defined(graph) or in_child(lambda: _is_same(content, seed), seconds).value is False:
        return Outcome(seed, PASSED, counts={**counts, "run_undefined": 1})
    judged = frozenset(node.index for node in graph.nodes) - rejected
    inner: ChildResult = in_child(lambda: _judge_nodes(content, seed, judged), 2 * seconds)
    if inner.kind == PASSED:
        return Outcome(seed, PASSED, counts={**counts, "run_within_contract": 1})
    is_broken = inner.value == BrokenContractError.__name__ or inner.kind != BROKEN
    return Outcome(seed, inner.kind if is_broken else UNJUDGED, f"differs: {inner.text}", counts)


def _equal(ours: list[dict[int, Array]], theirs: list[dict[int, Array]]) -> bool:
    return all(
        largest_difference(mine[t], other[t]) == 0
        for mine, other in zip(ours, theirs, strict=True)
        for t in mine
    )
