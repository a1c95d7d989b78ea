"""Judge what the delegate gives for a model by TensorFlow Lite's reference kernels alone.

Errors of one step multiply in the next layer, so a whole model cannot be compared element by
element. Three runs say more: the model through the delegate; the same with every tensor exposed as
an output, whose own outputs must be exactly the same, unless new shapes leave nodes to the CPU; and
the model taken apart, in which the reference kernels compute every operator from what the delegate
gave at its inputs. Where all operators agree exactly, the whole model must, too. Nothing of
lowering is used here.
"""

from __future__ import annotations

import collections
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import delegate
import delegate.compile.cache
import delegate.compile.plugin  # before any fork: every case would import it anew
from delegate.compile.compiler import compile_model
from delegate.errors import LoweringError
from delegate.host.delegation import collect_delegations
from delegate.host.runtimes import find_runtime
from delegate.log import get_logger
from delegate.model.graph import DType, Graph, Node
from delegate.model.tflite_reader import read_graph
from delegate.ops.mirror_pad import REFLECT, MirrorPadOptions
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.options import Options
from delegate.partition.rules import PARTITION_COMPILES
from rk3588_conformance.cut_model import CutModel, cut_model, exposed_model

find_runtime()
Array = npt.NDArray[Any]

# Steps that an operator may be off, by the numeric contract; all others move data and are equal.
SUMS_OF_PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL",
                    "TRANSPOSE_CONV")  # fmt: skip
TOLERANCE = dict.fromkeys(SUMS_OF_PRODUCTS, 1)
OF_TWO_VALUES = ("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE")  # where no setting is equal
TOLERANCE |= dict.fromkeys(OF_TWO_VALUES, 1)
TOLERANCE["SOFTMAX"] = 1
TOLERANCE["PRELU"] = 1  # of several slopes, likewise
ROUNDED_ONCE = {"rk3576": ("MEAN", "SUM")}
"""The operators, by chip, that are requantised without BN, which makes the first of two roundings
elsewhere.
"""


class BrokenContractError(AssertionError):
    """A result beyond the contract."""


class CpuNodeError(Exception):
    """A node of the CPU gives something else where its tensors lie elsewhere."""


_LEFT_TO_CPU: list[str] = []
"""Messages of partitions that did not compile for new shapes."""


def _notice(record: logging.LogRecord) -> bool:
    if "run on the CPU" in record.msg:
        _LEFT_TO_CPU.append(record.getMessage())
    return True


get_logger().addFilter(_notice)


class Run:
    """An interpreter of one model, whose inputs change their shapes between inferences."""

    def __init__(
        self,
        model: bytes,
        *,
        is_delegated: bool,
        reference_kernels: bool = True,
        kernels_of_the_cpu: bool = False,
        options: Mapping[str, str] = {},
    ) -> None:
        """``reference_kernels``: of the nodes of the CPU; the default ones of MEAN and others are
        not always equal to them. ``kernels_of_the_cpu``: partitions are made, but no program
        of theirs is used. ``options``: of the delegate, beside those that the judge needs.
        """
        runtime = find_runtime()
        plugins = []
        if kernels_of_the_cpu:
            _use_no_programs()
        if is_delegated:
            chosen = {"device": "simulator", "log_level": "warning", "deny_ops": ""}
            plugins.append(
                runtime.load_delegate(
                    delegate.library_path(), {"cache_dir": "off", **chosen, **options}
                )
            )
        with collect_delegations() as found:
            self.interpreter: Any = runtime.interpreter(
                model, plugins, reference_kernels=reference_kernels
            )
        self.rejected = {r.node for d in found for r in d.rejections}
        self._is_allocated = True
        self.is_on_npu = True  # whatever is delegated, with the shapes of the last inference
        self.delegated_nodes = sum(d.delegated_nodes for d in found)
        self.outputs = [int(d["index"]) for d in self.interpreter.get_output_details()]

    def attempt(self, feeds: Mapping[int, Array]) -> dict[int, Array] | None:
        """The outputs by tensor; None: these shapes are an error."""
        try:
            return self.run(feeds)
        except (RuntimeError, ValueError):
            return None

    def refuses(self, feeds: Mapping[int, Array]) -> bool:
        """Return whether these shapes are an error."""
        return self.attempt(feeds) is None

    def run(self, feeds: Mapping[int, Array]) -> dict[int, Array]:
        """One inference: the outputs by tensor."""
        shapes = {int(d["index"]): tuple(d["shape"]) for d in self.interpreter.get_input_details()}
        changed = [t for t, value in feeds.items() if shapes[t] != value.shape]
        before = len(_LEFT_TO_CPU)
        for tensor in changed:
            self.interpreter.resize_tensor_input(tensor, feeds[tensor].shape)
        if changed or not self._is_allocated:
            self.is_on_npu, self._is_allocated = True, False
            self.interpreter.allocate_tensors()
            self._is_allocated = True
        for tensor, value in feeds.items():
            self.interpreter.set_tensor(tensor, value)
        self.interpreter.invoke()
        self.is_on_npu = self.is_on_npu and len(_LEFT_TO_CPU) == before
        return {tensor: self.interpreter.get_tensor(tensor) for tensor in self.outputs}


def _use_no_programs() -> None:
    """Models are compiled to find their partitions, which then do not compile for any shapes."""
    plugin: Any = delegate.compile.plugin
    compile_context = plugin.compile_context

    def compile_once(*arguments: Any) -> Any:
        plugin.compile_context = refuse
        return compile_context(*arguments)

    def refuse(*_: Any) -> Any:
        raise LoweringError(0, PARTITION_COMPILES, "asked not to")

    plugin.compile_context = compile_once
    delegate.compile.cache.has_own_shapes = lambda *_: False


def _together(model: bytes, options: Mapping[str, str]) -> set[tuple[int, ...]]:
    """Return the nodes of each task that computes several."""
    chosen = Options.from_mapping({"deny_ops": "", **options}, {})
    found = compile_model(model, chosen).partitions
    layers = (layer for partition in found for layer in partition.layers)
    return {layer.nodes for layer in layers if len(layer.nodes) > 1}


def largest_difference(ours: Array, theirs: Array) -> float:
    """Return the largest difference, in steps for integers; infinite where shapes or types differ,
    or where one side alone is NaN or infinite.
    """
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    if not np.issubdtype(ours.dtype, np.number):
        return 0.0 if (ours == theirs).all() else float("inf")
    if np.issubdtype(ours.dtype, np.floating):
        if (np.isnan(ours) != np.isnan(theirs)).any():
            return float("inf")
        differs = (ours != theirs) & ~np.isnan(ours)  # infinite ones may be equal, too
        ours, theirs = ours[differs], theirs[differs]
    wide = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    return float(wide.max(initial=0))


def judge_model(
    model: bytes,
    inferences: Sequence[Mapping[int, Array]],
    *,
    judged: frozenset[int] | None = None,
    options: Mapping[str, str] = {},
) -> dict[str, int]:
    """Runs ``inferences`` (values by input tensor) and compares. ``judged``: the operators that the
    contract speaks of; None: all. ``options``: the delegate's, which must not matter. Shapes that
    the runtime alone refuses must be an error, too. Counts of what was compared. Raises
    BrokenContractError.
    """
    graph = read_graph(model)
    # Of a copy, which hosts may write into.
    ours = Run(bytes(bytearray(model)), is_delegated=True, options=options)
    exposed = Run(exposed_model(model), is_delegated=True, options=options)
    # What compiles may differ between the two, and a kernel of the CPU from the NPU by a step.
    moved = ours.rejected ^ exposed.rejected
    once = ROUNDED_ONCE.get(options.get("chip", ""), ())
    has_same_homes = not any(tolerance(graph, node, once) for node in moved)
    if once and has_same_homes:  # convolutions that are one may be rounded otherwise than apart
        has_same_homes = _together(model, options) == _together(exposed_model(model), options)
    cut, apart = None, None
    whole = Run(bytes(bytearray(model)), is_delegated=False)  # likewise
    counts: collections.Counter[str] = collections.Counter(
        models=1, nodes=len(graph.nodes), delegated_nodes=ours.delegated_nodes
    )
    for number, feeds in enumerate(inferences):
        counts["inferences"] += 1
        where = f"inference {number}"
        theirs = whole.attempt(feeds)
        if theirs is None:
            if not (ours.refuses(feeds) and exposed.refuses(feeds)):
                raise BrokenContractError(f"{where}: the runtime alone refuses the shapes")
            counts["inferences_refused_by_the_runtime"] += 1
            continue
        results = ours.run(feeds)
        values = exposed.run(feeds)
        if not all(value.size for value in values.values()):
            counts["inferences_with_empty_tensors"] += 1  # of which kernels read what is not there
            continue
        if any(reads_beyond(graph, node, feeds, values) for node in graph.nodes):
            counts["inferences_that_read_what_is_not_there"] += 1
            continue
        same_kernels = ours.is_on_npu and exposed.is_on_npu and has_same_homes
        counts["inferences_with_nodes_left_to_the_cpu"] += not same_kernels and has_same_homes
        counts["inferences_with_nodes_that_outputs_move"] += not has_same_homes
        for tensor, result in results.items():
            if same_kernels and largest_difference(result, values[tensor]) != 0:
                name = graph.tensor(tensor).name
                writers = {node.index for node in graph.nodes if tensor in node.outputs}
                is_ours = judged is None or writers & judged
                raise (BrokenContractError if is_ours else CpuNodeError)(
                    f"{where}: output {tensor} {name!r} differs by "
                    f"{largest_difference(result, values[tensor])} when inner tensors are outputs"
                )
        values = {**feeds, **values}  # an input that a node writes has the node's value
        written = as_written(model, graph, feeds)
        if cut is None or apart is None or written != model:
            cut = cut_model(written, {t: value.shape for t, value in values.items()})
            apart = Run(cut.content, is_delegated=False)
        is_equal = _judge_nodes(graph, cut, apart, values, judged, once, counts, where)
        if is_equal and same_kernels and judged is None:
            for tensor, result in results.items():
                if largest_difference(result, theirs[tensor]) != 0:
                    raise BrokenContractError(
                        f"{where}: every operator is equal, but output {tensor} is not"
                    )
            counts["inferences_equal_throughout"] += 1
    return dict(counts)


def as_written(model: bytes, graph: Graph, feeds: Mapping[int, Array]) -> bytes:
    """``model``, whose ``graph`` was read from these very bytes, after a host set inputs that are
    constants to ``feeds``: whatever shares their buffers has these values, too.
    """
    begin = np.frombuffer(model, np.uint8).ctypes.data
    content = bytearray(model)
    for index, value in feeds.items():
        constant = graph.tensor(index).constant
        if constant is None:
            continue
        place = constant.ctypes.data - begin
        assert 0 <= place <= len(model) - value.nbytes, "constants lie in the file"
        content[place : place + value.nbytes] = value.tobytes()
    return bytes(content)


def judge_left_to_cpu(model: bytes, inferences: Sequence[Mapping[int, Array]]) -> dict[str, int]:
    """Runs ``inferences`` where no partition compiles for the shapes it meets, not even the first:
    what the runtime's own kernels give in place of the delegate must be what they give alone.
    Changes this process for good. Raises BrokenContractError.
    """
    graph = read_graph(model)
    ours = Run(model, is_delegated=True, kernels_of_the_cpu=True)
    alone = Run(model, is_delegated=False)
    inner = Run(exposed_model(model), is_delegated=False)
    for number, feeds in enumerate(inferences):
        theirs = alone.attempt(feeds)
        if theirs is None:
            if not ours.refuses(feeds):
                raise BrokenContractError(f"left to the CPU, inference {number}: no error")
            continue
        values = inner.run(feeds)
        if not all(value.size for value in values.values()):
            continue
        if any(reads_beyond(graph, node, feeds, values) for node in graph.nodes):
            continue
        for tensor, result in ours.run(feeds).items():
            if largest_difference(result, theirs[tensor]) != 0:
                raise BrokenContractError(
                    f"left to the CPU, inference {number}: output {tensor}: "
                    f"{first_difference(result, theirs[tensor])}"
                )
    return {"models_left_to_the_cpu": 1, "nodes_left_to_the_cpu": ours.delegated_nodes}


def reads_beyond(
    graph: Graph, node: Node, feeds: Mapping[int, Array], values: Mapping[int, Array]
) -> bool:
    """Return whether the runtime's kernel reads memory beside its operands, which the runtime
    checks for the model's own shapes at most: a MIRROR_PAD that takes more rows or columns than its
    image has, and a CONV_2D whose kernels cannot be shared out evenly among the groups of its
    channels.
    """
    if node.op not in ("MIRROR_PAD", "CONV_2D"):
        return False
    shape = {**feeds, **values}[node.inputs[0]].shape
    operand = graph.tensor(node.inputs[1])
    if node.op == "CONV_2D":
        kernels, *_, channels = operand.shape
        return bool(kernels % max(shape[-1] // max(channels, 1), 1))
    amounts = operand.constant
    assert amounts is not None
    # REFLECT leaves out the outermost pixel, so it has one less to give.
    edge = int(node.known_options(MirrorPadOptions).mode == REFLECT)
    return any(max(sides) + edge > size for sides, size in zip(amounts, shape, strict=True))


def tolerance(graph: Graph, node: int, once: Sequence[str] = ()) -> int:
    """Steps that a node may be off: none where one value decides, as of a sum with itself, and none
    of floats, which the CPU computes wherever this judge is asked. ``once``: operators that the
    chip rounds once.
    """
    found = graph.node(node)
    operands = {t for t in found.inputs if t >= 0}
    if any(graph.tensor(t).dtype is DType.FLOAT32 for t in found.outputs):
        return 0
    if found.op == "PRELU" and _count(graph.tensor(found.inputs[1]).constant) == 1:
        return 0
    if found.op == "RESIZE_BILINEAR":
        return int(any(_drifts(*sizes) for sizes in _resized(graph, node)))
    if found.op in OF_TWO_VALUES:
        operands = {t for t in operands if _count(graph.tensor(t).constant) != 1}
        if len(operands) == 1 and all(graph.tensor(t).constant is None for t in operands):
            return 0
    return 1 if found.op in once else TOLERANCE.get(found.op, 0)


def _resized(graph: Graph, node: int) -> Iterable[tuple[int, int]]:
    """Return rows before and behind a resizing, and columns, of which the ratio counts."""
    found = graph.node(node)
    aligned = int(found.known_options(ResizeBilinearOptions).align_corners)
    before, after = (graph.tensor(t).shape[1:3] for t in (found.inputs[0], found.outputs[0]))
    return ((a - aligned, b - aligned) for a, b in zip(before, after, strict=True) if b > 1)


def _drifts(before: int, after: int) -> bool:
    """Return whether the kernels round the step from a row to the next: no multiple of 2^-10."""
    return before > 0 and (before << 10) % after > 0


def _count(constant: Array | None) -> int:
    return 0 if constant is None else constant.size


def _judge_nodes(
    graph: Any,
    cut: CutModel,
    apart: Run,
    values: Mapping[int, Array],
    judged: frozenset[int] | None,
    once: Sequence[str],
    counts: collections.Counter[str],
    where: str,
) -> bool:
    """Return whether every operator gives exactly what the reference kernels give."""
    expected = apart.run({clone: values[tensor] for tensor, clone in cut.inputs})
    is_equal = True
    for node, tensor in cut.outputs:
        if judged is not None and node not in judged:
            continue
        op = graph.node(node).op
        difference = largest_difference(values[tensor], expected[tensor])
        if difference > tolerance(graph, node, once):
            raise BrokenContractError(
                f"{where}: node {node} ({op}) is off by {difference}: "
                f"{first_difference(values[tensor], expected[tensor])}"
            )
        counts[f"elements_of_{op}"] += values[tensor].size
        if difference:
            is_equal = False
            differing = int(np.count_nonzero(values[tensor] != expected[tensor]))
            counts[f"elements_of_{op}_off_by_one"] += differing
    return is_equal


def first_difference(ours: Array, theirs: Array) -> str:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype} {ours.shape}, expected {theirs.dtype} {theirs.shape}"
    wrong = np.argwhere(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)) > 1)
    if not len(wrong):
        wrong = np.argwhere(ours != theirs)
    place = tuple(int(v) for v in wrong[0])
    return f"{len(wrong)} of {ours.size}, first {place}: {ours[place]}, expected {theirs[place]}"
