"""Public models and pictures: where they come from, and a verified copy on this machine.

In: ``zoo_manifest.json`` beside this file (name, URL, sha256, licence, what the model must answer).
Out: the path of a file whose sha256 was checked. Looked for in this order: ../shared beside the
repository, the cache ($XDG_CACHE_HOME/rk3588-delegate/models), the sources. A download goes to a
temporary file that is renamed only after verification, so a broken one is never seen.
"""

import contextlib
import hashlib
import http.client
import json
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from delegate.errors import DelegateError
from delegate.model.files import read_file
from delegate.options import user_cache_folder
from delegate.progress import progress

MANIFEST = Path(__file__).with_name("zoo_manifest.json")
SHARED = Path(__file__).resolve().parents[2] / "shared"

_CHUNK_BYTES = 1 << 16
_TIMEOUT_S = 30
_MAX_ARCHIVE_BYTES = 256 << 20  # the largest archive of the manifest has some 50 MB


class DownloadError(DelegateError):
    """No source gave the file; the text says what each one answered and where to put it by hand."""


@dataclass(frozen=True, slots=True)
class Source:
    """A URL; ``member`` names the file inside a .tgz."""

    url: str
    member: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """The model's answer for ``image``, and how much of it the delegate takes."""

    image: str
    index: int
    top1: str
    delegated_nodes: int
    total_nodes: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the manifest."""

    name: str
    task: str
    """"classify", "detect", "segment", "pose" or "face"; "data" of labels and pictures."""
    file: str
    sha256: str
    size_bytes: int
    licence: str
    sources: tuple[Source, ...]
    expected: Expected | None = None
    decoder: str | None = None
    """The decoder of a detector whose outputs alone do not tell how they are read."""


def _entry(fields: dict[str, Any]) -> Entry:
    fields = dict(fields)
    sources = tuple(Source(**source) for source in fields.pop("sources"))
    expected = fields.pop("expected", None)
    return Entry(
        **fields, sources=sources, expected=Expected(**expected) if expected is not None else None
    )


def read_manifest(path: Path = MANIFEST) -> dict[str, Entry]:
    """All entries by name: models first, then labels and pictures."""
    document = json.loads(path.read_text(encoding="utf-8"))
    entries = [_entry(fields) for fields in [*document["models"], *document["files"]]]
    return {entry.name: entry for entry in entries}


def cache_folder() -> Path | None:
    """Return the folder of downloads in the user's cache; None: the user has no cache folder."""
    folder = user_cache_folder()
    return None if folder is None else Path(folder) / "models"


def is_intact(path: Path, entry: Entry) -> bool:
    """Return whether ``path`` holds exactly the file of the manifest."""
    try:
        content = read_file(path, "file", entry.size_bytes)
    except DelegateError:
        return False
    return hashlib.sha256(content).hexdigest() == entry.sha256


def known_decoder(path: Path) -> str | None:
    """The decoder of a detector of the manifest, recognised by its content; None: no such file."""
    entries = [entry for entry in read_manifest().values() if entry.decoder is not None]
    return next((entry.decoder for entry in entries if is_intact(path, entry)), None)


def find(entry: Entry, shared: Path = SHARED) -> Path | None:
    """An intact copy on this machine, or None."""
    folders = (shared / "models", shared / "images", cache_folder())
    candidates = (folder / entry.file for folder in folders if folder is not None)
    return next((path for path in candidates if is_intact(path, entry)), None)


def _copy(source: IO[bytes], target: IO[bytes], limit: int, label: str, total: int) -> str:
    """Copies up to ``limit`` bytes and returns their sha256. Raises ValueError beyond."""
    digest = hashlib.sha256()
    copied = 0
    with progress(label, total) as bar:
        while chunk := source.read(_CHUNK_BYTES):
            copied += len(chunk)
            if copied > limit:
                raise ValueError(f"more than the expected {limit} bytes")
            digest.update(chunk)
            target.write(chunk)
            bar.advance(len(chunk))
    return digest.hexdigest()


def _copy_member(archive: IO[bytes], name: str, target: IO[bytes], limit: int) -> str:
    """Copies the regular file ``name`` of a .tgz, extracting nothing else; returns its sha256."""
    with tarfile.open(fileobj=archive, mode="r:gz") as contents:
        for item in contents:
            file = contents.extractfile(item) if item.isfile() else None
            if file is not None and item.name.removeprefix("./") == name:
                return _copy(file, target, limit, name, limit)
    raise ValueError(f"the archive holds no {name}")


def _download(entry: Entry, source: Source, target: IO[bytes]) -> None:
    with urllib.request.urlopen(source.url, timeout=_TIMEOUT_S) as response:
        if source.member is None:
            digest = _copy(response, target, entry.size_bytes, entry.file, entry.size_bytes)
        else:
            with tempfile.TemporaryFile() as archive:
                total = int(response.headers.get("Content-Length") or 0)
                _copy(response, archive, _MAX_ARCHIVE_BYTES, Path(source.url).name, total)
                archive.seek(0)
                digest = _copy_member(archive, source.member, target, entry.size_bytes)
    if digest != entry.sha256:
        raise ValueError(f"its sha256 is {digest[:16]}..., not {entry.sha256[:16]}...")


def fetch(entry: Entry, shared: Path = SHARED) -> Path:
    """An intact copy of ``entry``, downloaded into the cache if need be.

    Raises DownloadError if no source gives it or there is no cache, and OSError if the cache cannot
    be written.
    """
    found = find(entry, shared)
    if found is not None:
        return found
    folder = cache_folder()
    if folder is None:
        raise DownloadError(
            f"there is no folder to keep {entry.file} in: set XDG_CACHE_HOME or HOME to an "
            "absolute path"
        )
    target = folder / entry.file
    target.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    for source in entry.sources:
        descriptor, temporary = tempfile.mkstemp(prefix=entry.file, dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                try:
                    _download(entry, source, file)
                except (
                    http.client.HTTPException, tarfile.TarError, ValueError, EOFError,
                    urllib.error.URLError, TimeoutError, ConnectionError,
                ) as error:  # fmt: skip
                    failures.append(f"{source.url}: {' '.join(str(error).split())}")
                    continue
            os.replace(temporary, target)
            return target
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
    raise DownloadError(
        f"cannot download {entry.file}: {'; '.join(failures)}; "
        f"get it elsewhere and put it at {target}"
    )
