"""A family's case for a name: the model, its inputs' range, and what must become of it."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Graph
from rk3588_conformance.reference import is_undefined, of
from rk3588_conformance.tolerance import NONE


def concerns(graph: Graph, index: int) -> bool:
    """Return whether the suite is about a node: there is a reference of its operator, and its
    kernel defines what it gives.
    """
    node = graph.node(index)
    return of(node.op) is not None and not is_undefined(replace(graph, nodes=(node,)))


Build = Callable[[np.random.Generator], bytes]
Outside = Callable[[Graph, Mapping[int, npt.NDArray[Any]], Sequence[npt.NDArray[Any]]], list[str]]
Reals = Callable[[np.random.Generator, Sequence[int]], npt.NDArray[np.float32]]
Inputs = Callable[[], Sequence[npt.NDArray[np.generic]]]


@dataclass(frozen=True, slots=True)
class Case:
    """One model and its expectations. ``build`` or ``path`` is given; neither: the file is absent.

    ``label`` is the family in summaries. ``differing``: the share of elements that may
    be one step off (see ``tolerance``). ``input_levels``: inputs are uniform over the first so
    many of the type's 256 values; ``inputs`` gives them instead, in order. ``reals`` draws float32
    of a shape. ``rejected_by``: the
    delegate must refuse every node of the suite's operators, by one of these rules. ``runs_on_cpu``
    False: TensorFlow Lite itself refuses the model, so only the refusal is checked.
    ``per_operator``: a whole model, whose nodes are judged one by one with TensorFlow Lite's own
    inputs to them. ``outside``: of a float model, which runs in fp16: what of its outputs is
    outside the bound, given its graph and its inputs by tensor.
    """

    name: str
    label: str
    build: Build | None = None
    path: Path | None = None
    differing: float = NONE
    inputs: Inputs | None = None
    input_levels: int = 256
    reals: Reals | None = None
    rejected_by: tuple[str, ...] = ()
    runs_on_cpu: bool = True
    per_operator: bool = False
    outside: Outside | None = None

    def generator(self) -> np.random.Generator:
        """Random numbers that depend on the name alone."""
        return generator_of(self.name)


class Family(Protocol):
    """A set of cases that share a gtest suite and a test: ``prefix`` is "Suite.Test/". A parameter
    follows it; ``case`` raises KeyError for one that is not in the family.
    """

    @property
    def prefix(self) -> str: ...
    def parameters(self) -> Iterator[str]: ...
    def case(self, parameter: str) -> Case: ...


def generator_of(name: str) -> np.random.Generator:
    """A generator seeded by the digest of ``name``: the same everywhere."""
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))
