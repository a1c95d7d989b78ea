"""The ZIP archive that TensorFlow Lite metadata appends to a model: label files and vocabularies.

Comes from: the bytes of a model. Goes to: the same members behind another model, with the offsets
of their new place. Refuses (``ModelError``) an archive that cannot be read.
"""

from __future__ import annotations

import io
import zipfile

from delegate.errors import ModelError

MAX_UNPACKED_BYTES = 256 << 20
"""The most bytes of all members: label files have some kilobytes; a bomb has more than memory
holds.
"""

_END_RECORD_SIGNATURE = b"PK\x05\x06"
_END_RECORD_SEARCH_BYTES = 22 + (1 << 16)  # the end record and the longest comment


def append_archive(source: memoryview, name: str, model: bytes) -> bytes:
    """``model`` with the members of the archive at the end of ``source`` behind it, if any."""
    if _END_RECORD_SIGNATURE not in bytes(source[-_END_RECORD_SEARCH_BYTES:]):
        return model
    target = io.BytesIO()
    target.write(model)
    try:
        with zipfile.ZipFile(io.BytesIO(source)) as old:
            members = old.infolist()
            if sum(member.file_size for member in members) > MAX_UNPACKED_BYTES:
                raise ModelError(f"{name}: the archive behind the model unpacks to too many bytes")
            with zipfile.ZipFile(target, "a") as new:
                for member in members:
                    new.writestr(member, old.read(member), member.compress_type)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError):
        # The signature was chance: an archive that nobody can read carries nothing.
        return model
    return target.getvalue()
