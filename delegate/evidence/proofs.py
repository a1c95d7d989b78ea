"""The proofs of a chip's features, the safest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from delegate.chip.chip import Chip
from delegate.evidence.bench import Describe, Proof, proof
from delegate.evidence.convolution import CONVOLUTION
from delegate.evidence.element_wise import ELEMENT_WISE
from delegate.evidence.half import HALF
from delegate.evidence.output import OUTPUT
from delegate.evidence.rk3576 import RK3576
from delegate.evidence.scaling import SCALING
from delegate.npu.features_used import features_of

DESCRIBED: Final[Mapping[str, Mapping[str, Describe]]] = {
    "rk3588": {**CONVOLUTION, **SCALING, **ELEMENT_WISE, **OUTPUT, **HALF},
    "rk3576": RK3576,
}
"""By chip, how the tasks of each feature's proof are made."""

_ONCE: Final = ("several_cores",)
"""Whose tasks name their cores: other tasks behind them would wait for all."""


def proof_of(chip: Chip, feature: str) -> Proof:
    """The proof of one feature."""
    return proof(chip, feature, DESCRIBED[chip.name][feature], after_others=feature not in _ONCE)


def proofs_of(chip: Chip) -> tuple[tuple[Proof, frozenset[str]], ...]:
    """All proofs, each with the features that it rests on, which come before it. Among those that
    may come next, the one of the best evidence does; of features that only work together, one rests
    on the others that came first.
    """
    proofs = {feature.name: proof_of(chip, feature.name) for feature in chip.features}
    used = {
        name: {use.feature.name for use in features_of(chip, [item.program])} - {name}
        for name, item in proofs.items()
    }
    below = {name: _closure(used, name) for name in proofs}
    needed = {name: {n for n in used[name] if name not in below[n]} for name in used}
    ordered: list[str] = []
    waiting = sorted(chip.features, key=lambda feature: -feature.rank)
    while waiting:
        ready = next(f for f in waiting if needed[f.name] <= set(ordered))
        waiting.remove(ready)
        ordered.append(ready.name)
    return tuple(
        (proofs[name], frozenset(used[name].intersection(ordered[:number])))
        for number, name in enumerate(ordered)
    )


def _closure(used: Mapping[str, set[str]], name: str) -> set[str]:
    """All that ``name`` rests on, directly or not."""
    found: set[str] = set()
    pending = [name]
    while pending:
        for other in used[pending.pop()] - found:
            found.add(other)
            pending.append(other)
    return found
