"""Compiled programs on disk: the same graph, options and version need not be compiled twice.

In: a graph, the options and a way to compile. Out: partitions with their programs, from a file if
one holds them. Entries are named by a digest of everything that a program depends on, the
compiler's own files included. A file is used only if it is ours (owner, not writable by others),
whole (digest of its description, checksum of every program) and every program in it passes the
verifier; anything else is compiled anew and replaced. Writers rename a finished file into place, so
readers never see half of one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import marshal
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from delegate import __version__
from delegate.compiler import CompileResult, split_of
from delegate.errors import ProgramError
from delegate.graph import Graph
from delegate.log import get_logger
from delegate.npu.program import FORMAT_VERSION
from delegate.options import Options
from delegate.partition.rules import facts_of
from delegate.partition.types import Partition, Rejection

logger = get_logger()

MAGIC = b"RK3588 programs 1\n"
SUFFIX = ".rkc"
DIGEST_BYTES = 32
# Far above real entries; a larger file is not read.
MAX_ENTRY_BYTES = 1 << 30
_LENGTH_BYTES = 8
_WRITABLE_BY_OTHERS = 0o022


@dataclass(frozen=True, slots=True)
class CachedPartition:
    partition: Partition
    program: bytes


@dataclass(frozen=True, slots=True)
class CachedResult:
    """What running needs of a ``CompileResult``."""

    partitions: tuple[CachedPartition, ...]
    rejections: tuple[Rejection, ...]
    from_cache: bool = False


def compile_cached(
    graph: Graph, options: Options, compile_graph: Callable[[], CompileResult], context: str = ""
) -> CachedResult:
    """The partitions of ``graph``: from ``options.cache_dir``, or by ``compile_graph`` and kept.

    ``context``: what else the result depends on, for example who partitions. A folder that cannot
    be used costs a warning, never the result.
    """
    path = Path(options.cache_dir) / (cache_key(graph, options, context) + SUFFIX)
    try:
        found = _read(path)
    except (OSError, ValueError, ProgramError) as error:
        logger.warning("cache entry %s is not used: %s", path, error)
        found = None
    if found is not None:
        return found
    result = compile_graph()
    compiled = CachedResult(
        tuple(CachedPartition(item.partition, item.program) for item in result.partitions),
        tuple(result.rejections),
    )
    try:
        _write(path, compiled)
    except OSError as error:
        logger.warning("cannot keep programs in %s: %s", options.cache_dir, error)
    return compiled


def cache_key(graph: Graph, options: Options, context: str = "") -> str:
    """A digest of all that a compiled program depends on."""
    digest = hashlib.sha256()
    # The device that is meant and how many cores it has count only where rows are shared.
    chosen = (options.compiling(), repr(split_of(options)))
    facts = (__version__, FORMAT_VERSION, _compiler_fingerprint(), np.__version__, context)
    _update(digest, (facts, chosen, graph.name, graph.inputs, graph.outputs))
    facts_of_nodes = facts_of(graph)
    for node in graph.nodes:
        _update(digest, (node.index, node.op, node.version, node.inputs, node.outputs))
        # Options of operators that stay on the CPU change no program.
        settings = facts_of_nodes.options(node) if node.op in facts_of_nodes.operators else None
        _update(digest, (repr(settings),))
    for tensor in graph.tensors:
        scaling = tensor.quantization
        _update(
            digest,
            (
                (tensor.index, tensor.name, tensor.dtype.name, tensor.is_variable),
                (tensor.shape, tensor.shape_signature, tensor.is_sparse),
                () if scaling is None else (scaling.scales, scaling.zero_points, scaling.axis),
                -1 if tensor.constant is None else tensor.constant.nbytes,
            ),
        )
        if tensor.constant is not None:
            digest.update(np.ascontiguousarray(tensor.constant).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _update(digest: hashlib._Hash, value: tuple[Any, ...]) -> None:
    """Version 2 of the format writes equal values as equal bytes, each with its length."""
    digest.update(marshal.dumps(value, 2))


@functools.cache
def _compiler_fingerprint() -> str:
    """Names, sizes and times of the package's own files: an edited compiler has other results."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for folder in (root, root / "lower", root / "npu", root / "npu" / "register_tables",
                   root / "partition"):  # fmt: skip
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda item: item.name):
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    _update(digest, (entry.name, status.st_size, status.st_mtime_ns))
    return digest.hexdigest()


def _read(path: Path) -> CachedResult | None:
    """None if there is no entry. Raises OSError, ValueError or ProgramError on a bad one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (os.getuid(), 0) or status.st_mode & _WRITABLE_BY_OTHERS:
            raise ValueError("others could have written it")
        if status.st_size > MAX_ENTRY_BYTES:
            raise ValueError(f"it has {status.st_size} bytes")
        content = file.read(MAX_ENTRY_BYTES)
    start = len(MAGIC) + DIGEST_BYTES
    if not content.startswith(MAGIC) or len(content) < start + _LENGTH_BYTES:
        raise ValueError("it is not a cache entry")
    return _decode(memoryview(content)[start:], content[len(MAGIC) : start])


def _digest(payload: memoryview | bytes) -> bytes:
    return hashlib.sha256(payload).digest()


def _decode(payload: memoryview, digest: bytes) -> CachedResult:
    from delegate._native import check_program

    length = int.from_bytes(payload[:_LENGTH_BYTES], "little")
    end = _LENGTH_BYTES + length
    if end > len(payload):
        raise ValueError("its description is cut off")
    if _digest(payload[:end]) != digest:
        raise ValueError("its digest does not match its description")
    try:
        document = json.loads(bytes(payload[_LENGTH_BYTES:end]))
        partitions = []
        for item in document["partitions"]:
            size = int(item["bytes"])
            program = bytes(payload[end : end + size])
            end += size
            check_program(program)
            edges = (tuple(map(int, item[key])) for key in ("nodes", "inputs", "outputs"))
            partitions.append(CachedPartition(Partition(*edges), program))
        rejections = tuple(Rejection(**_texts(item)) for item in document["rejections"])
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"its description is malformed ({error})") from None
    if end != len(payload):
        raise ValueError("its programs have another length than it says")
    return CachedResult(tuple(partitions), rejections, from_cache=True)


def _texts(item: Mapping[str, Any]) -> dict[str, Any]:
    texts = {key: str(item[key]) for key in ("op", "rule", "detail")}
    return {"node": int(item["node"]), **texts}


def _write(path: Path, result: CachedResult) -> None:
    document = {
        "partitions": [
            {**asdict(item.partition), "bytes": len(item.program)} for item in result.partitions
        ],
        "rejections": [asdict(rejection) for rejection in result.rejections],
    }
    text = json.dumps(document, sort_keys=True).encode()
    description = len(text).to_bytes(_LENGTH_BYTES, "little") + text
    programs = [item.program for item in result.partitions]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-", suffix=SUFFIX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines((MAGIC, _digest(description), description, *programs))
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
