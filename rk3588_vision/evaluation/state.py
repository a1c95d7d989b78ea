"""Records on disk, one line each, so that an evaluation can go on where it was interrupted.

The first line names what is evaluated; a file of something else is refused. A last line that was
cut off by a crash is dropped.
"""

import json
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from delegate.errors import UsageError
from delegate.model.files import MAX_TEXT_BYTES, read_file
from rk3588_vision.evaluation.evaluator import Record
from rk3588_vision.images import MAX_SIDE

FORMAT = "rk3588-evaluation-1"


class StateFile(AbstractContextManager["StateFile"]):
    """Records by picture; ``path`` None keeps them in memory only.

    ``has_boxes``: they are of a detector.
    """

    def __init__(self, path: Path | None, fingerprint: str, *, has_boxes: bool = False) -> None:
        self._path = path
        self._has_boxes = has_boxes
        self._head = {"format": FORMAT, "fingerprint": fingerprint}
        self.records: dict[str, Record] = {}
        self._file = None
        if path is not None:
            whole = self._read(path) if path.exists() else 0
            try:
                self._file = path.open("r+b" if path.exists() else "w+b")
                self._file.truncate(whole)
                self._file.seek(whole)
                if whole == 0:
                    self._write(self._head)
            except OSError as error:
                raise UsageError(f"{path}: cannot be written: {error.strerror}") from None

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _read(self, path: Path) -> int:
        """Takes the records of ``path`` and returns how many of its bytes are whole lines."""
        content = read_file(path, "state file", MAX_TEXT_BYTES)
        whole = content.rfind(b"\n") + 1
        lines = content[:whole].splitlines()
        if not lines and not content:
            return 0
        try:
            if not lines or json.loads(lines[0]) != self._head:
                raise UsageError(
                    f"{path}: holds another evaluation (model, options, version differ); give "
                    "another --state"
                )
            for line in lines[1:]:
                record = json.loads(line)
                if not _is_record(record, has_boxes=self._has_boxes):
                    raise ValueError
                self.records[record["image"]] = record
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UsageError(f"{path}: is not a state file of evaluate") from None
        return whole

    def add(self, record: Record) -> None:
        """Keeps a record; on disk before this returns."""
        self.records[record["image"]] = record
        self._write(record)

    def _write(self, record: Record) -> None:
        if self._file is None:
            return
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


_SIDES = ("ours", "theirs")


def _is_record(record: Any, *, has_boxes: bool) -> bool:
    """Return whether it is what ``Evaluator.evaluate`` gives. May raise KeyError and TypeError."""
    if not isinstance(record["image"], str) or "ours" not in record:
        return False
    sides = [record[side] for side in _SIDES if side in record]
    if not all(isinstance(side, list) for side in sides):
        return False
    if has_boxes:
        sizes = (record["width"], record["height"])
        is_size = all(type(size) is int and 0 < size <= MAX_SIDE for size in sizes)
        return is_size and all(_is_row(row) for side in sides for row in side)
    return all(side and all(type(index) is int for index in side) for side in sides)


def _is_row(row: Any) -> bool:
    """Class, score, x1, y1, x2, y2."""
    return (
        isinstance(row, list)
        and len(row) == _ROW
        and type(row[0]) is int
        and all(type(value) in (int, float) and abs(value) < _LARGE for value in row)
    )


_ROW = 6
_LARGE = 1e9  # far above any class or pixel
