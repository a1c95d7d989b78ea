"""What the delegate gives for a model, against TensorFlow Lite's reference kernels.

Knows nothing of how stages are chosen or proved: it loads a model twice and compares bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import delegate
from delegate.host.delegation import collect_delegations
from delegate.host.runtimes import find_runtime

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A model of one operator and its inputs, in order."""

    model: bytes
    inputs: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """``rule`` None: delegated; ``worst`` and ``different`` over ``elements`` then."""

    rule: str | None
    worst: int = 0
    different: int = 0
    elements: int = 0


def judge(case: Case) -> Verdict:
    runtime = find_runtime()
    plugin = runtime.load_delegate(
        delegate.library_path(), {"device": "simulator", "log_level": "error"}
    )
    with collect_delegations() as found:
        ours = runtime.interpreter(case.model, [plugin])
    if sum(facts.delegated_nodes for facts in found) == 0:
        (rejection,) = (r for facts in found for r in facts.rejections)
        return Verdict(rejection.rule)
    module = runtime.module
    theirs = module.Interpreter(
        model_content=case.model, experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF
    )
    theirs.allocate_tensors()
    results = []
    for interpreter in (ours, theirs):
        for details, values in zip(interpreter.get_input_details(), case.inputs, strict=True):
            interpreter.set_tensor(details["index"], values)
        interpreter.invoke()
        output = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        results.append(output.astype(np.int64))
    distance = np.abs(results[0] - results[1])
    return Verdict(None, int(distance.max()), int(np.count_nonzero(distance)), distance.size)
