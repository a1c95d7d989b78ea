"""Turn a classifier's output tensor into labels and scores; names of classes, from a file of labels
or from the .tflite file, to which exporters append them as a ZIP archive.

TensorFlow's metadata library appends label files, Ultralytics its settings with ``names``. A file
that is damaged or not understood has no names; it is no error.
"""

import ast
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.errors import ModelError, UsageError
from delegate.host.runtimes import dequantize
from delegate.model.files import read_text

_MAX_LABEL_BYTES = 16 << 20  # far above any list of names
BACKGROUND = "background"

# TensorFlow Lite fixes the output quantisation of SOFTMAX and LOGISTIC to scale 1/256 and the
# type's lowest value as zero point, so that is how a quantised output tells that it holds
# probabilities.
_PROBABILITY_SCALE = 1.0 / 256.0
_FLOAT_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Ranked:
    """One class of the result; ``score`` is a probability, ``label`` None without a label file."""

    index: int
    label: str | None
    score: float


def class_count(details: Mapping[str, Any]) -> int:
    """Classes of an output described by ``get_output_details()``: [1, N] or [1, 1, 1, N].

    Raises ModelError for any other shape.
    """
    shape = tuple(int(d) for d in details["shape"])
    if not shape or any(d != 1 for d in shape[:-1]) or shape[-1] < 2:
        raise ModelError(
            f"output {details['name']!r} of shape {list(shape)} is no list of class scores"
        )
    return shape[-1]


def read_label_lines(path: Path) -> list[str]:
    """One label per line. Raises UsageError for a file that cannot be read or is no text."""
    text = read_text(path, "label file", _MAX_LABEL_BYTES)
    return [line.strip() for line in text.rstrip().splitlines()]


def read_labels(path: Path, classes: int) -> list[str]:
    """One label per line; a leading "background" line is dropped where the model has no such class.

    Raises UsageError unless that leaves exactly ``classes`` labels.
    """
    labels = read_label_lines(path)
    if len(labels) == classes + 1 and labels[0].lower() == BACKGROUND:
        labels = labels[1:]
    if len(labels) != classes:
        relation = "short" if len(labels) < classes else "long"
        raise UsageError(
            f"{path}: too {relation} a label file: {len(labels)} labels for {classes} classes"
        )
    return labels


def probabilities(output: npt.NDArray[Any], details: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """The output as probabilities: dequantised, and through a softmax where it holds logits.

    Logits are told from probabilities by the quantisation (see ``_PROBABILITY_SCALE``), for floats
    by the values: in [0, 1] with sum 1.
    """
    values = dequantize(output.reshape(-1), details)
    scale, zero_point = details["quantization"]
    if np.issubdtype(output.dtype, np.integer) and scale:
        is_probability = scale == _PROBABILITY_SCALE and zero_point == np.iinfo(output.dtype).min
    else:
        is_probability = bool(
            np.all(values >= 0.0) and abs(float(values.sum()) - 1.0) <= _FLOAT_SUM_TOLERANCE
        )
    if is_probability:
        return values
    return softmax(values)


def softmax(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Logits as probabilities with the sum 1 along the last axis, without overflow."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    shares: npt.NDArray[np.float64] = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def rank(
    output: npt.NDArray[Any], details: Mapping[str, Any], labels: Sequence[str] | None, top: int
) -> list[Ranked]:
    """The ``top`` best classes, best first; equal scores in order of index.

    Raises ModelError if the output is not finite.
    """
    scores = probabilities(output, details)
    if not np.all(np.isfinite(scores)):
        raise ModelError(f"output {details['name']!r} holds values that are not finite")
    order = np.argsort(-scores, kind="stable")[:top]
    return [
        Ranked(int(i), labels[int(i)] if labels is not None else None, float(scores[i]))
        for i in order
    ]


_MOST_BYTES = 1 << 20
_MOST_FILES = 16


def embedded_labels(path: Path, classes: int | None) -> tuple[str, ...] | None:
    """Return the names of the ``classes`` of a model, in their order; None: the file has no such
    number of them. A leading "background" that the model has no class for is dropped.
    """
    if classes is None:
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()[:_MOST_FILES]
            contents = {
                member.filename: archive.read(member).decode("utf-8")
                for member in members
                if member.file_size <= _MOST_BYTES and member.filename.endswith((".txt", ".json"))
            }
    except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile):
        return None
    for content in contents.values():
        names = _names(content)
        if len(names) == classes + 1 and names[0].lower() == BACKGROUND:
            names = names[1:]
        if len(names) == classes:
            return names
    return None


def _names(content: str) -> tuple[str, ...]:
    """Return names from Ultralytics' settings (JSON, or a dictionary of Python), or by lines."""
    for read in (json.loads, ast.literal_eval):
        try:
            return _of_settings(read(content))
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError, KeyError):
            continue
    return tuple(line.strip() for line in content.rstrip().splitlines())


def _of_settings(settings: Any) -> tuple[str, ...]:
    """Return what is under ``names``: a list, or a dictionary by class. Raises KeyError,
    TypeError.
    """
    names = settings["names"]
    if isinstance(names, dict):
        by_class = {int(index): str(name) for index, name in names.items()}
        return tuple(by_class[index] for index in range(len(by_class)))
    return tuple(str(name) for name in names)
