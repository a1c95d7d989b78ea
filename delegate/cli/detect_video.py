"""``detect --video``: objects in every frame of a video file, a camera or a stream.

Found objects in JSON and on drawn pictures, which pictures and videos share.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegate.cli.command import print_json
from delegate.cli.files import delegation_facts, warn_of_meaning, write_file
from delegate.cli.table import WIDTH, print_pairs
from delegate.errors import UsageError
from delegate.host.delegated import DelegatedModel
from delegate.host.delegation import plural
from rk3588_vision.detection.detector import DetectorPlan
from rk3588_vision.detection.draw import draw
from rk3588_vision.detection.objects import Detector, FoundObject
from rk3588_vision.video import WRITTEN_SUFFIXES, Frame, VideoFile, VideoSource

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".bmp": "BMP", ".webp": "WEBP"}
"""The formats of drawn pictures by their suffixes."""
_NO_FOLDERS = (*FORMATS, ".gif", ".mkv", ".mov", ".webm")
"""Suffixes of names that are not meant as folders."""


class _Output:
    """The target of drawn frames: a folder of pictures, or a video."""

    def __init__(self, target: Path, frames_per_second: float | None) -> None:
        self._target = target
        self._video: VideoFile | None = None
        if target.suffix.lower() in WRITTEN_SUFFIXES and not target.is_dir():
            self._video = VideoFile(target, frames_per_second)
        elif not target.is_dir() and (target.exists() or target.suffix.lower() in _NO_FOLDERS):
            known = ", ".join(WRITTEN_SUFFIXES)
            raise UsageError(f"{target}: drawn frames go into a folder, or a video ({known})")
        folder = target if self._video is None else target.parent
        self.made = None if folder.is_dir() else folder

    def add(self, frame: Frame, picture: Image) -> None:
        if self._video is not None:
            self._target.parent.mkdir(parents=True, exist_ok=True)
            self._video.add(picture)
        else:
            save_picture(picture, self._target / f"frame_{frame.number:06d}.png")

    def close(self) -> None:
        if self._video is not None:
            self._video.close()


def run_video(
    arguments: argparse.Namespace,
    detector: Detector,
) -> int:
    """Detects until the video ends, ``--frames`` are done, or somebody interrupts: what was found
    until then is complete. Raises UsageError for what cannot be opened or written.
    """
    frames: list[dict[str, Any]] = []
    count = 0
    with VideoSource(arguments.video) as source:
        rate = source.frames_per_second
        target = arguments.output
        output = None
        if target is not None:
            output = _Output(target, None if rate is None else rate / arguments.every)
        model, plan = detector.model, detector.plan
        if not arguments.json:
            print_detector(arguments.model, plan, model)
        try:
            for frame in source.frames(arguments.every, arguments.frames):
                found = detector(frame.image)
                if output is not None:
                    output.add(frame, draw(frame.image, found))
                count += 1
                if arguments.json:
                    when = {"frame": frame.number, "time_s": frame.time_s}
                    frames.append({**when, **picture_document(frame.image, found)})
                else:
                    print(_line(frame, found), flush=True)
        except KeyboardInterrupt:
            pass  # the way in which the pictures of a camera end
        finally:
            if output is not None:
                output.close()
    if count == 0:
        raise UsageError(f"{arguments.video}: gave no picture")
    if arguments.json:
        head = {"video": arguments.video, "frames_per_second": rate, "decoder": plan.head.name}
        print_json({**head, **delegation_facts(model), "frames": frames})
    else:
        print(f"{plural(count, 'frame')}")
        if output is not None:
            if output.made is not None:
                print(f"made the folder {output.made}")
            print(f"wrote {target}")
    warn_of_meaning(arguments.model, model, "boxes")
    return 0


def _line(frame: Frame, found: Sequence[FoundObject]) -> str:
    """One frame on one line, best objects first, cut to the width of tables."""
    time = "" if frame.time_s is None else f"  {frame.time_s:8.2f} s"
    names = ", ".join(f"{one.name} {one.score:.2f}" for one in found)
    text = f"frame {frame.number:6d}{time}  {plural(len(found), 'object')}"
    text += f": {names}" if names else ""
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def save_picture(picture: Image, target: Path) -> None:
    """Writes a picture in the format of its name. Raises UsageError."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from None
    content = io.BytesIO()
    picture.save(content, FORMATS[target.suffix.lower()])
    write_file(target, content.getvalue())


def print_detector(
    path: Path, plan: DetectorPlan, model: DelegatedModel, *more: tuple[str, object]
) -> None:
    """Print what finds the objects, and ``more`` about it."""
    facts = model.delegation
    print_pairs(
        ("model", path),
        ("decoder", plan.head.name),
        ("device", model.device),
        ("delegated", f"{facts.delegated_nodes} of {facts.total_nodes} nodes"),
        *more,
    )


def picture_document(image: Image, found: Sequence[FoundObject]) -> dict[str, Any]:
    """The JSON of a picture and the objects on it; "points" are [x, y, how sure], "outline" the
    corners of a box that lies aslant.
    """
    return {
        "width": image.width,
        "height": image.height,
        "detections": [
            {
                "class": one.index,
                "label": one.label,
                "score": one.score,
                "box": one.box,
                **({"points": one.points} if one.points else {}),
                **({"outline": one.outline} if one.outline else {}),
            }
            for one in found
        ],
    }
