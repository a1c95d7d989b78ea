"""Reports what delegation did to a model: how many nodes, partitions, which device, and why nodes
were left out.

The plugin calls ``announce`` once per graph it prepared; a caller that wants the facts (the command
line, tests) wraps the creation of its interpreter in ``collect_delegations``. Without a collector
the same facts go to the log.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from delegate.errors import DENIED, SLOWER, Rejection, UnsupportedError
from delegate.log import get_logger
from delegate.options import ORIGIN_DEFAULT, Options


@dataclass(frozen=True, slots=True)
class Delegation:
    """The outcome for one graph. ``device`` is the device's own name ("simulator", "null", ...).
    ``bounds``: of partitions in fp16, as texts. ``was_compiled``: ahead of time, so that nobody
    knows here why nodes were left out.
    """

    device: str
    delegated_nodes: int
    total_nodes: int
    partitions: int
    rejections: tuple[Rejection, ...] = ()
    bounds: tuple[str, ...] = ()
    was_compiled: bool = False


_collector: ContextVar[list[Delegation] | None] = ContextVar("delegations", default=None)


@contextmanager
def collect_delegations() -> Iterator[list[Delegation]]:
    """Collects every Delegation announced by this thread inside the block, in order."""
    found: list[Delegation] = []
    token = _collector.set(found)
    try:
        yield found
    finally:
        _collector.reset(token)


def plural(count: int, noun: str) -> str:
    """ "1 partition", "2 partitions", "2 classes"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def announce(delegation: Delegation, options: Options) -> None:
    """Logs (or hands to the collector) what was delegated.

    Neither the simulator nor fp16 is ever chosen silently: unless it was asked for, that is a
    warning, once per process (fp16: and bound).
    Raises UnsupportedError under ``strict`` if a node was left to the CPU.
    """
    log = get_logger()
    collected = _collector.get()
    if collected is not None:
        collected.append(delegation)
    elif delegation.device == "simulator" and options.device == "auto":
        _announce_simulator()
    if delegation.bounds and collected is None:
        is_asked_for = options.origins.get("float") != ORIGIN_DEFAULT
        for bound in dict.fromkeys(delegation.bounds):
            _announce_half(bound, is_asked_for)
    log.info(
        "%s: %d of %s delegated in %s",
        delegation.device,
        delegation.delegated_nodes,
        plural(delegation.total_nodes, "node"),
        plural(delegation.partitions, "partition"),
    )
    for rejection in delegation.rejections:
        log.debug("%s", describe(rejection))
    is_by_choice = any(rejection.rule == SLOWER for rejection in delegation.rejections)
    if is_by_choice and not delegation.delegated_nodes:
        log.warning(
            "nothing delegated: by estimate the CPU alone is as fast; option deny_ops=NONE "
            "delegates all the same"
        )
    require_delegation(delegation, options)


@functools.cache  # more than one interpreter of a process says nothing new
def _announce_simulator() -> None:
    from delegate._native import find_npu_nodes

    text = "no NPU in use: programs run on the embedded simulator"
    problems = [problem for *_, state, problem in find_npu_nodes() if state == "missing"]
    get_logger().warning("%s", "; ".join([text, *problems[:1]]))


@functools.cache
def _announce_half(bound: str, is_asked_for: bool) -> None:
    get_logger().log(
        logging.INFO if is_asked_for else logging.WARNING,
        "float32 tensors are fp16 on the NPU, every result %s; option float=off leaves them to the "
        "CPU",
        bound,
    )


def describe(rejection: Rejection) -> str:
    """One line: which node stays on the CPU, by which rule, and the rule's own words."""
    return (
        f"node {rejection.node} ({rejection.op}) stays on the CPU: "
        f"{rejection.rule}: {rejection.detail}"
    )


def require_delegation(delegation: Delegation, options: Options) -> None:
    """Raises UnsupportedError under ``strict`` if the CPU has nodes that it does not allow."""
    require_all(delegation.rejections, options)
    left = delegation.total_nodes - delegation.delegated_nodes
    if options.strict and delegation.was_compiled and left:
        raise UnsupportedError(
            f"strict: {plural(left, 'node')} of this model, compiled ahead of time, stay on the "
            "CPU; compile it under strict, which names them, and load it without"
        )


def require_all(rejections: tuple[Rejection, ...], options: Options) -> None:
    """Raise UnsupportedError under ``strict`` if more was rejected than ``deny_ops`` names."""
    if not options.strict:
        return
    refused = [rejection for rejection in rejections if rejection.rule != DENIED]
    if refused:
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise UnsupportedError(f"strict: {describe(refused[0])}{more}")
