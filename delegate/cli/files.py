"""Files that commands write: complete or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from delegate.errors import UsageError

_PERMISSIONS = 0o666  # of a new file, before the user's mask


def write_file(path: Path, content: bytes) -> None:
    """Writes ``content`` to ``path`` in one step. Raises UsageError with the system's reason."""
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, _PERMISSIONS & ~mask)
        os.replace(temporary, path)
        temporary = None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot write {path}: {reason}") from None
    finally:
        if temporary is not None:
            os.unlink(temporary)
