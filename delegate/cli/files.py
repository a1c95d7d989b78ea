"""Files that commands write: complete or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from delegate.errors import UsageError

_PERMISSIONS = 0o666  # of a new file, before the user's mask


def check_writable(*paths: Path | None) -> None:
    """Refuses, before long work, a path that ``write_file`` would refuse after it; None is a file
    that nobody wants. Raises UsageError.
    """
    for path in paths:
        if path is not None and (reason := _obstacle(path)) is not None:
            raise UsageError(f"cannot write {path}: {reason}")


def _obstacle(path: Path) -> str | None:
    folder = Path(os.path.realpath(path)).parent
    try:
        if path.is_dir():
            return os.strerror(errno.EISDIR)
        if not folder.is_dir():
            return os.strerror(errno.ENOENT)
        place = path if path.exists() and not path.is_file() else folder
    except OSError as error:  # a folder that this user may not look into
        return error.strerror
    return None if os.access(place, os.W_OK) else os.strerror(errno.EACCES)


def write_file(path: Path, content: bytes) -> None:
    """Writes ``content`` to ``path`` in one step; a link stays one, and what is no plain file, as
    /dev/stdout, is written to. Raises UsageError with the system's reason.
    """
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
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, _PERMISSIONS & ~mask)
        os.replace(temporary, target)
        temporary = None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot write {path}: {reason}") from None
    finally:
        if temporary is not None:
            os.unlink(temporary)
