"""Frigate's detector plugin ``rk3588``: SSD and YOLO models on the NPU of an RK3588.

One file, in the manner of Frigate's own plugins; put it into ``frigate/detectors/plugins/``
(docs/frigate.md). In: Frigate's uint8 pictures [1, height, width, 3]. Out: its twenty rows of
(class, score, y1, x1, y2, x2), boxes as shares of the picture, best first.

Frigate's modules are there inside Frigate alone; nothing of this package imports this file.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from frigate.detectors.detection_api import DetectionApi
from frigate.detectors.detector_config import BaseDetectorConfig
from pydantic import ConfigDict, Field

try:
    from delegate.errors import DelegateError
    from delegate.host.delegated import DelegatedModel
    from delegate.options import Options
    from rk3588_vision.detection.boxes import Detections
    from rk3588_vision.detection.candidate import Hints
    from rk3588_vision.detection.detector import DetectorPlan, Thresholds
    from rk3588_vision.images import pixels_to_input
    from rk3588_vision.placement import Fit, Placement
except ImportError as missing:  # Frigate imports every plugin, also where nobody uses this one
    MISSING: str | None = str(missing)
else:
    MISSING = None

if TYPE_CHECKING:
    Pixels = npt.NDArray[np.uint8]

logger = logging.getLogger(__name__)

DETECTOR_KEY = "rk3588"

ROWS = 20
"""Detections that Frigate takes of a picture."""
SCORE = 0.4
"""Least score, as Frigate's own plugins have it."""
LARGEST_OVERLAP = 0.4
"""The overlap of two boxes of a class, as Frigate's own plugins suppress them."""


class Rk3588DetectorConfig(BaseDetectorConfig):  # type: ignore[misc]
    """The settings below the detector in Frigate's configuration."""

    model_config = ConfigDict(title="RK3588")

    type: Literal["rk3588"]
    decoder: str | None = Field(
        default=None,
        title="How the outputs are read",
        description="Of a model that does not tell: a name of rk3588-delegate detect --decoder.",
    )
    options: dict[str, str] = Field(
        default_factory=dict,
        title="Options of the delegate",
        description="Such as cache_dir; rk3588-delegate's docs/options.md lists them.",
    )


class Rk3588(DetectionApi):  # type: ignore[misc]
    """A detector of Frigate. Raises ValueError with the reason where the model cannot be used."""

    type_key = DETECTOR_KEY

    def __init__(self, detector_config: Rk3588DetectorConfig) -> None:
        super().__init__(detector_config)
        if MISSING is not None:
            raise ValueError(
                "detector rk3588 needs the package rk3588-delegate in the Python that runs Frigate "
                f"(pip install the wheel): {MISSING}"
            )
        model = detector_config.model
        path = detector_config.model_path or (model.path if model is not None else None)
        if not path:
            raise ValueError("detector rk3588 needs the path of a .tflite model: model.path")
        try:
            options = Options.from_mapping(detector_config.options)
            self._plan = DetectorPlan.read(Path(path), Hints(decoder=detector_config.decoder))
            self._model = DelegatedModel.load(Path(path), options)
        except DelegateError as error:
            raise ValueError(f"{path}: {error}") from error
        target = self._plan.target
        if (target.h, target.w, target.c) != (self.height, self.width, 3):
            raise ValueError(
                f"{path} takes {target.w} x {target.h} pixels of {target.c} channels; the "
                f"configuration says {self.width} x {self.height} (model.width and model.height), "
                "and Frigate's pictures have 3"
            )
        # Frigate cuts square regions and stretches them to the model's input.
        self._placement = Placement.of(target.h, target.w, target.h, target.w, Fit.STRETCH)
        self._is_bgr = self._plan.preparation.is_bgr
        facts = self._model.delegation
        logger.info(
            "%s: %d of %s nodes on device %s, decoder %s",
            path, facts.delegated_nodes, facts.total_nodes, facts.device, self._plan.head.name,
        )  # fmt: skip

    def detect_raw(self, tensor_input: Pixels) -> npt.NDArray[np.float32]:
        """The rows of one picture. ``input_pixel_format`` and ``input_dtype`` have their defaults,
        RGB and ``int``; models that want BGR or other types get them.
        """
        if tensor_input.dtype != np.uint8:
            raise ValueError(
                f"detector rk3588 takes uint8 pictures, not {tensor_input.dtype}: leave "
                "model.input_dtype out"
            )
        pixels = tensor_input[0]
        if self._is_bgr:
            pixels = pixels[:, :, ::-1]
        preparation = self._plan.preparation
        tensor = pixels_to_input(
            np.ascontiguousarray(pixels),
            self._plan.target,
            mean=preparation.mean,
            std=preparation.std,
        )
        found = self._plan.decode(
            self._model.run([tensor]),
            self._model.outputs,
            self._placement,
            Thresholds(SCORE, LARGEST_OVERLAP, ROWS),
        )
        return self._rows(found)

    def _rows(self, found: Detections) -> npt.NDArray[np.float32]:
        rows = np.zeros((ROWS, 6), dtype=np.float32)
        count = len(found)
        size: Any = np.array([self.height, self.width] * 2, dtype=np.float64)
        rows[:count, 0] = found.classes
        rows[:count, 1] = found.scores
        rows[:count, 2:] = found.boxes[:, [1, 0, 3, 2]] / size
        return rows
