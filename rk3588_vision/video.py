"""Pictures from video files, cameras and network streams, and back into video files, by OpenCV.

OpenCV is the optional extra ``video`` and is imported only here, when a video is opened.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delegate.errors import DelegateError, UsageError

if TYPE_CHECKING:
    from PIL.Image import Image

WRITTEN_SUFFIXES = {".mp4": "mp4v", ".avi": "MJPG"}
"""Suffix of a written video, and the code of its codec; both are in every build of OpenCV."""

CONTAINERS = (
    "mov", "matroska", "avi", "mpegts", "mpeg", "mpegvideo", "h264", "hevc", "flv", "asf", "ogg",
    "gif", "mjpeg", "ivf", "yuv4mpegpipe",
)  # fmt: skip
"""The formats that video files may have, by FFmpeg's names: formats that hold the pictures
themselves. Playlists and scripts name other files or addresses, which a stranger's file must not
open.
"""

FILE_OPTIONS = f"format_whitelist;{','.join(CONTAINERS)}|protocol_whitelist;file"
"""As OpenCV hands them to FFmpeg."""
OPTIONS_VARIABLE = "OPENCV_FFMPEG_CAPTURE_OPTIONS"
_DEAF_VERSION = "4.11."
"""Its condition for taking them is the wrong way round (pull request 26793 of opencv/opencv)."""

DEFAULT_FRAMES_PER_SECOND = 25.0
"""The rate of a written video whose source does not say its own, as many cameras do not."""


def _opencv() -> Any:
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # AV_LOG_QUIET
    try:
        import cv2
    except ImportError:
        raise DelegateError(
            "reading videos and cameras needs OpenCV: pip install rk3588-delegate[video]"
        ) from None
    # What fails is reported by this module, once. OpenCV 5 has the function elsewhere.
    for place in (cv2, getattr(getattr(cv2, "utils", None), "logging", None)):
        set_level = getattr(place, "setLogLevel", None)
        if set_level is not None:
            set_level(0)
    return cv2


def _open_file(cv2: Any, path: Path) -> Any:
    """By FFmpeg alone, which can be told what to refuse; a name that begins with / is not taken for
    an address.
    """
    if str(cv2.__version__).startswith(_DEAF_VERSION):
        raise DelegateError(
            f"OpenCV {cv2.__version__} cannot be told which files not to follow: "
            f"pip install 'opencv-python-headless!={_DEAF_VERSION}*'"
        )
    before = os.environ.get(OPTIONS_VARIABLE)
    os.environ[OPTIONS_VARIABLE] = FILE_OPTIONS
    try:
        return cv2.VideoCapture(str(path.absolute()), cv2.CAP_FFMPEG)
    finally:
        if before is None:
            del os.environ[OPTIONS_VARIABLE]
        else:
            os.environ[OPTIONS_VARIABLE] = before


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The ``number``-th picture of a source (from 0), ``time_s`` seconds after its first one, by
    the source's frame rate; None where the source does not say it.
    """

    number: int
    time_s: float | None
    image: Image


class VideoSource(AbstractContextManager["VideoSource"]):
    """A file, a camera by its number, or a stream by its address, opened.

    Raises UsageError if there is no such source, DelegateError without OpenCV.
    """

    def __init__(self, name: str) -> None:
        cv2 = _opencv()
        is_camera = name.isascii() and name.isdigit()
        is_stream = "://" in name and not name.lower().startswith("file:")
        if not is_camera and not is_stream and not Path(name).is_file():
            reason = "is a directory, not a video" if Path(name).is_dir() else "no such video file"
            raise UsageError(f"{name}: {reason}")
        if is_camera or is_stream:
            self._capture = cv2.VideoCapture(int(name) if is_camera else name)
        else:
            self._capture = _open_file(cv2, Path(name))
        if not self._capture.isOpened():
            self._capture.release()
            if is_camera:
                raise UsageError(f"no camera {name}, or it is in use or not readable by this user")
            raise UsageError(f"{name}: not a video that this OpenCV can read")
        rate = float(self._capture.get(cv2.CAP_PROP_FPS))
        self.frames_per_second = rate if math.isfinite(rate) and rate > 0 else None

    def frames(self, every: int = 1, limit: int | None = None) -> Iterator[Frame]:
        """Every ``every``-th frame, at most ``limit`` of them, as RGB pictures."""
        from PIL.Image import fromarray

        number = given = 0
        while limit is None or given < limit:
            if not self._capture.grab():
                return
            if number % every == 0:
                decoded, pixels = self._capture.retrieve()
                if not decoded:
                    return
                rate = self.frames_per_second
                image = fromarray(np.ascontiguousarray(pixels[:, :, ::-1]))  # OpenCV has BGR
                yield Frame(number, None if rate is None else number / rate, image)
                given += 1
            number += 1

    def __exit__(self, *_: object) -> None:
        self._capture.release()


class VideoFile:
    """A video that is written picture by picture, all in the size of the first one."""

    def __init__(self, path: Path, frames_per_second: float | None) -> None:
        self._path = path
        self._rate = frames_per_second or DEFAULT_FRAMES_PER_SECOND
        self._writer: Any = None
        self._size = (0, 0)

    def add(self, image: Image) -> None:
        """Appends a picture. Raises UsageError if the file cannot be written."""
        if self._writer is None:
            cv2 = _opencv()
            code = cv2.VideoWriter_fourcc(*WRITTEN_SUFFIXES[self._path.suffix.lower()])
            self._size = image.size
            self._writer = cv2.VideoWriter(str(self._path), code, self._rate, self._size)
            if not self._writer.isOpened():
                raise UsageError(f"cannot write {self._path}")
        picture = image.convert("RGB")
        if picture.size != self._size:  # OpenCV would drop it without a word
            picture = picture.resize(self._size)
        self._writer.write(np.ascontiguousarray(np.asarray(picture)[:, :, ::-1]))

    def close(self) -> None:
        """Completes the file."""
        if self._writer is not None:
            self._writer.release()
