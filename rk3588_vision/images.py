"""Image files and all else that counts as a picture, and pixels as the numbers of a model's input.

Takes a picture in a common format and the runtime's description of the input; gives an array of the
input's type, NHWC or, where the input's channels come first, NCHW. Refuses files that are no image,
and inputs that are no image (rank, channels, dynamic size, type).

How pixels become numbers:

* uint8 and int8: the pixel's value, for int8 minus 128. Such inputs are quantised over the range
  the pixels were normalised to, whatever that was, so the raw value is the quantised one. Where the
  input's range is wider than [-1, 1] or [0, 1] but begins or ends there, the pixel is normalised to
  that range and quantised (see ``_normalised_range``).
* float32: (pixel - mean) / std, by default 127.5 and 127.5, as TensorFlow's label_image does.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from delegate.errors import DelegateError, ModelError, UsageError
from delegate.model.files import open_plain, read_file

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Pillow's names for these; its other decoders are never asked (one of them starts a program)."""

MAX_PIXELS = (1 << 30) // 12
"""As many as have 12 bytes each in 1 GiB, Pillow's own bound."""
MAX_SIDE = 65535
"""The longest side that JPEG can hold; resizing a longer one takes memory in proportion to it."""
MAX_IMAGE_BYTES = 8 * MAX_PIXELS
"""The most bytes of a file: uncompressed with four channels of 16 bits."""
_WHAT = "image file"

PIXEL_MAX = 255.0
_RAW_RANGES = ((-1.0, 1.0), (0.0, 1.0), (0.0, PIXEL_MAX))
# An input range that agrees with a pixel range to one step in 32 at both ends takes raw pixels:
# exporters round scales (2/255, 1/128, ...) and zero points (127, 128), which moves the ends by at
# most two steps.
_RANGE_TOLERANCE = 1.0 / 32.0

FLOAT_MEAN = 127.5
FLOAT_STD = 127.5


@dataclass(frozen=True, slots=True)
class ImageInput:
    """The picture that a model wants: ``h`` x ``w`` pixels of ``c`` channels, ``dtype``, per-tensor
    quantisation.
    """

    h: int
    w: int
    c: int
    dtype: np.dtype[Any]
    scale: float
    zero_point: int
    channels_first: bool = False

    @classmethod
    def from_details(cls, details: Mapping[str, Any]) -> ImageInput:
        """Return the input that an entry of ``get_input_details()`` describes. Raises ModelError
        for an input that takes no image.
        """
        name = details["name"]
        shape = tuple(int(d) for d in details["shape"])
        signature = tuple(int(d) for d in details.get("shape_signature", shape))
        dtype = np.dtype(details["dtype"])
        if any(d < 0 for d in signature[1:]):
            raise ModelError(
                f"input {name!r} has the dynamic shape {list(signature)}: fix its size"
            )
        channels = [axis for axis in (3, 1) if len(shape) == 4 and shape[axis] in (1, 3)]
        if not channels or shape[0] != 1 or 0 in shape:
            raise ModelError(
                f"input {name!r} of shape {list(shape)} does not take one image (NHWC or NCHW)"
            )
        if dtype not in (np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.float32)):
            raise ModelError(
                f"input {name!r} has the type {dtype}; images need uint8, int8 or float32"
            )
        scale, zero_point = details["quantization"]
        axis = channels[0]  # the last where both would do
        h, w = (shape[1], shape[2]) if axis == 3 else (shape[2], shape[3])
        return cls(h, w, shape[axis], dtype, float(scale), int(zero_point), axis == 1)


def open_image(path: Path) -> Image:
    """The picture, decoded and upright. Raises UsageError naming the file, DelegateError without
    Pillow.
    """
    with open_plain(path, _WHAT, most_bytes=MAX_IMAGE_BYTES) as file:
        return decode_image(file, str(path))


def read_picture(path: Path) -> bytes:
    """The content of an image file, for ``decode_image`` elsewhere. Raises UsageError."""
    return read_file(path, _WHAT, MAX_IMAGE_BYTES)


def decode_image(file: BinaryIO, name: str) -> Image:
    """The picture in ``file``, upright, in one of the formats of ``IMAGE_SUFFIXES`` and of at most
    ``MAX_PIXELS`` pixels. Raises UsageError, DelegateError without Pillow.
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise DelegateError(
            "reading images needs Pillow: pip install rk3588-delegate[cli]"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they would say is refused here
            with Image.open(file, formats=FORMATS) as image:
                _check_size(image)
                image.load()
                _check_size(image)
                if image.mode not in ("L", "RGB"):
                    image.convert("RGB")  # not every mode has a way
                return ImageOps.exif_transpose(image)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
    except UnidentifiedImageError:
        raise UsageError(
            f"{name}: not an image: none of the formats {', '.join(FORMATS)}"
        ) from None
    except Exception as error:  # Pillow's decoders raise many types for damaged files
        detail = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{name}: the image cannot be decoded: {detail}") from None


def _check_size(image: Image) -> None:
    w, h = image.size
    if w * h > MAX_PIXELS or max(w, h) > MAX_SIDE:
        raise UsageError(
            f"an image of {w} x {h} pixels; at most {MAX_PIXELS} are taken, {MAX_SIDE} to a side"
        )


def _normalised_range(target: ImageInput) -> tuple[float, float] | None:
    """The range to normalise to before quantising, or None where raw pixels fit as they are."""
    limits = np.iinfo(target.dtype)
    if target.scale <= 0.0:
        return None
    low = (limits.min - target.zero_point) * target.scale
    high = (limits.max - target.zero_point) * target.scale
    for wanted_low, wanted_high in _RAW_RANGES:
        tolerance = _RANGE_TOLERANCE * (wanted_high - wanted_low)
        if abs(low - wanted_low) <= tolerance and abs(high - wanted_high) <= tolerance:
            return None
    for wanted_low, wanted_high in _RAW_RANGES[:2]:
        tolerance = _RANGE_TOLERANCE * (wanted_high - wanted_low)
        holds = low <= wanted_low + tolerance and high >= wanted_high - tolerance
        touches = abs(low - wanted_low) <= tolerance or abs(high - wanted_high) <= tolerance
        if holds and touches:
            return wanted_low, wanted_high
    return None


def pixels_to_input(
    pixels: npt.NDArray[np.uint8],
    target: ImageInput,
    *,
    mean: float = FLOAT_MEAN,
    std: float = FLOAT_STD,
) -> npt.NDArray[Any]:
    """``pixels`` [h, w, c] as the input tensor [1, h, w, c] or [1, c, h, w], by the rules at the
    head of this module.
    """
    if target.channels_first:
        pixels = np.ascontiguousarray(np.moveaxis(pixels, -1, 0))
    batch = pixels[np.newaxis]
    if target.dtype == np.float32:
        return ((batch.astype(np.float32) - np.float32(mean)) / np.float32(std)).astype(np.float32)
    wanted = _normalised_range(target)
    if wanted is None:
        if target.dtype == np.uint8:
            return batch
        return (batch.astype(np.int16) - 128).astype(np.int8)
    low, high = wanted
    real = low + batch.astype(np.float64) * ((high - low) / PIXEL_MAX)
    limits = np.iinfo(target.dtype)
    quantised = np.rint(real / target.scale) + target.zero_point
    saturated: npt.NDArray[Any] = np.clip(quantised, limits.min, limits.max).astype(target.dtype)
    return saturated


def find_images(folder: Path) -> list[Path]:
    """The image files directly in ``folder``, by name. Raises UsageError if there are none."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder of images")
    try:
        found = sorted(p for p in folder.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from None
    if not found:
        raise UsageError(f"{folder}: holds no image files ({', '.join(IMAGE_SUFFIXES)})")
    return found


Picture: TypeAlias = "str | Path | Image | npt.NDArray[Any]"
"""A file's path, a PIL picture, or uint8 pixels [h, w, 3] in RGB or [h, w] in grey, of any size."""


def as_image(picture: Picture) -> Image:
    """Return ``picture`` for Pillow. Raises UsageError for what is no picture, DelegateError
    without Pillow.
    """
    if isinstance(picture, str | Path):
        return open_image(Path(picture))
    if isinstance(picture, np.ndarray):
        return _from_array(picture)
    if hasattr(picture, "resize") and hasattr(picture, "convert"):
        return picture
    raise UsageError(
        f"{type(picture).__name__} is no picture: give a path, a PIL picture, or a NumPy array"
    )


def _from_array(pixels: npt.NDArray[Any]) -> Image:
    try:
        from PIL.Image import fromarray
    except ImportError:
        raise DelegateError("pictures need Pillow: pip install rk3588-delegate[cli]") from None
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    is_image = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)
    if not is_image or pixels.size == 0:
        raise UsageError(
            f"an array of shape {list(pixels.shape)} is no picture: give [height, width, 3] in RGB "
            "or [height, width] in grey; of RGBA pixels[:, :, :3]"
        )
    if pixels.dtype != np.uint8:
        raise UsageError(f"pixels of type {pixels.dtype}: give uint8, from 0 to 255")
    return fromarray(np.ascontiguousarray(pixels))


def detached(picture: Picture) -> Picture:
    """Return a copy of an array, which its owner may write again (a camera's buffer); others as
    they are.
    """
    return picture.copy() if isinstance(picture, np.ndarray) else picture
