"""Find what kind of model a file is, for who gave it to the wrong command."""

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

from delegate.host.delegation import plural

Details = Mapping[str, Any]

_SOUND_SHAPES: Final = {(49, 10), (49, 40), (98, 40), (99, 40), (62, 13)}
"""Frames and features of published models that spot words: one channel, as grey pictures have."""
_LEAST_SAMPLES: Final = 256


class Kind(enum.Enum):
    """The input and output of a model, as far as shapes say it."""

    CLASSIFIER = "classifier"
    SOUND = "sound"
    PICTURE = "picture"
    OTHER = "other"


def kind_of(inputs: Sequence[Details], outputs: Sequence[Details]) -> Kind:
    """Return what shapes of inputs and outputs, as the runtimes describe them, say of a model."""
    shapes = [_shape(one) for one in inputs]
    if len(shapes) != 1:
        return Kind.OTHER
    (shape,) = shapes
    if _is_sound(shape):
        return Kind.SOUND
    if len(shape) != 4 or not {shape[1], shape[3]} & {1, 3}:
        return Kind.OTHER
    results = [_shape(one) for one in outputs]
    if len(results) == 1 and results[0] and results[0][-1] > 1 and set(results[0][:-1]) <= {1}:
        return Kind.CLASSIFIER
    many = len(results) == 1 and len(results[0]) == 4 and results[0][3] in (1, 3)
    return Kind.PICTURE if many and results[0][1:3] >= shape[1:3] else Kind.OTHER


def advice(kind: Kind, path: object, outputs: Sequence[Details]) -> str:
    """Return what a model of this kind is, and the command for it; "" where nothing is known."""
    if kind is Kind.CLASSIFIER:
        classes = plural(_shape(outputs[0])[-1], "class")
        return (
            f"this looks like a classifier of {classes}: rk3588-delegate classify PICTURE --model "
            f"{path}"
        )
    if kind is Kind.SOUND:
        return (
            "this looks like a model of sound or of a sensor, which takes no picture: "
            f"rk3588-delegate compare {path} --input X.npy runs it on your numbers, "
            f"rk3588-delegate bench {path} measures it"
        )
    if kind is Kind.PICTURE:
        return (
            "this looks like a model that gives a picture (depth, style, super-resolution): "
            f"rk3588-delegate compare {path} --images FOLDER runs it"
        )
    return ""


def _shape(details: Details) -> tuple[int, ...]:
    return tuple(int(size) for size in details["shape"])


def _is_sound(shape: tuple[int, ...]) -> bool:
    if len(shape) == 4 and shape[3] == 1:
        return shape[1:3] in _SOUND_SHAPES
    long = [size for size in shape if size > 1]
    return len(shape) <= 2 and len(long) == 1 and long[0] >= _LEAST_SAMPLES
