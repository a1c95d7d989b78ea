"""A detector: picture in, boxes on the picture out, by the delegate or by the CPU alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

from delegate.errors import ModelError
from delegate.model.tflite_reader import read_graph, tensor_details
from rk3588_vision.detection.boxes import Detections, onto_image, suppress
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.detection.head import Head, OutputTensor, real_outputs
from rk3588_vision.detection.recognise import UnknownHeadError, recognise
from rk3588_vision.images import ImageInput
from rk3588_vision.kind import advice, kind_of
from rk3588_vision.placement import Placement, Preparation, place
from rk3588_vision.zoo import known_decoder

if TYPE_CHECKING:
    from PIL.Image import Image

DEFAULT_THRESHOLD = 0.25
DEFAULT_IOU = 0.45
DEFAULT_LIMIT = 300


class Model(Protocol):
    """A model loaded into a runtime: ``DelegatedModel`` or ``ReferenceModel``."""

    @property
    def outputs(self) -> list[dict[str, Any]]: ...
    def run(self, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]: ...


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Least score, largest overlap of two boxes of a class, most boxes."""

    score: float = DEFAULT_THRESHOLD
    iou: float = DEFAULT_IOU
    limit: int = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class DetectorPlan:
    """The facts of a detector's file; made without a runtime, so that bad ones fail early."""

    target: ImageInput
    head: Head
    preparation: Preparation

    @classmethod
    def read(cls, path: Path, hints: Hints) -> DetectorPlan:
        """Return the detector of a .tflite file. Raises ModelError, UsageError."""
        graph = read_graph(path)
        if len(graph.inputs) != 1:
            raise ModelError(f"{path}: the model has {len(graph.inputs)} inputs; detect needs one")
        details = [tensor_details(graph, tensor) for tensor in graph.outputs]
        source = tensor_details(graph, graph.inputs[0])
        other = advice(kind_of([source], details), path, details)
        try:
            target = ImageInput.from_details(source)
        except ModelError as error:
            raise ModelError(f"{error}; {other}" if other else str(error)) from None
        outputs = [OutputTensor.from_details(entry) for entry in details]
        if hints.decoder is None:
            hints = replace(hints, decoder=known_decoder(path))
        try:
            head = recognise(graph, outputs, target.h, target.w, hints)
        except UnknownHeadError:
            if not other:
                raise
            shapes = ", ".join(str(list(output.shape)) for output in outputs)
            raise UnknownHeadError(
                f"{path}: outputs {shapes} are of no detector known here; {other}"
            ) from None
        return cls(target, head, hints.prepared(head.preparation))

    def place(self, image: Image) -> tuple[npt.NDArray[Any], Placement]:
        """The model's input tensor for a picture, and where the picture lies in it."""
        return place(image, self.target, self.preparation)

    def decode(
        self,
        arrays: Sequence[npt.NDArray[Any]],
        details: Sequence[dict[str, Any]],
        placement: Placement,
        thresholds: Thresholds,
    ) -> Detections:
        """The outputs of one inference as boxes in pixels of the picture, best first."""
        outputs = real_outputs(arrays, details)
        found = onto_image(self.head.decode(outputs, thresholds.score), placement)
        largest_iou = thresholds.iou if self.head.needs_suppression else 1.0
        found = suppress(found, largest_iou, thresholds.limit)
        return self.head.with_masks(found, outputs, placement)


def detect(plan: DetectorPlan, model: Model, image: Image, thresholds: Thresholds) -> Detections:
    """Runs one picture. Boxes are in pixels of the picture."""
    tensor, placement = plan.place(image)
    return plan.decode(model.run([tensor]), model.outputs, placement, thresholds)
