"""Answer LiteRT's compiler plugin: choose operators of a model, compile the partitions.

Called by ``native/litert/compiler_entries.cpp`` with the GIL held: once per compiled model
(:class:`Plugin`), once per subgraph (``partition``), and once for all partitions (``compile``).
The runtime cuts the chosen operators out in between, into subgraphs with operators and tensors of
their own, so ``compile`` finds what ``partition`` compiled by what it is.

The runtime makes a partition of operators that follow one another in the model's order; the
compiler is told so (``_previewed``), as it asks an interpreter.
"""

from __future__ import annotations

import _thread
import ctypes
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from delegate.compile.aot.dispatch_form import with_ports
from delegate.compile.plugin import PreviewedPartition, Session
from delegate.errors import DelegateError
from delegate.log import get_logger
from delegate.model.litert_graph import CompilerContext, LiteRtSubgraph, read_subgraph
from delegate.options import Options
from delegate.version import __version__

logger = get_logger()

_Key = str
_AddProgram = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)


class Plugin:
    """The compiler of one compiled model. ``context``: address of the runtime's functions.
    ``options``: lines of key=value. Raises OptionError, DeviceError, DelegateError.
    """

    def __init__(self, context: int, options: str) -> None:
        from delegate._native import open_device_name

        self._context = CompilerContext(context)
        given = dict(line.partition("=")[::2] for line in options.splitlines())
        self._session = Session(given)
        self._programs: dict[_Key, bytes] = {}
        chosen = self._session.options
        self._session.device_name = open_device_name(chosen.device, chosen.strict)

    @property
    def version(self) -> str:
        """The version that LiteRT's cache of compiled models goes by: with another it compiles
        anew.
        """
        from delegate.host.chosen import chosen_chip

        options = self._session.options
        chip = chosen_chip(options).name
        digest = hashlib.sha256(repr((options.compiling(), chip)).encode()).hexdigest()
        return f"rk3588-delegate {__version__} {digest[:16]}"

    @property
    def announced(self) -> str:
        """The device that nobody asked for and the log has named; "": none."""
        device = self._session.device_name
        is_chosen = self._session.options.device != "auto"
        return "" if is_chosen or device != "simulator" else device

    def partition(self, chip: int, subgraph: int, selected: int) -> None:
        """Choose the operators of a subgraph. ``chip``: the address of a name, or 0. Raises
        DelegateError.
        """
        with _told():
            self._adopt_chip(chip)
            graph = read_subgraph(self._context, subgraph)
            for number, (nodes, program) in enumerate(self._compiled(graph, _previewed(graph))):
                self._programs[_key(graph, nodes, *_edges(graph, nodes))] = program
                for node in nodes:
                    self._context.push_op(selected, graph.ops[node], number)

    def compile(self, chip: int, model: int, result: int, add: int) -> None:
        """Give the program of every subgraph of ``model``, each of them a partition, to the
        function at ``add``. Raises DelegateError.
        """
        with _told():
            self._adopt_chip(chip)
            take = _AddProgram(add)
            for address in self._context.subgraphs(model):
                graph = read_subgraph(self._context, address)
                nodes = list(range(len(graph.ops)))
                program = self._programs.get(_key(graph, nodes, graph.inputs, graph.outputs))
                if program is None:
                    program = self._whole(graph)
                take(result, program, len(program))

    def _adopt_chip(self, address: int) -> None:
        """Compile for the chip that the host names, if it does."""
        if not address:
            return
        name = ctypes.string_at(address).decode("utf-8", errors="replace")
        if name:
            chosen = Options.from_mapping({"chip": name}).chip
            self._session.options = replace(self._session.options, chip=chosen)

    def _compiled(
        self, graph: LiteRtSubgraph, preview: Callable[[list[int]], list[PreviewedPartition]]
    ) -> list[tuple[list[int], bytes]]:
        """Return the nodes of every partition and its program, numbered by ports."""
        prepared = self._session.prepare(graph.snapshot, preview, self._missing)
        found = []
        for nodes, program, *_ in prepared:
            if program:
                members = sorted(nodes)
                found.append((members, with_ports(bytes(program), *_edges(graph, members))))
        return found

    def _whole(self, graph: LiteRtSubgraph) -> bytes:
        """Return the program of a subgraph that LiteRT cut out otherwise than it was asked to."""
        everything = list(range(len(graph.ops)))

        def preview(nodes: list[int]) -> list[PreviewedPartition]:
            if sorted(nodes) != everything:
                return []
            inputs = [t for t in graph.inputs if t not in graph.constants]
            return [(everything, inputs, list(graph.outputs))]

        for nodes, program in self._compiled(graph, preview):
            if nodes == everything:
                return program
        raise DelegateError("LiteRT made a partition that does not compile as a whole")

    def _missing(self, program: Any) -> Sequence[tuple[str, str]]:
        """Return what a program uses and this board must not be given, with reasons."""
        from delegate._native import missing_forms

        options = self._session.options
        if options.verify == "off" or self._session.device_name in ("simulator", "null"):
            return ()
        return missing_forms(
            bytes(program), options.device, options.cache_dir, options.timeout_ms, options.cores
        )


@contextmanager
def _told() -> Iterator[None]:
    """Turn whatever is raised into a DelegateError: its text is all that LiteRT's log gets."""
    try:
        yield
    except DelegateError:
        raise
    except KeyboardInterrupt:
        _thread.interrupt_main()  # raised again once LiteRT has returned to Python
        raise DelegateError("interrupted") from None
    except Exception as error:
        logger.debug("the compiler failed", exc_info=error)
        raise DelegateError(f"internal error: {type(error).__name__}: {error}") from error


def _edges(graph: LiteRtSubgraph, nodes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the inputs and outputs of the operator that LiteRT puts in the place of ``nodes``: the
    inputs of the graph first, then as the nodes read them, constants left out; outputs as they are
    written, if anybody else reads them.
    """
    members = set(nodes)
    inside: list[Mapping[str, Any]] = []
    outside: list[Mapping[str, Any]] = []
    for node in graph.snapshot["nodes"]:
        (inside if node["index"] in members else outside).append(node)
    written = [tensor for node in inside for tensor in node["outputs"]]
    read = [tensor for node in inside for tensor in node["inputs"]]
    given = [tensor for tensor in graph.inputs if tensor in read]
    inputs = [
        tensor
        for tensor in dict.fromkeys((*given, *read))
        if tensor not in written and tensor not in graph.constants
    ]
    wanted = {tensor for node in outside for tensor in node["inputs"]}.union(graph.outputs)
    return inputs, [tensor for tensor in dict.fromkeys(written) if tensor in wanted]


def _previewed(graph: LiteRtSubgraph) -> Callable[[list[int]], list[PreviewedPartition]]:
    """Return the function that says how LiteRT would partition ``nodes`` of a graph."""

    def preview(nodes: list[int]) -> list[PreviewedPartition]:
        runs: list[list[int]] = []
        for node in sorted(nodes):
            if runs and runs[-1][-1] == node - 1:
                runs[-1].append(node)
            else:
                runs.append([node])
        return [(run, *_edges(graph, run)) for run in runs]

    return preview


def _key(
    graph: LiteRtSubgraph, nodes: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
) -> _Key:
    """Return what tells a partition from every other, whichever subgraph it is in."""
    numbers: dict[int, int] = {}
    digest = hashlib.sha256()
    tensors: Sequence[Mapping[str, Any]] = graph.snapshot["tensors"]

    def number(tensor: int) -> int:
        if tensor not in numbers:
            numbers[tensor] = len(numbers)
            found = {key: value for key, value in tensors[tensor].items() if key != "index"}
            data = found.pop("data")
            # The runtime tells nobody where a dynamic dimension comes from: the shape is what
            # counts. What lies in a variable is no constant.
            digest.update(repr(sorted(found.items(), key=lambda item: item[0])).encode())
            digest.update(b"" if data is None else data)
        return numbers[tensor]

    for index in nodes:
        node = graph.snapshot["nodes"][index]
        places = [[number(t) for t in node[side]] for side in ("inputs", "outputs")]
        kind = node["builtin_code"], node["custom_name"], node["options"]
        digest.update(repr((kind, places)).encode())
    digest.update(repr([[number(t) for t in side] for side in (inputs, outputs)]).encode())
    return digest.hexdigest()
