"""Classification of pictures: from the files to ranked classes, through the delegate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from delegate.errors import ModelError
from delegate.host.delegated import DelegatedModel
from delegate.host.delegation import plural
from delegate.model.tensor_details import model_details
from delegate.options import Options
from rk3588_vision.class_ranking import Ranked, class_count, rank, read_labels
from rk3588_vision.images import ImageInput
from rk3588_vision.placement import LABEL_IMAGE, Preparation, load_image


def classify_images(
    images: Sequence[Path],
    model: Path,
    options: Options,
    *,
    labels: Path | None = None,
    top: int = 5,
    preparation: Preparation = LABEL_IMAGE,
    done: Callable[[], None] = lambda: None,
) -> tuple[DelegatedModel, list[tuple[Ranked, ...]]]:
    """The model with the delegate, and the ``top`` classes of each picture. ``done`` is called
    after each. The first one is read before the model is loaded, so that a bad one fails early.

    Raises ModelError if the model is no classifier, UsageError for a bad picture or label file,
    DelegateError if no runtime is installed.
    """
    inputs, outputs = model_details(model)
    if len(inputs) != 1 or len(outputs) != 1:
        raise ModelError(
            f"{model}: {plural(len(inputs), 'input')} and {plural(len(outputs), 'output')}; "
            "classify needs one of each"
        )
    target = ImageInput.from_details(inputs[0])
    classes = class_count(outputs[0])
    names = read_labels(labels, classes) if labels is not None else None
    pixels = load_image(images[0], target, preparation)
    delegated = DelegatedModel.load(model, options)
    results = []
    for number, image in enumerate(images):
        if number:
            pixels = load_image(image, target, preparation)
        scores = delegated.run([pixels])[0]
        results.append(tuple(rank(scores, delegated.outputs[0], names, top)))
        done()
    return delegated, results
