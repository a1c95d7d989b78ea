"""The project's one exception tree.

Every error a user can cause or meet derives from :class:`DelegateError`; its text is one line that
says what happened, to which node or file, which rule was broken and what would help. The command
line prints that line and exits with ``exit_code``; a traceback is shown only with ``--debug``.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Final


class DelegateError(Exception):
    """Base of all errors raised on purpose by this package."""

    exit_code = 1


def is_memory_exhausted(error: BaseException) -> bool:
    """Return whether memory ran out: libraries that cannot be loaded for it say so in words
    alone.
    """
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, ImportError) and "failed to map segment" in str(error))
    )


class UsageError(DelegateError):
    """The user asked for something that makes no sense: bad option, missing file, wrong image."""

    exit_code = 2


class OptionError(UsageError):
    """An unknown option key or a value that the option does not take."""


class ModelError(UsageError):
    """A .tflite file that is missing, truncated, corrupt or outside what TensorFlow Lite
    defines.
    """


class CaptureError(UsageError):
    """A capture or dump (npu-capture-1) that is missing, malformed or hostile."""


class UnsupportedError(DelegateError):
    """A node cannot run on the NPU and the option ``strict`` forbids leaving it to the CPU."""

    exit_code = 4


class ProgramError(DelegateError):
    """A serialised Program that is corrupt, of another version, or inconsistent."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that must hold for a node on the NPU: ``name`` in reports, ``sentence`` on the
    page and in messages.
    """

    name: str
    sentence: str


DENIED: Final = "not_denied"
"""The rule that a node breaks which option ``deny_ops`` names."""
SLOWER: Final = "partition_faster_on_npu"
"""The rule that a node breaks which the CPU runs as fast, by estimate."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason for leaving a node to the CPU. ``rule`` is the rule's name, ``detail`` the
    sentence for the user.
    """

    node: int
    op: str
    rule: str
    detail: str


class LoweringError(DelegateError):
    """A node that passed the constraints but cannot be lowered within a hardware limit.

    ``node`` is the TFLite node index, ``rule`` the name of the rule it breaks, ``detail`` the
    rule's sentence and what breaks it. The compiler turns it into a ``Rejection`` and partitions
    again without the node.
    """

    def __init__(self, node: int, rule: Rule, problem: str) -> None:
        self.node = node
        self.rule = rule.name
        self.detail = f"{rule.sentence}: {problem}"
        super().__init__(f"node {node}: {self.rule}: {self.detail}")


class MissingFormError(DelegateError):
    """Tasks of ``nodes`` have a form, or rely on tasks before them in a way, that the board must
    not be given.
    """

    def __init__(self, nodes: tuple[int, ...], name: str, reason: str) -> None:
        self.nodes = nodes
        super().__init__(f"{name} {reason}")


class EncodingError(DelegateError):
    """A register field that does not hold its value; names layer, tile, BLOCK.REGISTER.FIELD,
    value, limit.

    ``nodes`` are the TFLite nodes of the layer, as far as they are known.
    """

    def __init__(self, message: str, nodes: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.nodes = nodes


class UnknownFormError(EncodingError):
    """A task with a form, or with settings, that no known program has; the text says which."""


class DeviceError(DelegateError):
    """A device that cannot be opened, timed out, vanished or refused a submit."""

    exit_code = 3


class SimulatorFault(DeviceError):  # noqa: N818  the hardware manuals' word for it
    """The simulated NPU met a program that hardware would hang on, corrupt memory with, or misread.

    ``unit`` (CNA, CORE, DPU, ...), ``register`` ("CNA.CBUF_CON0" or ""), ``task`` (index in the
    job) and ``layer`` say where; ``kind`` names the class of fault.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        kind: str = "",
        unit: str = "",
        register: str = "",
        task: int = -1,
        layer: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.unit = unit
        self.register = register
        self.task = task
        self.layer = layer


class UnsupportedByDevice(SimulatorFault):
    """A register feature that this simulator does not model; the message names it."""
