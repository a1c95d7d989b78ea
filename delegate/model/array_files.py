"""Arrays from .npy and .npz files that others wrote, bounded before anything is allocated.

In: bytes or an opened archive, a name for messages, the most bytes that the array may have. Out:
arrays of plain numbers that never hold Python objects. NumPy's own reader allocates what a header
asks for, and 455 KB of an archive can ask for 4 GB.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from delegate.errors import DelegateError

MAX_HEADER_BYTES = 65536
"""An .npy header is text of a few hundred bytes in front of the data."""
_MAX_DIRECTORY_BYTES = 16 << 20  # of an archive: more than 200 000 arrays
_END_BYTES = 22  # the record at a zip file's end, before its comment
_MAX_COMMENT_BYTES = 65535
_SHOWN = 200  # characters of what a parser says
_END, _END_64 = b"PK\5\6", b"PK\6\7"
_DIRECTORY_SIZE = slice(12, 16)
_NUMBERS = "biuf"  # NumPy's kinds
_MAX_RANK = 32  # of NumPy before 2.0
_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class DamagedArrayError(DelegateError):
    """A file that is no array of numbers, or larger than it may be. The text names the array."""


def parse_array(content: bytes, name: str, limit: int) -> npt.NDArray[Any]:
    """The array of an .npy file's content, of at most ``limit`` bytes. DamagedArrayError."""
    stream = io.BytesIO(content)
    try:
        reader: Any = _READERS[np.lib.format.read_magic(stream)]  # type: ignore[no-untyped-call]
        shape, is_fortran, dtype = reader(stream, max_header_size=MAX_HEADER_BYTES)
    except Exception as error:  # the header is Python text, and its parsers raise many types
        detail = " ".join(str(error).split()) or type(error).__name__
        raise DamagedArrayError(f"{name} is damaged: {detail}") from None
    if dtype.kind not in _NUMBERS or dtype.fields is not None or dtype.subdtype is not None:
        raise DamagedArrayError(f"{name} is damaged: it holds no plain numbers but {dtype}")
    if any(isinstance(size, bool) or size < 0 for size in shape) or len(shape) > _MAX_RANK:
        raise DamagedArrayError(f"{name} is damaged: its shape is no shape")
    count = math.prod(shape)
    if count * dtype.itemsize > limit:
        raise DamagedArrayError(
            f"{name} has {count * dtype.itemsize} bytes, more than the {limit} it may have"
        )
    start = stream.tell()
    if len(content) - start != count * dtype.itemsize:
        raise DamagedArrayError(
            f"{name} is damaged: {len(content) - start} bytes for shape {list(shape)}"
        )
    flat = np.frombuffer(content, dtype, count, start) if count else np.zeros(0, dtype)
    return flat.reshape(shape, order="F" if is_fortran else "C")


@contextmanager
def open_archive(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """The archive of arrays in ``file``. Raises DamagedArrayError, also for what happens inside."""
    try:
        _check_directory(file)
        with zipfile.ZipFile(file) as archive:
            yield archive
    except DelegateError:
        raise
    except OSError as error:
        raise DamagedArrayError(f"it cannot be read: {error.strerror or error}") from None
    except MemoryError:
        raise DamagedArrayError("its arrays do not fit into memory") from None
    except Exception as error:  # a damaged archive makes the zip reader raise almost anything
        detail = " ".join(str(error).split()) or type(error).__name__
        raise DamagedArrayError(detail[:_SHOWN]) from None  # it may quote the file


def _check_directory(file: BinaryIO) -> None:
    """Refuses a list of members that alone would fill the memory."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _END_BYTES - _MAX_COMMENT_BYTES))
    tail = file.read()
    file.seek(0)
    if tail.find(_END_64) >= 0:
        raise DamagedArrayError("it is an archive of more than 4 GB")
    position = tail.find(_END)
    while position >= 0:
        record = tail[position : position + _END_BYTES]
        if int.from_bytes(record[_DIRECTORY_SIZE], "little") > _MAX_DIRECTORY_BYTES:
            raise DamagedArrayError("its list of members is too long")
        position = tail.find(_END, position + 1)


def read_member(archive: zipfile.ZipFile, name: str, limit: int) -> npt.NDArray[Any]:
    """The array ``name``; refuses more than ``limit`` bytes before reading them.

    Raises DamagedArrayError, and within ``open_archive`` nothing else gets out.
    """
    try:
        info = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise DamagedArrayError(f"array {name} is missing") from None
    if info.file_size > limit + MAX_HEADER_BYTES:
        raise DamagedArrayError(
            f"array {name} has {info.file_size} bytes, more than the {limit} it may have"
        )
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DamagedArrayError(f"array {name} is compressed in a way that NumPy does not write")
    with archive.open(info) as stream:
        raw = stream.read(limit + MAX_HEADER_BYTES + 1)
    return parse_array(raw, f"array {name}", limit)
