"""Compiled programs on disk: the same graph, options and version need not be compiled twice.

In: a graph, the options and a way to compile. Out: partitions with their programs, from a file if
one holds them. Entries are named by a digest of everything that a program depends on, the
compiler's own files included, and hold it. A file is used only if it and its folder are ours
(owner, not writable by others, nor is a folder above), it is of this digest whatever its name,
whole (digest of its description and of every program) and every program in it passes the verifier;
anything else is compiled anew and replaced. Writers rename a finished file into place, so
readers never see half of one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import marshal
import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delegate.errors import ProgramError, Rejection
from delegate.host.chosen import WAITS_FOR_POOLING, driver_name
from delegate.log import get_logger
from delegate.model.files import open_plain
from delegate.model.graph import Graph, Partition, Sparsity, constant_makers
from delegate.model.operator_options import RuntimeOptions
from delegate.model.stored_options import STORED
from delegate.npu import FORMAT_VERSION
from delegate.options import Options
from delegate.partition.partitions import inner_part, partition_graph
from delegate.version import __version__

if TYPE_CHECKING:
    from io import BufferedReader

    from delegate.compile.compiler import CompileResult
    from delegate.model.graph import Node

logger = get_logger()

MAGIC = b"RK3588 programs 4\n"
SUFFIX = ".rkc"
DIGEST_BYTES = 32
# Far above real entries; a larger file is not read.
MAX_ENTRY_BYTES = 1 << 30
# Some hundred models: entries of MobileNetV1 to YOLOv8n have 3 to 5 MB, and boards have 8 GB and
# more of storage.
MAX_FOLDER_BYTES = 1 << 29
_LENGTH_BYTES = 8
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


@dataclass(frozen=True, slots=True)
class CachedPartition:
    """``program``: of an entry, in memory of its own, which whoever uploads it may give back.
    ``has_own_shapes``: what its nodes write has the shapes that the model says. ``bound``: that of
    results in fp16, as a text; empty: there are none.
    """

    partition: Partition
    program: bytes | mmap.mmap
    has_own_shapes: bool = True
    bound: str = ""


@dataclass(frozen=True, slots=True)
class CachedResult:
    """The part of a ``CompileResult`` that running needs."""

    partitions: tuple[CachedPartition, ...]
    rejections: tuple[Rejection, ...]
    from_cache: bool = False


def compile_cached(
    graph: Graph,
    options: Options,
    compile_graph: Callable[[], CompileResult],
    context: str = "",
) -> CachedResult:
    """The partitions of ``graph``: from ``options.cache_folder()``, or by ``compile_graph`` and
    kept there.

    ``context``: what else the result depends on, for example who partitions. A folder that cannot
    be used costs a warning, or a line at level info where nobody named it, never the result.
    """
    from delegate._native import private_folder

    kept_in = options.cache_folder()
    if kept_in is None:
        return running_part(graph, compile_graph())
    key = cache_key(graph, options, context)
    folder = Path(kept_in)
    unusable = logging.INFO if options.cache_dir == "auto" else logging.WARNING
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = Path(os.fsdecode(private_folder(os.fsencode(folder))))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, FileExistsError):
            reason = "it is no folder"
        logger.log(unusable, "the cache folder %s is not used: %s", folder, reason)
        return running_part(graph, compile_graph())
    path = folder / (key + SUFFIX)
    if os.path.lexists(path):
        _release_constants(graph)
    try:
        found = read_entry(path, key)
        if found is not None:
            _check_partitions(graph, found)
    except (OSError, ValueError, ProgramError) as error:
        logger.warning("cache entry %s is not used: %s", path, error)
        found = None
    if found is not None:
        with contextlib.suppress(OSError):  # a folder that may only be read serves, too
            os.utime(path)
        return found
    compiled = running_part(graph, compile_graph())
    try:
        _write(path, key, compiled)
        _remove_oldest(path)
    except OSError as error:
        logger.log(unusable, "cannot keep programs in %s: %s", folder, error)
    return compiled


def _remove_oldest(newest: Path) -> None:
    """Remove the entries beside ``newest`` that were not used for longest, until at most
    MAX_FOLDER_BYTES are left. Raises OSError.
    """
    entries = []
    with os.scandir(newest.parent) as found:
        for entry in found:
            if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                entries.append((status.st_mtime_ns, entry.name, status.st_size))
    total = sum(size for _, _, size in entries)
    for _, name, size in sorted(entries):
        if total <= MAX_FOLDER_BYTES:
            return
        if name != newest.name:
            with contextlib.suppress(FileNotFoundError):  # of another process that does the same
                os.unlink(newest.parent / name)
            total -= size


def _release_constants(graph: Graph) -> None:
    """The key has read them; they need not be in memory beside the programs that hold them."""
    from delegate._native import release_memory

    constants = (tensor.constant for tensor in graph.tensors)
    release_memory([c for c in constants if c is not None and c.flags.c_contiguous and c.size])


def running_part(graph: Graph, result: CompileResult) -> CachedResult:
    """Return the part that running needs of ``result``, which is that of ``graph``."""
    found = (
        CachedPartition(
            item.partition, item.program, has_own_shapes(graph, item.partition), item.bound
        )
        for item in result.partitions
    )
    return CachedResult(tuple(found), tuple(result.rejections))


def has_own_shapes(graph: Graph, partition: Partition) -> bool:
    """Return whether all results of its nodes have the shapes that ``graph`` says, as far as is
    known.
    """
    from delegate.ops.shared.dilations import with_dilations
    from delegate.partition.shapes import following_shapes

    said = with_dilations(graph)  # as these shapes are: of images that nobody splits
    shapes = following_shapes(said, partition)
    return all(shape == said.tensor(index).shape for index, shape in shapes.items())


def cache_key(graph: Graph, options: Options, context: str = "") -> str:
    """A digest of all that a compiled program depends on."""
    digest = hashlib.sha256()
    has_pooling = driver_name(options.device) == WAITS_FOR_POOLING
    # What the driver takes decides which partitions stay on the CPU.
    driver = (driver_name(options.device) or "any") if options.leaves_slow else ""
    chosen = (options.compiling(), driver, has_pooling)
    facts = (__version__, FORMAT_VERSION, _compiler_fingerprint(), np.__version__, context)
    _update(digest, (facts, chosen, graph.name, graph.inputs, graph.outputs, graph.rounds_once))
    _update(digest, (graph.reduced_precision,))
    for node in graph.nodes:
        _update(digest, (node.index, node.op, node.version, node.inputs, node.outputs))
        _update(digest, (_settings(node),))
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
        if tensor.sparsity is not None:
            _update_sparsity(digest, tensor.sparsity)
        if tensor.constant is not None:
            digest.update(np.ascontiguousarray(tensor.constant).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _update_sparsity(digest: hashlib._Hash, sparsity: Sparsity) -> None:
    _update(digest, (sparsity.traversal_order, sparsity.block_map))
    for level in sparsity.levels:
        _update(digest, (level.size, level.is_compressed))
        for array in (level.segments, level.indices):
            _update(digest, (array.astype(np.int64).tobytes(),))


def _settings(node: Node) -> tuple[bytes, ...] | str:
    """The options that count, of an operator that the NPU may take: of others none change a
    program. What lies between the fields of the runtime's structs is anything.
    """
    spans = STORED.get(node.op, ())
    stored = node.options
    if not spans or stored is None:
        return ""
    if not isinstance(stored, RuntimeOptions):  # of a file: who reads it has the records, too
        from delegate.ops.operator import GraphFacts

        return repr(GraphFacts(Graph((), ())).options(node))
    return tuple(stored.content[offset : offset + size] for offset, size in spans)


def _update(digest: hashlib._Hash, value: tuple[Any, ...]) -> None:
    """Version 2 of the format writes equal values as equal bytes, each with its length."""
    digest.update(marshal.dumps(value, 2))


@functools.cache
def _compiler_fingerprint() -> str:
    """Names, sizes and times of all the package's own files, the native module's too: an edited
    compiler has other results.
    """
    import delegate._native

    # Elsewhere in an editable installation.
    native = os.stat(delegate._native.__file__)
    facts = [*_file_facts(str(Path(__file__).parents[1])), _facts("delegate._native", native)]
    return hashlib.sha256(marshal.dumps(sorted(facts), 2)).hexdigest()


def _file_facts(folder: str, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    """Yield name, size and time of all files in ``folder`` and below it, but for those that Python
    itself compiles.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _file_facts(entry.path, name + "/")
            elif entry.is_file():
                yield _facts(name, entry.stat())


def _facts(name: str, status: os.stat_result) -> tuple[str, int, int]:
    return name, status.st_size, status.st_mtime_ns


def read_entry(path: Path, key: str) -> CachedResult | None:
    """Return an entry's program; None if there is no entry. Raises OSError, ValueError or
    ProgramError on a bad one.
    """
    if not os.path.lexists(path):
        return None
    from delegate._native import check_private_file

    with open_plain(
        path, "cache entry", most_bytes=MAX_ENTRY_BYTES, flags=os.O_NOFOLLOW, error=ProgramError
    ) as file:
        check_private_file(file.fileno(), os.fsencode(path))
        return _decode(file, os.fstat(file.fileno()).st_size, key)


def _check_partitions(graph: Graph, result: CachedResult) -> None:
    """Raise ValueError unless the partitions of an entry are those of ``graph`` with their nodes.
    Its digests only say that the file is whole.
    """
    partitions = [item.partition for item in result.partitions]
    # What programs hold as constants is no input of theirs, whoever computes it.
    held = {t for node in constant_makers(graph) for t in node.outputs}
    delegated = [node for partition in partitions for node in partition.delegated]
    if len({*delegated}) < len(delegated) or not graph.nodes_by_index.keys() >= {*delegated}:
        raise ValueError("its nodes are not of this model")
    wholes = {tuple(sorted(one.nodes)): one for one in partition_graph(graph, delegated)}
    for partition in partitions:
        whole = wholes.get(partition.delegated)
        # A part of one is what the runtime would make of its nodes alone, see ``parts_of``.
        found = [whole] if whole else partition_graph(graph, partition.delegated)
        made = []
        for one in found:
            read = tuple(t for t in one.inputs if t in partition.inputs or t not in held)
            made.append(inner_part(graph, replace(one, inputs=read), partition.nodes))
        if made != [partition]:
            raise ValueError("its partitions are not of this model")
    if any(item.node not in graph.nodes_by_index for item in result.rejections):
        raise ValueError("its nodes are not of this model")


def _digest(payload: bytes | mmap.mmap) -> bytes:
    return hashlib.sha256(payload).digest()


_PARTITION = ("nodes", "inputs", "outputs", "computed")


def _decode(file: BufferedReader, size: int, key: str) -> CachedResult:
    """Reads an entry of ``size`` bytes part by part: a program is in memory once."""
    from delegate._native import check_program

    if file.read(len(MAGIC)) != MAGIC:
        raise ValueError("it is not a cache entry")
    digest = file.read(DIGEST_BYTES)
    prefix = file.read(_LENGTH_BYTES)
    length = int.from_bytes(prefix, "little")
    if file.tell() + length > size:
        raise ValueError("its description is cut off")
    text = file.read(length)
    if _digest(prefix + text) != digest:
        raise ValueError("its digest does not match its description")
    try:
        document = json.loads(text)
        if document["key"] != key:
            raise ValueError("it was made for another model, other options or another version")
        partitions = []
        for item in document["partitions"]:
            # The only user: the device's copy takes its place, page by page.
            program = mmap.mmap(-1, min(max(int(item["bytes"]), 0), size), flags=_PRIVATE)
            file.readinto(program)
            if _digest(program).hex() != item["sha256"]:
                raise ValueError("a program in it is not the one it was written with")
            check_program(program)
            edges = (tuple(map(int, item[key])) for key in _PARTITION)
            own, bound = item["has_own_shapes"] is True, str(item["bound"])
            partitions.append(CachedPartition(Partition(*edges), program, own, bound))
        rejections = tuple(
            Rejection(int(item["node"]), *(str(item[key]) for key in ("op", "rule", "detail")))
            for item in document["rejections"]
        )
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"its description is malformed ({error})") from None
    if file.read(1):
        raise ValueError("its programs have another length than it says")
    return CachedResult(tuple(partitions), rejections, from_cache=True)


def _write(path: Path, key: str, result: CachedResult) -> None:
    document = {
        "key": key,
        "partitions": [
            {
                **asdict(item.partition),
                "has_own_shapes": item.has_own_shapes,
                "bound": item.bound,
                "bytes": len(item.program),
                "sha256": _digest(item.program).hex(),
            }
            for item in result.partitions
        ],
        "rejections": [asdict(rejection) for rejection in result.rejections],
    }
    text = json.dumps(document, sort_keys=True).encode()
    description = len(text).to_bytes(_LENGTH_BYTES, "little") + text
    programs = [item.program for item in result.partitions]
    import tempfile

    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-", suffix=SUFFIX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines((MAGIC, _digest(description), description, *programs))
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
