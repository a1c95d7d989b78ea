"""One picture through a model, by the delegate and by the CPU: a record that JSON can hold."""

import hashlib
import io
import json
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.host.delegated import DelegatedModel, ReferenceModel
from delegate.options import Options
from delegate.version import __version__
from rk3588_vision.class_ranking import probabilities
from rk3588_vision.detection.boxes import Detections
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.detection.detector import DetectorPlan, Model, Thresholds, detect
from rk3588_vision.images import ImageInput, decode_image
from rk3588_vision.placement import LABEL_IMAGE, place

BEST = 5

THRESHOLDS = Thresholds(score=0.01, iou=0.6, limit=100)
"""The thresholds of average precision: nearly everything, at most 100 per picture."""

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Spec:
    """Everything that decides what a picture's record holds; picklable. ``model_sha256`` names the
    model's content.
    """

    task: str
    model_sha256: str
    options: tuple[tuple[str, str], ...]
    with_cpu: bool
    reference_kernels: bool
    hints: Hints = field(default_factory=Hints)

    def fingerprint(self) -> str:
        """A name for what it says, and for the version that acts on it."""
        text = json.dumps([__version__, asdict(self)], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


class Evaluator:
    """A loaded model. Thread-safe: one picture at a time. ``model_type`` is how the delegate's side
    runs.
    """

    def __init__(
        self, path: Path, spec: Spec, model_type: type[DelegatedModel] = DelegatedModel
    ) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        self._plan = DetectorPlan.read(path, spec.hints) if spec.task == "detect" else None
        # The same kernels on both sides: only the NPU makes a difference.
        self._ours = model_type.load(
            path,
            Options.from_mapping(dict(spec.options), {}),
            reference_kernels=spec.with_cpu and spec.reference_kernels,
        )
        self._sides: dict[str, Model] = {"ours": self._ours}
        if spec.with_cpu:
            kernels = spec.reference_kernels
            self._sides["theirs"] = ReferenceModel.load(path, reference_kernels=kernels)

    @property
    def model(self) -> DelegatedModel:
        """The model with the delegate."""
        return self._ours

    def evaluate(self, name: str, content: bytes) -> Record:
        """The record of one picture, given as its file's content."""
        image = decode_image(io.BytesIO(content), name)
        with self._lock:
            record: Record = {"image": name}
            if self._plan is None:
                target = ImageInput.from_details(self._ours.inputs[0])
                stretched = replace(self._spec.hints, fit=None, is_bgr=None)
                tensor, _ = place(image, target, stretched.prepared(LABEL_IMAGE))
                for side, model in self._sides.items():
                    record[side] = _best(model.run([tensor])[0], model.outputs[0])
                return record
            record |= {"width": image.width, "height": image.height}
            for side, model in self._sides.items():
                record[side] = _rows(detect(self._plan, model, image, THRESHOLDS))
            return record


def _best(output: npt.NDArray[Any], details: dict[str, Any]) -> list[int]:
    scores = probabilities(output, details)
    return [int(i) for i in np.argsort(-scores, kind="stable")[:BEST]]


def _rows(found: Detections) -> list[list[float]]:
    return [
        [int(index), float(score), *(float(v) for v in box)]
        for box, index, score in zip(found.boxes, found.classes, found.scores, strict=True)
    ]


_evaluators: dict[str, Evaluator] = {}
_evaluators_lock = threading.Lock()


def evaluate_in_worker(
    model: bytes, spec: Spec, items: Sequence[tuple[str, bytes]]
) -> list[Record]:
    """Evaluate in a worker process, wherever it runs; keeps the loaded model for the next call.

    Needs no file of the caller's machine: the model and the pictures come as content.
    """
    key = spec.fingerprint()
    with _evaluators_lock:
        if key not in _evaluators:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.tflite"
                path.write_bytes(model)
                # Runtimes map the file; the mapping outlives its name.
                _evaluators.clear()
                _evaluators[key] = Evaluator(path, spec)
    return [_evaluators[key].evaluate(name, content) for name, content in items]
