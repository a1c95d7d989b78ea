"""Names of classes that a .tflite file has in itself: exporters append them as a ZIP archive.

TensorFlow's metadata library appends label files, Ultralytics its settings with ``names``. A file
that is damaged or not understood has no names; it is no error.
"""

from __future__ import annotations

import ast
import json
import zipfile
from pathlib import Path
from typing import Any

from rk3588_vision.class_ranking import BACKGROUND

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
