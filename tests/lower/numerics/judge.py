"""Compares the delegate's results with those of TensorFlow Lite's reference kernels.

Knows nothing of how stages are chosen or proved: it loads a model twice and compares bytes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from delegate.host.delegation import collect_delegations
from delegate.lower import conv_stages
from delegate.lower.numerics.prover import Proof
from delegate.ops.shared import two_values
from tests.inferences import interpreter_of, invoke, outputs

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A model of one operator and its inputs, in order."""

    model: bytes
    inputs: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """``rule`` None: delegated; ``worst`` and ``different`` over ``elements`` then.
    ``claims_equality``: the compiler says that no input gives another result.
    """

    rule: str | None
    worst: int = 0
    different: int = 0
    elements: int = 0
    claims_equality: bool = False

    @property
    def is_as_claimed(self) -> bool:
        return self.worst <= 1 and not (self.claims_equality and self.different)


def judge(case: Case) -> Verdict:
    with collect_delegations() as found, recorded_proofs() as proofs:
        ours = interpreter_of(case.model, device="simulator", log_level="error")
    if sum(facts.delegated_nodes for facts in found) == 0:
        (rejection,) = (r for facts in found for r in facts.rejections)
        return Verdict(rejection.rule)
    result, expected = invoke(ours, *case.inputs)[0], outputs(case.model, *case.inputs)[0]
    distance = np.abs(result.astype(np.int64) - expected)
    return Verdict(
        rule=None,
        worst=int(distance.max()),
        different=int(np.count_nonzero(distance)),
        elements=distance.size,
        claims_equality=bool(proofs) and not proofs[-1].wrong.any(),
    )


@contextmanager
def recorded_proofs() -> Iterator[list[Proof]]:
    """The proofs of what is compiled meanwhile, for what they claim."""
    found: list[Proof] = []

    def recorded(choose: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **settings: Any) -> Any:
            chosen = choose(*arguments, **settings)
            found.append(chosen.proof)
            return chosen

        return call

    with (
        patch.object(conv_stages, "requantize", recorded(conv_stages.requantize)),
        patch.object(two_values, "requantize_sum", recorded(two_values.requantize_sum)),
    ):
        yield found
