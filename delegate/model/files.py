"""Files that others wrote: only plain ones are opened, and no more than a bound is read.

In: a path, what the file is for, and the most bytes that make sense. Out: its content, or one line
of error. Pipes, sockets and devices are refused before they are opened, because opening can already
wait, or do something; what replaces a plain file meanwhile is opened without waiting and refused
then. All files that a user or a stranger gives are read through here.
"""

from __future__ import annotations

import contextlib
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from delegate.errors import DelegateError, UsageError

AnyPath = str | os.PathLike[str]

MAX_MODEL_BYTES = 1 << 32
"""The most bytes of a model that is read into memory; most models are mapped, which needs no bound.
"""
MAX_TEXT_BYTES = 512 << 20
"""Labels and annotations: those of COCO's training pictures have 470 MB."""

_BLOCK_BYTES = 1 << 20
_PERMISSIONS = 0o666  # of a new file, before the user's mask


def open_plain(
    path: AnyPath,
    what: str = "file",
    *,
    most_bytes: int | None = None,
    flags: int = 0,
    error: type[DelegateError] = UsageError,
) -> BufferedReader:
    """``path`` opened for reading bytes.

    ``what`` names the kind of file in messages; ``flags`` are further ones for ``os.open``. Raises
    ``error`` if there is no plain file of at most ``most_bytes`` bytes, or it cannot be read.
    """
    try:
        _refuse_others(os.stat(path, follow_symlinks=not flags & os.O_NOFOLLOW), path, what, error)
        waiting = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        descriptor = os.open(path, os.O_RDONLY | waiting | flags)
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, descriptor)
            status = os.fstat(descriptor)
            _refuse_others(status, path, what, error)
            if most_bytes is not None and status.st_size > most_bytes:
                raise error(_too_large(path, what, most_bytes))
            undo.pop_all()
        return os.fdopen(descriptor, "rb")
    except FileNotFoundError:
        raise error(f"{_shown(path)}: no such {what}") from None
    except (OSError, ValueError) as problem:  # ValueError: a path with a NUL character
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error(f"{_shown(path)}: the {what} cannot be read: {reason}") from None


def _read_all(file: BinaryIO, most_bytes: int) -> bytes | None:
    """Read at most ``most_bytes`` and one: a read takes memory for what it is asked for, so that is
    the file's size, not the bound, which a small board may not have.
    """
    size = os.fstat(file.fileno()).st_size
    content = file.read(min(size, most_bytes) + 1)
    while content and size < len(content) <= most_bytes:  # it grows, or does not tell its size
        more = file.read(min(_BLOCK_BYTES, most_bytes + 1 - len(content)))
        if not more:
            break
        content += more
    return content


def read_file(
    path: AnyPath, what: str, most_bytes: int, *, error: type[DelegateError] = UsageError
) -> bytes:
    """The content of a plain file; a growing one is refused too. Raises ``error``."""
    with open_plain(path, what, most_bytes=most_bytes, error=error) as file:
        try:
            content = _read_all(file, most_bytes)
        except OSError as problem:
            raise error(f"{_shown(path)}: the {what} cannot be read: {problem.strerror}") from None
    if content is None:  # opened without waiting, as a few files of the kernel's are
        raise error(f"{_shown(path)}: the {what} cannot be read: it would have to be waited for")
    if len(content) > most_bytes:
        raise error(_too_large(path, what, most_bytes))
    return content


def read_text(path: AnyPath, what: str, most_bytes: int = MAX_TEXT_BYTES) -> str:
    """The content of a plain file as UTF-8. Raises UsageError."""
    try:
        return read_file(path, what, most_bytes).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{_shown(path)}: not {_one(what)}: it is no UTF-8 text") from None


_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a link"),
)


def _refuse_others(
    status: os.stat_result, path: AnyPath, what: str, error: type[DelegateError]
) -> None:
    for is_kind, name in _KINDS:
        if is_kind(status.st_mode):
            raise error(f"{_shown(path)}: is {name}, not {_one(what)}")


def _too_large(path: AnyPath, what: str, most_bytes: int) -> str:
    return f"{_shown(path)}: too large for {_one(what)}: more than {most_bytes} bytes"


def _one(what: str) -> str:
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"


def _shown(path: AnyPath) -> str:
    text = os.fspath(path)
    return text if text.isprintable() else ascii(text)


def write_file(path: Path, content: bytes, *, error: type[DelegateError] = UsageError) -> None:
    """Writes ``content`` to ``path`` in one step; a link stays one, and what is no plain file, as
    /dev/stdout, is written to. Raises ``error`` with the system's reason.
    """
    import tempfile  # on demand: programs from the cache need none of it

    temporary = None
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not (target.is_file() or target.is_dir()):
            with open(target, "wb") as file:
                file.write(content)
            return
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # else a full disk may show later
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, _PERMISSIONS & ~mask)
        os.replace(temporary, target)
        temporary = None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error(f"cannot write {path}: {reason}") from None
    finally:
        if temporary is not None:
            os.unlink(temporary)
