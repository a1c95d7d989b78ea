"""Classification of pictures: from pictures to ranked classes, through the delegate."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from delegate.errors import ModelError, UsageError
from delegate.host.delegation import plural
from delegate.options import Options
from rk3588_vision.class_ranking import Ranked, class_count, embedded_labels, rank, read_labels
from rk3588_vision.images import ImageInput, Picture, as_image
from rk3588_vision.kind import Kind, advice, kind_of
from rk3588_vision.placement import LABEL_IMAGE, Placement, Preparation, place
from rk3588_vision.session import CORES, Arrays, Session

Labels = str | Path | Sequence[str]
"""A file with one line per class, or the names themselves."""


class Classifier(Session[tuple[Ranked, ...]]):
    """An image classifier that stays loaded. A result is the ``top`` classes, best first.

    ``labels``: a file with one line per class, or the names; without them those in the model's
    file, if it has any. ``preparation``: how float inputs are normalised. ``options``: the
    delegate's. Raises ModelError if the model is no classifier, UsageError for bad labels or
    options.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        labels: Labels | None = None,
        top: int = 5,
        preparation: Preparation | None = None,
        workers: int = CORES,
        queue: int | None = None,
        **options: Any,
    ) -> None:
        if top < 1:
            raise UsageError(f"top is {top}; it must be at least 1")
        super().__init__(Path(model), Options.from_mapping(options), workers=workers, queue=queue)
        inputs, outputs = self.input_details, self.output_details
        kind = kind_of(inputs, outputs)
        if kind is Kind.SOUND:
            raise ModelError(f"{model}: {advice(kind, model, outputs)}")
        try:
            if len(inputs) != 1 or len(outputs) != 1:
                raise ModelError(
                    f"{model}: {plural(len(inputs), 'input')} and "
                    f"{plural(len(outputs), 'output')}; classify needs one of each"
                )
            self._target = ImageInput.from_details(inputs[0])
            classes = class_count(outputs[0])
        except ModelError as error:
            other = _as_detector(self.path) or advice(kind, model, outputs)
            raise ModelError(f"{error}; {other}" if other else str(error)) from None
        self._names = _names(self.path, labels, classes)
        self._top = top
        self._preparation = preparation or LABEL_IMAGE

    def prepare(self, picture: Picture) -> tuple[npt.NDArray[Any], Placement]:
        """Return the model's input tensor for ``picture``, stretched, and its placement."""
        return place(as_image(picture), self._target, self._preparation)

    def decode(self, outputs: Arrays, placement: Placement | None = None) -> tuple[Ranked, ...]:
        """Return the best classes of the model's output, whoever computed it."""
        (scores,) = outputs
        return tuple(rank(scores, self.output_details[0], self._names, self._top))


def _as_detector(path: Path) -> str:
    """Return what to do with a model that is a detector; "" for others."""
    from rk3588_vision.detection.candidate import Hints  # which import this module
    from rk3588_vision.detection.detector import DetectorPlan

    try:
        name = DetectorPlan.read(path, Hints()).head.name
    except ModelError:
        return ""
    return f"this is a detector ({name}): rk3588-delegate detect PICTURE --model {path}"


def _names(path: Path, labels: Labels | None, classes: int) -> Sequence[str] | None:
    """Return one name per class. Raises UsageError for another number of them."""
    if labels is None:
        return embedded_labels(path, classes)
    if isinstance(labels, str | Path):
        return read_labels(Path(labels), classes)
    if len(labels) != classes:
        raise UsageError(f"{len(labels)} labels for {classes} classes")
    return list(labels)
