"""Judge what the delegate gives for a model by TensorFlow Lite's reference kernels alone, and, with
``numerics=auto``, by its own claims.

Errors of one step multiply in the next layer, so a whole model cannot be compared element by
element. Three runs say more: the model through the delegate; the same with every tensor exposed as
an output, whose own outputs must be exactly the same, unless new shapes leave nodes to the CPU; and
the model taken apart, in which the reference kernels compute every operator from what the delegate
gave at its inputs. Where all operators agree exactly, the whole model must, too. Nothing of
lowering is used here.

With ``numerics=auto`` a layer that computes several nodes says how far it may be from TensorFlow
Lite's result, given the same inputs. So the results of layers are exposed alone, which leaves the
same layers, and the reference kernels compute node by node what lies between them: of a joined
layer, from its inputs, the tensors that vanish, and then its result.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from delegate.compile.compiler import compile_model
from delegate.host.kernels import for_runtime
from delegate.host.runtimes import find_runtime
from delegate.lower.lowered import Layer
from delegate.model.graph import DType, Graph, Node
from delegate.model.tflite_reader import read_graph
from delegate.ops.mirror_pad import REFLECT, MirrorPadOptions
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.options import Options
from rk3588_conformance.cut_model import CutModel, cut_model, exposed_model
from rk3588_conformance.generated.run import Array, Run

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


ROUNDED = (
    *TOLERANCE, "AVERAGE_POOL_2D", "MEAN", "SUM", "QUANTIZE", "CONCATENATION", "RELU", "RELU6",
    "RELU_N1_TO_1", "RELU_0_TO_1", "RESIZE_BILINEAR", "LEAKY_RELU",
)  # fmt: skip
"""Operators whose ties go to the even side in auto; all others move data or look it up."""


COMPARED = "inferences_with_outputs_compared"
"""The count of inferences whose outputs follow from operators that were all judged."""


class BrokenContractError(AssertionError):
    """A result beyond the contract."""


class CpuNodeError(Exception):
    """A node of the CPU gives something else where its tensors lie elsewhere."""


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
    contract speaks of; None: all. ``options``: the delegate's, which must not matter, but for
    ``numerics=auto``. Shapes that the runtime alone refuses must be an error, too. Counts of what
    was compared. Raises BrokenContractError.
    """
    graph = read_graph(model)
    counts: collections.Counter[str] = collections.Counter(models=1, nodes=len(graph.nodes))
    is_auto = options.get("numerics") == "auto"
    layers = _layers(model, options) if is_auto else []
    # The results of all layers: the tensors that do not vanish.
    results_of = [t for layer in layers for t in graph.node(layer.nodes[-1]).outputs]
    shown = exposed_model(model, results_of if is_auto else None)
    joined = _joined(layers)
    if is_auto and _joined(_layers(shown, options)) != joined:
        counts["models_that_outputs_change"] += 1
        return dict(counts)
    counts["layers_joined"] += len(joined)
    # Of a copy, which hosts may write into.
    ours = Run(bytes(bytearray(model)), is_delegated=True, options=options)
    exposed = Run(shown, is_delegated=True, options=options)
    for failure in ours.failures:
        raise BrokenContractError(f"the compiler failed: {failure}")
    counts["delegated_nodes"] += ours.delegated_nodes
    judge = _Judge(model, graph, judged, options, joined, counts)
    has_same_homes = judge.has_same_homes(ours, exposed, shown)
    whole = Run(bytes(bytearray(model)), is_delegated=False)  # likewise
    for number, feeds in enumerate(inferences):
        counts["inferences"] += 1
        judge.where = f"inference {number}"
        theirs = whole.attempt(feeds)
        if theirs is None:
            if not (ours.refuses(feeds) and exposed.refuses(feeds)):
                raise BrokenContractError(f"{judge.where}: the runtime alone refuses the shapes")
            counts["inferences_refused_by_the_runtime"] += 1
            continue
        results = ours.run(feeds)
        values = exposed.run(feeds)
        if not all(value.size for value in values.values()):
            counts["inferences_with_empty_tensors"] += 1  # of which kernels read what is not there
            continue
        # An input that a node writes has the node's value.
        known = judge.with_what_vanishes(feeds, {**feeds, **values})
        if any(reads_beyond(graph, node, known) for node in graph.nodes):
            counts["inferences_that_read_what_is_not_there"] += 1
            continue
        same_kernels = ours.is_on_npu and exposed.is_on_npu and has_same_homes
        counts["inferences_with_nodes_left_to_the_cpu"] += not same_kernels and has_same_homes
        counts["inferences_with_nodes_that_outputs_move"] += not has_same_homes
        counts[COMPARED] += same_kernels
        if same_kernels:
            judge.outputs(results, values)
        is_equal = judge.nodes(feeds, known, values.keys())
        if is_equal and same_kernels and judged is None and not is_auto:
            for tensor, result in results.items():
                if largest_difference(result, theirs[tensor]) != 0:
                    raise BrokenContractError(
                        f"{judge.where}: every operator is equal, but output {tensor} is not"
                    )
            counts["inferences_equal_throughout"] += 1
    return dict(counts)


@dataclass
class _Judge:
    """``joined``: how far layers of several nodes may be off, by their last nodes. ``where``: what
    is being compared.
    """

    model: bytes
    graph: Graph
    judged: frozenset[int] | None
    options: Mapping[str, str]
    joined: Mapping[int, int]
    counts: collections.Counter[str]
    where: str = ""
    _apart: tuple[CutModel, Run] | None = field(default=None, init=False)

    @property
    def once(self) -> Sequence[str]:
        """Return the operators that the chip rounds once."""
        return ROUNDED_ONCE.get(self.options.get("chip", ""), ())

    @property
    def is_auto(self) -> bool:
        return self.options.get("numerics") == "auto"

    def has_same_homes(self, ours: Run, exposed: Run, shown: bytes) -> bool:
        """Return whether both compute nodes alike: what compiles may differ between the two, a
        kernel of the CPU from the NPU by a step, and convolutions that are one may be rounded
        otherwise than apart, as a layer whose neighbours are others.
        """
        if self.is_auto:
            nodes = ([one.nodes for one in _layers(m, self.options)] for m in (self.model, shown))
            return ours.rejected == exposed.rejected and next(nodes) == next(nodes)
        moved = ours.rejected ^ exposed.rejected
        if any(tolerance(self.graph, node, self.once) for node in moved):
            return False
        together = ({one.nodes for one in _layers(m, self.options) if len(one.nodes) > 1}
                    for m in (self.model, shown))  # fmt: skip
        return not self.once or next(together) == next(together)

    def outputs(self, results: Mapping[int, Array], values: Mapping[int, Array]) -> None:
        """Compare the outputs with those of the model with inner tensors exposed."""
        for tensor, result in results.items():
            difference = largest_difference(result, values[tensor])
            if difference != 0:
                name = self.graph.tensor(tensor).name
                writers = {node.index for node in self.graph.nodes if tensor in node.outputs}
                is_ours = self.judged is None or writers & self.judged
                raise (BrokenContractError if is_ours else CpuNodeError)(
                    f"{self.where}: output {tensor} {name!r} differs by {difference} when inner "
                    "tensors are outputs"
                )

    def apart(self, feeds: Mapping[int, Array], known: Mapping[int, Array]) -> dict[int, Array]:
        """Return what the reference kernels give for every operator, given what is ``known``."""
        written = as_written(self.model, self.graph, feeds)
        if self._apart is None or written != self.model:
            shapes = {tensor.index: tensor.shape for tensor in self.graph.tensors}
            cut = cut_model(written, shapes | {t: value.shape for t, value in known.items()})
            self._apart = cut, Run(cut.content, is_delegated=False)
        cut, run = self._apart
        unknown = (t for t in map(self.graph.tensor, dict(cut.inputs)) if t.index not in known)
        values = {t.index: np.zeros(t.shape, t.dtype.name.lower()) for t in unknown} | {**known}
        return run.run({clone: values[tensor] for tensor, clone in cut.inputs})

    def with_what_vanishes(self, feeds: Mapping[int, Array], known: dict[int, Array]) -> Any:
        """Return what is ``known`` with the tensors inside of joined layers."""
        written = {t for node in self.graph.nodes for t in node.outputs}
        while not written <= known.keys():
            expected = self.apart(feeds, known)
            ready = [node for node in self.graph.nodes if self._is_known(node, known)]
            found = {t: expected[t] for node in ready for t in node.outputs if t not in known}
            if not found:
                break
            known |= found
        return known

    def _is_known(self, node: Node, known: Mapping[int, Array]) -> bool:
        inputs = (t for t in node.inputs if t >= 0)
        return all(t in known or self.graph.tensor(t).constant is not None for t in inputs)

    def nodes(
        self, feeds: Mapping[int, Array], known: Mapping[int, Array], shown: Iterable[int]
    ) -> bool:
        """Return whether every operator gives exactly what the reference kernels give. ``shown``:
        the tensors that the delegate gave.
        """
        expected, is_equal = self.apart(feeds, known), True
        assert self._apart is not None
        for index, tensor in self._apart[0].outputs:
            node = self.graph.node(index)
            if tensor not in shown or not self._is_known(node, known):
                continue
            if self.judged is not None and index not in self.judged:
                continue
            value, other = known[tensor], expected[tensor]
            most = self.joined.get(index)
            if most is None:
                is_real = self.graph.tensor(tensor).dtype is DType.FLOAT32
                is_rounded = self.is_auto and not is_real and node.op in ROUNDED
                most = max(tolerance(self.graph, index, self.once), int(is_rounded))
            difference = largest_difference(value, other)
            if difference > most:
                raise BrokenContractError(
                    f"{self.where}: node {index} ({node.op}) is off by {difference}, more than "
                    f"{most}: {first_difference(value, other)}"
                )
            what = "elements_joined" if index in self.joined else f"elements_of_{node.op}"
            self.counts[what] += value.size
            if difference:
                is_equal = False
                self.counts[f"{what}_off"] += int(np.count_nonzero(value != other))
        return is_equal


def _layers(model: bytes, options: Mapping[str, str]) -> list[Layer]:
    chosen = Options.from_mapping({"deny_ops": "", **options}, {})
    graph = for_runtime(read_graph(model), find_runtime())
    return [layer for p in compile_model(graph, chosen).partitions for layer in p.layers]


def _joined(layers: Sequence[Layer]) -> dict[int, int]:
    """Return, by the last node of each joined layer, how far it may be off."""
    most: dict[int, int] = {}
    for layer in layers:
        if layer.difference is not None:
            last = layer.nodes[-1]
            most[last] = max(most.get(last, 0), layer.difference.most_lsb)
    return most


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
        if any(reads_beyond(graph, node, {**feeds, **values}) for node in graph.nodes):
            continue
        for tensor, result in ours.run(feeds).items():
            if largest_difference(result, theirs[tensor]) != 0:
                raise BrokenContractError(
                    f"left to the CPU, inference {number}: output {tensor}: "
                    f"{first_difference(result, theirs[tensor])}"
                )
    return {"models_left_to_the_cpu": 1, "nodes_left_to_the_cpu": ours.delegated_nodes}


def reads_beyond(graph: Graph, node: Node, values: Mapping[int, Array]) -> bool:
    """Return whether the runtime's kernel reads memory beside its operands, which the runtime
    checks for the model's own shapes at most: a MIRROR_PAD that takes more rows or columns than its
    image has, and a CONV_2D whose kernels cannot be shared out evenly among the groups of its
    channels.
    """
    if node.op not in ("MIRROR_PAD", "CONV_2D"):
        return False
    shape = values[node.inputs[0]].shape
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
        aligned = int(found.known_options(ResizeBilinearOptions).align_corners)
        before, after = (graph.tensor(t).shape[1:3] for t in (found.inputs[0], found.outputs[0]))
        ratios = ((a - aligned, b - aligned) for a, b in zip(before, after, strict=True) if b > 1)
        # The kernels round the step from a row to the next where it is no multiple of 2^-10.
        return int(any(a > 0 and (a << 10) % b > 0 for a, b in ratios))
    if found.op in OF_TWO_VALUES:
        operands = {t for t in operands if _count(graph.tensor(t).constant) != 1}
        if len(operands) == 1 and all(graph.tensor(t).constant is None for t in operands):
            return 0
    return 1 if found.op in once else TOLERANCE.get(found.op, 0)


def _count(constant: Array | None) -> int:
    return 0 if constant is None else constant.size


def first_difference(ours: Array, theirs: Array) -> str:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype} {ours.shape}, expected {theirs.dtype} {theirs.shape}"
    wrong = np.argwhere(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)) > 1)
    if not len(wrong):
        wrong = np.argwhere(ours != theirs)
    place = tuple(int(v) for v in wrong[0])
    return f"{len(wrong)} of {ours.size}, first {place}: {ours[place]}, expected {theirs[place]}"
