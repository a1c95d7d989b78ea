"""Runs one case: the model through the runtime with the delegate, and the same by an oracle.

A case passes if every node was delegated (of a public model: every node that the suite is about),
if each partition took one submit, and if no element is off by more than one step. A rejected node
makes it a skip with the rule; ``skips`` decides whether that is accepted.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from delegate.errors import DelegateError, ModelError, Rejection, UsageError
from delegate.host.chosen import chosen_chip
from delegate.host.delegation import Delegation, collect_delegations
from delegate.host.kernels import for_runtime
from delegate.host.library import library_path
from delegate.host.runtimes import Interpreter, find_runtime, invoke
from delegate.host.tally import Tally
from delegate.model.files import MAX_MODEL_BYTES, read_file
from delegate.model.graph import Graph, constant_makers
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.options import Options
from rk3588_conformance import reference, skips
from rk3588_conformance.case import Case, concerns
from rk3588_conformance.comparison import MAX_ABS_DIFF, Comparer
from rk3588_conformance.families import find_case
from rk3588_conformance.outcome import Oracle, Outcome, Status
from rk3588_conformance.tolerance import is_inexact, most_differing, share_of

if TYPE_CHECKING:
    from delegate.compile.compiler import CompileResult

# Reference kernels manage some 3e9 multiplications per second, NumPy five times that: from here on
# the expected values come from NumPy.
TFLITE_MACS = 500_000_000

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A case's model, its graph and its inputs by tensor index."""

    case: Case
    model: bytes
    graph: Graph
    inputs: dict[int, Array]


def prepare(name: str, models: Path | None) -> Prepared:
    """Builds or reads the model of a case, and draws its inputs. Raises UsageError, ModelError."""
    case = find_case(name, models)
    rng = case.generator()
    if case.build is not None:
        model = case.build(rng)
    else:
        if case.path is None:
            raise UsageError(f"{name}: no file of that name among the public models (--models)")
        model = read_file(case.path, "file", MAX_MODEL_BYTES, error=ModelError)
    graph = for_runtime(read_graph(model), find_runtime())
    inputs: dict[int, Array] = {}
    if case.inputs is not None:
        return Prepared(case, model, graph, dict(zip(graph.inputs, case.inputs(), strict=True)))
    for index in graph.inputs:
        tensor = graph.tensor(index)
        kind: np.dtype[Any] = NUMPY_TYPES[tensor.dtype]
        if case.reals is not None:
            inputs[index] = case.reals(rng, tensor.shape)
        elif kind.kind == "f":
            inputs[index] = rng.uniform(-1, 1, tensor.shape).astype(kind)
        else:
            limits = np.iinfo(kind)
            top = limits.min + case.input_levels - 1 if kind.itemsize == 1 else limits.max
            inputs[index] = rng.integers(limits.min, top, tensor.shape, kind, endpoint=True)
    return Prepared(case, model, graph, inputs)


def run_case(name: str, models: Path | None, options: Options) -> Outcome:
    """The outcome of one case; whatever goes wrong becomes a failure of the case."""
    start = time.perf_counter()
    try:
        case = find_case(name, models)
        if case.build is None and case.path is None:
            text = "no file of that name among the public models (--models)"
            return _skipped(case, text, skips.FILE_ABSENT)
        if case.outside is not None:
            options = replace(options, float="fp16", origins={**options.origins, "float": "option"})
        outcome = _Judge(prepare(name, models), options).outcome()
    except Exception as error:
        is_told = isinstance(error, DelegateError)
        text = str(error) if is_told else traceback.format_exc().rstrip()
        outcome = Outcome(name, name.split(".")[0], Status.FAILED, text)
    return replace(outcome, milliseconds=round((time.perf_counter() - start) * 1000))


def _skipped(case: Case, text: str, rule: str) -> Outcome:
    return Outcome(case.name, case.label, Status.SKIPPED, text, (rule,))


def _facts(case: Case, delegation: Delegation | CompileResult) -> Outcome:
    """A success so far."""
    delegated, total = delegation.delegated_nodes, delegation.total_nodes
    facts = Outcome(case.name, case.label, Status.OK)
    return replace(facts, delegated_nodes=delegated, total_nodes=total)


def _verdict(facts: Outcome, broken: list[str], rejected: list[Rejection]) -> Outcome:
    """A failure for what is broken, else a skip for what was rejected, else a success."""
    if broken:
        return replace(facts, status=Status.FAILED, message="\n".join(broken))
    if rejected:
        return replace(facts, status=Status.SKIPPED, message=_sentences(rejected))
    return facts


@dataclass(frozen=True, slots=True, eq=False)
class _Judge:
    """Runs and judges one case with ``options``."""

    prepared: Prepared
    options: Options

    @property
    def case(self) -> Case:
        return self.prepared.case

    @property
    def known(self) -> Mapping[str, str]:
        return skips.known_skips(chosen_chip(self.options).name, self.options.numerics)

    @property
    def share(self) -> float:
        """The share that may differ of operators whose results are rounded once."""
        return share_of(chosen_chip(self.options).name, self.options.numerics)

    def outcome(self) -> Outcome:
        case, graph = self.case, self.prepared.graph
        if case.path is not None and not any(concerns(graph, node.index) for node in graph.nodes):
            return _skipped(case, "none of the suite's operators", skips.OTHER_OPERATORS)
        if not case.runs_on_cpu:
            return self._refusal()
        if case.per_operator:
            return self._by_operators()
        try:
            interpreter, delegation = _load(self.prepared.model, self.options, graph)
        except ModelError as error:
            if not self.known:
                raise
            return _skipped(case, str(error), skips.RUNTIME_REFUSES)
        rejected = self._rejections(delegation)
        facts = _facts(case, delegation)
        if case.rejected_by or (rejected and not delegation.delegated_nodes):
            return self._of_rejections(facts, rejected)
        if not delegation.delegated_nodes:
            return _verdict(facts, ["nothing was delegated, and no reason"], [])
        ours, submits = _invoke(interpreter, self.prepared.inputs)
        if case.outside is not None:  # by the bound of a float model
            broken = case.outside(graph, self.prepared.inputs, ours)
            broken += [*map(_sentence, delegation.rejections), *self._in_more_parts(delegation)]
            return _verdict(replace(facts, oracle=Oracle.NUMPY), broken, [])
        facts = replace(facts, submits=submits, rules=_rules(rejected))
        return self._integers(facts, delegation, ours, rejected)

    def _integers(
        self, facts: Outcome, delegation: Delegation, ours: list[Array], rejected: list[Rejection]
    ) -> Outcome:
        """Judge by steps: the largest distance to the oracle, how many differ, and what was
        delegated.
        """
        try:
            oracle, theirs = expected(self.prepared)
        except ModelError as error:
            return _skipped(self.case, str(error), skips.RUNTIME_REFUSES)
        tally, model = Tally(), self.prepared.model
        for mine, other in zip(ours, theirs, strict=True):
            tally.add(mine, other)
        facts = _compared(facts, oracle, tally)
        broken = self._blame(ours, theirs, facts.max_abs_diff)
        share = self.case.differing
        if any(is_inexact(self.prepared.graph, node) for node in self.prepared.graph.nodes):
            share = max(share, self.share)
        differing, most = tally.elements - tally.equal, most_differing(share, tally.elements)
        if differing > most:  # results of a task of several operators differ as it says, too
            told = _share_told(model, self.options)
            # Of equal operands all results differ alike: as many count as there are distinct ones.
            distinct = max(np.unique(other).size for other in theirs) if told else tally.elements
            most = most_differing(share + told, distinct) * tally.elements // distinct
        if differing > most:
            broken.append(f"{differing} of {tally.elements} elements differ; at most {most} may")
        broken += _submits_broken(facts, delegation)
        if self.case.build is not None:
            is_whole = delegation.delegated_nodes == delegation.total_nodes
            if not is_whole and not self.known:
                broken += map(_sentence, delegation.rejections)
            if is_whole or not rejected:
                broken += self._in_more_parts(delegation)
        return _verdict(facts, broken, rejected)

    def _in_more_parts(self, delegation: Delegation) -> list[str]:
        count, most = delegation.partitions, 1
        if self.options.numerics != "exact":  # else tasks may compute weights
            most = _most_parts(self.prepared.graph)
        return [] if 1 <= count <= most else [f"{count} partitions instead of {most}"]

    def _blame(self, ours: list[Array], theirs: list[Array], worst: int) -> list[str]:
        """Say what is wrong with outputs that are off by ``worst``: nothing, if each operator of
        several is within its tolerance, given its inputs: errors of a step meet in a sum, or a
        steep function multiplies one.
        """
        if worst <= MAX_ABS_DIFF:
            return []
        told = f"off by {worst}: {first_difference(ours, theirs)}"
        if len(self.prepared.graph.nodes) == 1:
            return [told]
        from rk3588_conformance.generated import judge

        chosen = {"chip": chosen_chip(self.options).name, "numerics": self.options.numerics}
        options = {**self.options.given(), **chosen}
        try:
            counts = judge.judge_model(self.prepared.model, [self.prepared.inputs], options=options)
        except judge.BrokenContractError as error:
            return [told, str(error)]
        if counts.get(judge.COMPARED):
            return []
        return [told, "other layers are computed when inner tensors are outputs"]

    def _by_operators(self) -> Outcome:
        """A whole model: every delegated node alone, and one submit per partition."""
        assert self.case.path is not None, "whole models are files"
        try:
            find_runtime().interpreter(self.case.path, reference_kernels=True)
        except ModelError as error:
            return _skipped(self.case, str(error), skips.RUNTIME_REFUSES)
        comparer = Comparer(self.case.path, self.options, per_op=True)
        sample = [self.prepared.inputs[details["index"]] for details in comparer.inputs]
        result = comparer.compare_one(sample)
        delegation = comparer.model.delegation
        rejected = self._rejections(delegation)
        facts = _compared(_facts(self.case, delegation), Oracle.TFLITE, result.ops_total())
        submits = comparer.model.submits_per_invoke or 0
        facts = replace(facts, submits=submits, rules=_rules(rejected))
        broken = result.violations(self.share) + _submits_broken(facts, delegation)
        return _verdict(facts, broken, rejected)

    def _refusal(self) -> Outcome:
        """Check the compiler's own answer for a model that TensorFlow Lite does not run."""
        from delegate.compile.compiler import compile_model

        result = compile_model(self.prepared.graph, self.options)
        return self._of_rejections(_facts(self.case, result), list(result.rejections))

    def _rejections(self, delegation: Delegation) -> list[Rejection]:
        """Return the rejections of the operators that the suite is about; where a chip knows less,
        of all that the suite made, and of models of which nothing is left.
        """
        is_all = self.case.build is not None or not delegation.delegated_nodes
        if self.known and is_all:
            return list(delegation.rejections)
        # A model is judged by what of it runs.
        accepted: Mapping[str, str] = {} if is_all else skips.OF_EXACT
        return [
            rejection
            for rejection in delegation.rejections
            if rejection.rule not in accepted and concerns(self.prepared.graph, rejection.node)
        ]

    def _of_rejections(self, facts: Outcome, rejections: list[Rejection]) -> Outcome:
        """A skip with the rule; of a case that must be rejected: a success by one of its rules, or
        a skip where the chip rejects more.
        """
        facts, known = replace(facts, rules=_rules(rejections)), self.known
        is_of_chip = bool(rejections) and all(r.rule in known for r in rejections)
        if not self.case.rejected_by or is_of_chip:
            return replace(facts, status=Status.SKIPPED, message=_sentences(rejections))
        wanted = " or ".join(self.case.rejected_by)
        if not rejections:
            return _verdict(facts, [f"delegated, but must be rejected by {wanted}"], [])
        wrong = [r for r in rejections if r.rule not in (*self.case.rejected_by, *known)]
        return _verdict(
            facts, [f"{_sentence(r)} (must be rejected by {wanted})" for r in wrong[:1]], []
        )


def _compared(facts: Outcome, oracle: Oracle, tally: Tally) -> Outcome:
    worst, equal = int(tally.max_abs_diff), tally.equal
    return replace(facts, oracle=oracle, max_abs_diff=worst, equal=equal, elements=tally.elements)


def _submits_broken(facts: Outcome, delegation: Delegation) -> list[str]:
    submits, count = facts.submits, delegation.partitions
    return [] if submits == count else [f"{submits} submits for {count} partitions in one invoke"]


_PRODUCTS = ("BATCH_MATMUL", "FULLY_CONNECTED")


def _most_parts(graph: Graph) -> int:
    """Return in how many parts the nodes may run: one more behind each product of a chain whose
    second operand other nodes compute.
    """
    behind: dict[int, int] = {}  # by tensor
    for node in graph.nodes:
        parts = max((behind.get(tensor, 0) for tensor in node.inputs), default=0)
        if node.op in _PRODUCTS and node.inputs[1] in behind:
            parts = max(parts, behind[node.inputs[1]] + 1)
        behind.update(dict.fromkeys(node.outputs, parts))
    return 1 + max(behind.values(), default=0)


def _share_told(model: bytes, options: Options) -> float:
    """Return the largest share that a task of several operators says to differ."""
    from delegate.compile.compiler import compile_model

    layers = (layer for part in compile_model(model, options).partitions for layer in part.layers)
    return max((one.difference.share for one in layers if one.difference), default=0.0)


def _rules(rejections: list[Rejection]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rejection.rule for rejection in rejections))


def _sentences(rejections: list[Rejection]) -> str:
    return "\n".join(map(_sentence, rejections))


def _sentence(rejection: Rejection) -> str:
    return f"node {rejection.node} ({rejection.op}): {rejection.rule}: {rejection.detail}"


def _load(model: bytes, options: Options, graph: Graph) -> tuple[Interpreter, Delegation]:
    """Load ``model``, and return what was delegated of ``graph``, that of ``model``. Nodes that
    only make constants, which programs have, do not count where the CPU keeps them.
    """
    runtime = find_runtime()
    plugin = runtime.load_delegate(library_path(), {"cache_dir": "off", **options.given()})
    with collect_delegations() as found:
        interpreter = runtime.interpreter(model, [plugin], threads=1)
    if len(found) != 1:
        raise DelegateError(f"the delegate announced itself {len(found)} times instead of once")
    (all_nodes,) = found
    folding = {name for name, operator in OPERATORS.items() if operator.folds}
    made = {node.index for node in constant_makers(graph) if node.op in folding}
    rejections = tuple(r for r in all_nodes.rejections if r.node not in made)
    total = all_nodes.total_nodes - (len(all_nodes.rejections) - len(rejections))
    return interpreter, replace(all_nodes, total_nodes=total, rejections=rejections)


def load_and_invoke(prepared: Prepared, options: Options) -> tuple[list[Array], int]:
    """Outputs of the model with the delegate, and how many submits it took."""
    return _invoke(_load(prepared.model, options, prepared.graph)[0], prepared.inputs)


def _invoke(interpreter: Interpreter, inputs: dict[int, Array]) -> tuple[list[Array], int]:
    from delegate._native import submit_count

    for index, array in inputs.items():
        interpreter.set_tensor(index, array)
    before = submit_count()
    invoke(interpreter)
    submits = submit_count() - before
    details = interpreter.get_output_details()
    return [interpreter.get_tensor(output["index"]) for output in details], submits


def expected(prepared: Prepared) -> tuple[Oracle, list[Array]]:
    """TensorFlow Lite's answer: its reference kernels', or NumPy's where those would take long or
    do not define it.
    """
    graph = prepared.graph
    takes_long = reference.macs(graph) > TFLITE_MACS
    if (takes_long or reference.is_undefined(graph)) and reference.supports(graph):
        return Oracle.NUMPY, reference.compute(graph, prepared.inputs)
    return Oracle.TFLITE, tflite_outputs(prepared)


def tflite_outputs(prepared: Prepared) -> list[Array]:
    """The reference kernels' outputs."""
    interpreter = find_runtime().interpreter(prepared.model, reference_kernels=True, threads=1)
    return _invoke(interpreter, prepared.inputs)[0]


def first_difference(ours: list[Array], theirs: list[Array]) -> str:
    """Return which element is off the most, the first of them."""
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        difference = np.abs(mine.astype(np.int64) - other.astype(np.int64))
        if difference.max(initial=0) > MAX_ABS_DIFF:
            place = np.unravel_index(int(difference.argmax()), difference.shape)
            position = [int(i) for i in place]
            count = int(np.count_nonzero(difference > MAX_ABS_DIFF))
            return (
                f"output {number}, element {position}: {mine[place]} instead of {other[place]}; "
                f"{count} of {difference.size} elements are off by more than {MAX_ABS_DIFF}"
            )
    return "none"
