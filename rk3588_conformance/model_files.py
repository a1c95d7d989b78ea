"""One case per public model file: single operators, layers of networks, whole networks.

Files that hold none of the suite's operators are not in the list. Beside them stand the names that
Mesa's test_teflon gives to its layers and models, all of them: those without a file are skipped.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from delegate.model.graph import Activation, Node
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from rk3588_conformance.case import Case, Family, concerns
from rk3588_conformance.reference import carries_errors
from rk3588_conformance.tolerance import LOWER_CLAMP, NONE, PER_CHANNEL, TIES


@dataclass(frozen=True, slots=True)
class Files:
    """The .tflite files of a folder; names are the files' with "_" for what gtest does not take."""

    prefix: str
    folder: Path
    make: Callable[[str, Path], Case]

    def parameters(self) -> Iterator[str]:
        for path in sorted(self.folder.glob("*.tflite")):
            graph = read_graph(path)
            if any(concerns(graph, node.index) for node in graph.nodes):
                yield _parameter(path)

    def case(self, parameter: str) -> Case:
        for path in self.folder.glob("*.tflite"):
            if _parameter(path) == parameter:
                return self.make(self.prefix + parameter, path)
        raise KeyError(parameter)


# Mesa's folders of one-layer models, numbered from 000: their number, and our files' prefix.
TEFLON_LAYERS = {"mobilenetv1": (31, "mobilenet_v1"), "mobiledet": (124, "mobiledet"),
                 "yolox": (128, "yolox")}  # fmt: skip
# Mesa's names of whole models, and our files.
TEFLON_MODELS = {
    "mobilenetv1_mobilenet_v1_1_224_quant": "mobilenet_v1_1.0_224_quant",
    "mobiledet_ssdlite_mobiledet_coco_qat_postprocess": "ssdlite_mobiledet_coco_qat_postprocess",
    "yolox_yolox": "yolox",
}


@dataclass(frozen=True, slots=True)
class TeflonModels:
    """Models.Op of Mesa's test_teflon; ``models`` is the folder of public models, if any."""

    models: Path | None
    prefix: str = "Models.Op/"

    def parameters(self) -> Iterator[str]:
        for network, (layers, _) in TEFLON_LAYERS.items():
            yield from (f"{network}_{index:03}" for index in range(layers))
        yield from TEFLON_MODELS

    def case(self, parameter: str) -> Case:
        whole = TEFLON_MODELS.get(parameter)
        if whole is not None:
            path = self._file(f"{whole}.tflite")
            return Case(self.prefix + parameter, "Models.Op", path=path, per_operator=True)
        network, _, number = parameter.partition("_")
        if network not in TEFLON_LAYERS or f"{network}_{number}" not in self.parameters():
            raise KeyError(parameter)
        path = self._file(f"layers/{TEFLON_LAYERS[network][1]}-{number}.tflite")
        share = NONE if path is None else _differing(path)
        return Case(self.prefix + parameter, "Models.Op", path=path, differing=share)

    def _file(self, name: str) -> Path | None:
        path = None if self.models is None else self.models / name
        return path if path is not None and path.is_file() else None


def _parameter(path: Path) -> str:
    return re.sub(r"\W", "_", path.stem)


def _differing(path: Path) -> float:
    """Sums of converted models have scales that make ties."""
    nodes = read_graph(path).nodes
    if any(map(carries_errors, nodes)):
        return TIES
    return LOWER_CLAMP if any(map(_turns_ties, nodes)) else PER_CHANNEL


def _turns_ties(node: Node) -> bool:
    operator = OPERATORS.get(node.op)
    kind = None if operator is None else operator.options
    options = None if kind is None else node.options_as(kind)
    return getattr(options, "activation", None) is Activation.RELU_N1_TO_1


def families(models: Path | None) -> tuple[Family, ...]:
    """Mesa's names, and the families of the folder of public models, none without it."""
    if models is None:
        return (TeflonModels(None),)
    return (
        TeflonModels(models),
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
            "Models.PerOperator/", models, lambda n, p: Case(n, "Models", path=p, per_operator=True)
        ),
    )
