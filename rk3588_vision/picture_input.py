"""Everything that counts as a picture: a path, a PIL picture, or an array of RGB or grey pixels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from delegate.errors import DelegateError, UsageError
from rk3588_vision.images import open_image

if TYPE_CHECKING:
    from PIL.Image import Image

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
