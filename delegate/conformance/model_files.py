"""One case per public model file: single operators, layers of networks, whole networks.

Files that hold none of the suite's operators are not in the list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from delegate.comparison import MIN_EQUAL_PER_OP
from delegate.conformance.case import OPERATORS, Case, Family
from delegate.conformance.tolerance import TIES
from delegate.tflite_reader import read_graph


@dataclass(frozen=True, slots=True)
class Files:
    """The .tflite files of a folder; names are the files' with "_" for what gtest does not take."""

    prefix: str
    folder: Path
    make: Callable[[str, Path], Case]

    def parameters(self) -> Iterator[str]:
        for path in sorted(self.folder.glob("*.tflite")):
            if any(node.op in OPERATORS for node in read_graph(path).nodes):
                yield _parameter(path)

    def case(self, parameter: str) -> Case:
        for path in self.folder.glob("*.tflite"):
            if _parameter(path) == parameter:
                return self.make(self.prefix + parameter, path)
        raise KeyError(parameter)


def _parameter(path: Path) -> str:
    return re.sub(r"\W", "_", path.stem)


def _differing(path: Path) -> float:
    """The contract's share; sums of converted models have scales that make ties."""
    is_sum = any(node.op == "ADD" for node in read_graph(path).nodes)
    return TIES if is_sum else 1 - MIN_EQUAL_PER_OP[0] / MIN_EQUAL_PER_OP[1]


def families(models: Path | None) -> tuple[Family, ...]:
    """The families of the folder of public models; none without it."""
    if models is None:
        return ()
    return (
        Files(
            "SingleOp.File/",
            models / "single_op",
            lambda n, p: Case(n, "SingleOp", path=p, differing=_differing(p)),
        ),
        Files(
            "Layers.File/",
            models / "layers",
            lambda n, p: Case(n, "Layers", path=p, differing=_differing(p)),
        ),
        Files(
            "Models.PerOperator/",
            models,
            lambda n, p: Case(n, "Models", path=p, per_operator=True),
        ),
    )
