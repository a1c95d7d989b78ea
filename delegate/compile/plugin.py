"""Answer the native plugin: check the options, compile the partitions of a graph.

Called by ``native/python/plugin.cpp`` with the GIL held: once per delegate (:class:`Session`), once
per interpreter and subgraph (:meth:`Session.prepare`), and after a resize (the returned
``Recompile``). A process whose programs come from the cache or from the model itself loads neither
the compiler nor the operators' records.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from delegate.errors import DelegateError, is_memory_exhausted
from delegate.host.delegation import Delegation, announce
from delegate.log import configure, get_logger
from delegate.model.stored_options import STORED
from delegate.model.tflite_operators import BUILTIN_OPERATORS, DELEGATE
from delegate.options import SLOW, Options

if TYPE_CHECKING:
    from mmap import mmap

    from delegate.compile.cache import CachedResult
    from delegate.compile.compiler import CompileResult
    from delegate.model.graph import Graph, Partition

logger = get_logger()

Snapshot = Mapping[str, Any]
"""{"tensors": [dict, ...], "nodes": [dict, ...], "reduced_precision": bytes or None}, see
``native/python/snapshot.cpp``.
"""

PreviewedPartition = tuple[list[int], list[int], list[int]]
"""Nodes, non-constant inputs and outputs of a partition that the runtime would make."""

Preview = Callable[[list[int]], list[PreviewedPartition]]
Missing = Callable[["bytes | mmap"], Sequence[tuple[str, str]]]
"""Features that a program uses and the device lacks: names and reasons."""

Upload = Callable[[bytes], None]
Recompile = Callable[[list[dict[str, Any]], Upload], dict[int, tuple[int, ...]]]
Prepared = tuple[tuple[int, ...], "bytes | mmap", Recompile, tuple[int, ...]]
"""A program that is not read-only is handed over: nobody reads it after the plugin has."""


def _log_stats() -> None:
    from delegate._native import stats_line

    if line := stats_line():
        logger.info("%s", line)


class Session:
    """One delegate: its effective options and the name of the device it opened.

    Raises OptionError on an unknown or malformed option.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = Options.from_mapping(options)
        self.device_name = self.options.device
        configure(self.options.log_level)
        weakref.finalize(self, _log_stats)  # when it is closed, or the process ends with it open

    def adopt_chip(self, name: str) -> None:
        """The chip of the device that was opened, for option ``chip`` = auto."""
        if self.options.chip == "auto":
            self.options = replace(self.options, chip=name)

    def option_bytes(self) -> dict[int, int]:
        """Return how many bytes of the runtime's options each operator reads, by builtin code."""
        return {
            BUILTIN_OPERATORS.index(name): max(offset + size for offset, size in fields)
            for name, fields in STORED.items()
            if fields
        }

    def prepare(
        self, snapshot: Snapshot, preview: Preview, missing: Missing = lambda _: ()
    ) -> list[Prepared]:
        """The partitions to delegate: nodes, program, how to compile it for other shapes, and the
        nodes on the CPU whose results the program holds as constants. No bytes of a program: the
        model says other shapes than follow from the partition's inputs. Programs use nothing of
        the device that it is ``missing``.

        Announces what is delegated and what is not. Raises DelegateError if the runtime must not
        go on: with option ``strict``, on any failure. Otherwise a failure of the compiler leaves
        the graph to the CPU.
        """
        _warn_of_other_delegates(snapshot)
        graph = _graph(snapshot)
        try:
            result, shown = self._compile_for_board(graph, preview, missing)
        except Exception as error:
            if self.options.strict:
                raise
            if is_memory_exhausted(error):
                logger.warning(
                    "nothing delegated: memory ran out while the model was compiled (%s); give "
                    "the process more, or compile ahead of time: rk3588-delegate compile MODEL -o "
                    "OUT.tflite",
                    str(error) or type(error).__name__,
                )
            elif isinstance(error, DelegateError):
                logger.warning("nothing delegated: %s", error)
            else:
                logger.exception("nothing delegated: internal error: %s", error)
            announce(Delegation(self.device_name, 0, len(snapshot["nodes"]), 0), self.options)
            return []
        partitions = [item.partition for item in result.partitions]
        announce(
            Delegation(
                device=self.device_name,
                delegated_nodes=sum(len(partition.delegated) for partition in partitions),
                total_nodes=len(snapshot["nodes"]),
                partitions=len(partitions),
                rejections=tuple(result.rejections),
                bounds=tuple(filter(None, (item.bound for item in result.partitions))),
            ),
            self.options,
        )
        nodes_by_index = {node["index"]: node for node in snapshot["nodes"]}
        prepared: list[Prepared] = []
        for item in result.partitions:
            makers = _makers(graph, item.partition)
            members = sorted((*makers, *item.partition.delegated))
            recompile = _recompile_function(
                [nodes_by_index[index] for index in members],
                snapshot.get("reduced_precision"),
                item.partition,
                self.options,
                shown,
            )
            program = item.program if item.has_own_shapes else b""
            prepared.append((item.partition.delegated, program, recompile, makers))
        return prepared

    def _compile_for_board(
        self, graph: Graph, preview: Preview, missing: Missing
    ) -> tuple[CachedResult, dict[str, str]]:
        """Compiles again while programs use what the board turns out not to have, of which it gives
        the names and reasons. Returns what it has shown by then.
        """
        from delegate.chip.chip import PROVED
        from delegate.host.chosen import proved_forms

        shown = proved_forms(self.options)
        while True:
            result = self._compile(graph, preview, shown)
            found = {
                name: reason
                for item in result.partitions
                for name, reason in missing(item.program)
                if shown.get(name, PROVED).startswith(PROVED)
            }
            if not found:
                return result, shown
            shown = {**shown, **found}

    def _compile(self, graph: Graph, preview: Preview, shown: Mapping[str, str]) -> CachedResult:
        from delegate.compile.cache import compile_cached, running_part
        from delegate.model.graph import find_disorder

        def compile_graph() -> CompileResult:
            return compile_context(graph, self.options, preview, shown)

        if self.options.cache_folder() is None:
            return running_part(graph, compile_graph())
        import json

        # Whatever the runtime would make of all nodes stands for how it partitions; of a graph out
        # of order it may not be asked.
        is_ordered = find_disorder(graph) is None
        everything = preview([n.index for n in graph.nodes]) if is_ordered else []
        # Of reasons the first word alone: the rest may tell of that very run.
        words = sorted((name, state.split()[0]) for name, state in shown.items())
        context = f"{json.dumps(everything)} on a board that has shown {words}"
        # What all nodes give together is what the model does, which a context does not say.
        outputs = tuple(sorted({t for _, _, given in everything for t in given}))
        named = replace(graph, outputs=outputs)
        return compile_cached(named, self.options, compile_graph, context)

    def announce_compiled(self, compiled: int, total: int) -> None:
        """Announces a graph of ``total`` nodes of which ``compiled`` hold programs that were
        compiled ahead of time. Raises UnsupportedError under ``strict`` if there are others.
        """
        announce(
            Delegation(
                device=self.device_name,
                delegated_nodes=compiled,
                total_nodes=total,
                partitions=compiled,
                was_compiled=True,
            ),
            self.options,
        )


def compile_context(
    graph: Graph, options: Options, preview: Preview, shown: Mapping[str, str]
) -> CompileResult:
    """``delegate.compile.compiler``'s, loaded when there is something to compile, for a board that
    has ``shown`` something of forms.
    """
    from delegate.compile import compiler
    from delegate.host.chosen import chosen_chip

    chip = chosen_chip(options).on_board(shown)
    return compiler.compile_context(graph, options, preview, chip)


def _graph(snapshot: Snapshot) -> Graph:
    """Return the graph that the runtime of this process, if it is known, makes of ``snapshot``."""
    from delegate.host.kernels import for_runtime
    from delegate.host.runtimes import loaded_runtime
    from delegate.model.context_reader import graph_from_snapshot

    graph = graph_from_snapshot(snapshot)
    # LiteRT's CompiledModel is a runtime without a module of its own.
    return graph if graph.rounds_once else for_runtime(graph, loaded_runtime())


def _makers(graph: Graph, partition: Partition) -> tuple[int, ...]:
    """Nodes beside the partition that compute what it reads, directly or through one another, from
    constants alone, and whose results are not its inputs.
    """
    from delegate.model.graph import constant_makers

    read = {t for index in partition.delegated for t in graph.node(index).inputs}
    read.difference_update(partition.inputs)
    members = set(partition.delegated)
    found = []
    for node in reversed(constant_makers(graph)):
        if node.index not in members and not read.isdisjoint(node.outputs):
            read.update(node.inputs)
            found.append(node.index)
    return tuple(reversed(found))


def _warn_of_other_delegates(snapshot: Snapshot) -> None:
    """Runtimes that apply XNNPACK in the interpreter's constructor leave us nothing to claim."""
    taken = sum(node["builtin_code"] == DELEGATE for node in snapshot["nodes"])
    if taken:
        logger.warning(
            "another delegate, perhaps XNNPACK, has taken nodes before this one could (%d "
            "partitions); use experimental_op_resolver_type=BUILTIN_WITHOUT_DEFAULT_DELEGATES",
            taken,
        )


def _recompile_function(
    nodes: list[dict[str, Any]],
    reduced_precision: bytes | None,
    partition: Partition,
    options: Options,
    shown: Mapping[str, str],
) -> Recompile:
    """Compiles the same nodes for the shapes that the partition's inputs have now, all or nothing.

    Hands over the program; where there is none, the nodes are left to the CPU (under ``strict``
    DelegateError is raised). Returns the shapes of the partition's tensors, as far as they follow.
    """
    indices = list(partition.delegated)

    makers = {node["index"] for node in nodes}.difference(indices)

    def preview(wanted: Sequence[int]) -> list[PreviewedPartition]:
        if sorted(set(wanted) - makers) != indices:
            return []
        return [(indices, list(partition.inputs), list(partition.outputs))]

    def compiled(graph: Graph, shapes: Mapping[int, tuple[int, ...]]) -> bytes:
        from delegate.partition.shapes import first_unknown, with_shapes

        unknown = first_unknown(graph, partition, shapes)
        if unknown is not None:
            given = [list(graph.tensor(t).shape) for t in partition.inputs]
            raise DelegateError(
                f"node {unknown.index} ({unknown.op}): no shape of its result follows from inputs "
                f"of shapes {given}"
            )
        # Whether these nodes are worth it was asked when the model was loaded.
        chosen = replace(options, deny_ops=tuple(n for n in options.deny_ops if n != SLOW))
        result = compile_context(with_shapes(graph, shapes), chosen, preview, shown)
        if len(result.partitions) != 1:
            found = [r.detail for r in result.rejections if r.node in partition.nodes]
            raise DelegateError("; ".join(found[:1]))
        return result.partitions[0].program

    def recompile(tensors: list[dict[str, Any]], upload: Upload) -> dict[int, tuple[int, ...]]:
        from delegate.partition.shapes import following_shapes

        graph = _graph({"tensors": tensors, "nodes": nodes, "reduced_precision": reduced_precision})
        shapes = following_shapes(graph, partition)
        try:
            upload(compiled(graph, shapes))
        except Exception as error:  # of the compiler, or of the device
            text = f"nodes {indices} do not compile for the new shapes"
            reason = f" ({error})" if str(error) else ""
            if options.strict:
                raise DelegateError(
                    f"strict: {text}; load the model with these shapes from the start, or without "
                    f"the delegate{reason}"
                ) from error
            logger.warning("%s and run on the CPU%s", text, reason)
        return dict(shapes)

    return recompile
