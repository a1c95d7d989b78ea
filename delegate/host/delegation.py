"""What delegation did to a model: how many nodes, partitions, which device, and why nodes were left
out.

The plugin calls ``announce`` once per graph it prepared; a caller that wants the facts (the command
line, tests) wraps the creation of its interpreter in ``collect_delegations``. Without a collector
the same facts go to the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from delegate.errors import UnsupportedError
from delegate.log import get_logger
from delegate.options import Options
from delegate.partition.types import Rejection


@dataclass(frozen=True, slots=True)
class Delegation:
    """The outcome for one graph. ``device`` is the device's own name ("simulator", "null", ...)."""

    device: str
    delegated_nodes: int
    total_nodes: int
    partitions: int
    rejections: tuple[Rejection, ...] = ()


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
    """ "1 partition", "2 partitions"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def announce(delegation: Delegation, options: Options) -> None:
    """Logs (or hands to the collector) what was delegated.

    The simulator is never chosen silently: unless it was asked for by name, that is a warning.
    Raises UnsupportedError under ``strict`` if a node was left to the CPU.
    """
    log = get_logger()
    collected = _collector.get()
    if collected is not None:
        collected.append(delegation)
    elif delegation.device == "simulator" and options.device == "auto":
        log.warning("no NPU in use: programs run on the embedded simulator, which is slow")
    log.info(
        "%s: %d of %s delegated in %s",
        delegation.device,
        delegation.delegated_nodes,
        plural(delegation.total_nodes, "node"),
        plural(delegation.partitions, "partition"),
    )
    for rejection in delegation.rejections:
        log.debug("%s", describe(rejection))
    require_all(delegation.rejections, options)


def describe(rejection: Rejection) -> str:
    """One line: which node stays on the CPU, by which rule, and the rule's own words."""
    return (
        f"node {rejection.node} ({rejection.op}) stays on the CPU: "
        f"{rejection.rule}: {rejection.detail}"
    )


def require_all(rejections: tuple[Rejection, ...], options: Options) -> None:
    """Raises UnsupportedError under ``strict`` if anything was rejected."""
    if options.strict and rejections:
        more = f" (and {len(rejections) - 1} more)" if len(rejections) > 1 else ""
        raise UnsupportedError(f"strict: {describe(rejections[0])}{more}")
