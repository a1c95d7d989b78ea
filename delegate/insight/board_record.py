"""Read what a board has shown of programs and forms of tasks, as the devices keep it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delegate.errors import DeviceError

if TYPE_CHECKING:
    from delegate.options import Options

WITHOUT_NPU = ("simulator", "null")
"""Devices that are no board."""

_OFF = ("failed", "hung", "suspected", "wrong")
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class BoardRecord:
    """``path`` of the file, or "" where nothing is kept, and ``problem``: why it is not used.
    ``verified``: programs whose first inference was right too; ``tried``: those that were right on
    generated inputs alone. ``off``: names of forms, relations and programs, and what happened.
    """

    path: str
    problem: str
    verified: int
    tried: int
    off: Mapping[str, str]

    @property
    def summary(self) -> str:
        """Counts and names as a sentence."""
        named = [f"{name} {state}" for name, state in self.off.items()]
        more = len(named) - _MOST_NAMED
        parts = [
            f"{self.verified} programs compared with the simulator in use, {self.tried} on "
            "generated inputs alone",
            *named[:_MOST_NAMED],
            *([f"{more} more"] if more > 0 else []),
        ]
        return "; ".join(parts)


def is_board(options: Options) -> bool:
    """Whether the device of ``options`` is an NPU that can be opened."""
    from delegate._native import open_device_name

    try:
        return open_device_name(options.device) not in WITHOUT_NPU
    except DeviceError:
        return False


def board_record(options: Options, *, forgets: bool = False) -> BoardRecord | None:
    """The record of the board that ``options`` name; None where there is none. ``forgets`` it.

    Raises DeviceError.
    """
    from delegate._native import board_evidence

    if not is_board(options):
        return None
    given = (options.device, options.cache_dir, options.cores)
    path, problem, states = board_evidence(*given, forgets=forgets)
    return BoardRecord(
        path=path,
        problem=problem,
        verified=sum(state == "verified" for state in states.values()),
        tried=sum(state == "ran" for state in states.values()),
        off={name: state for name, state in states.items() if state.startswith(_OFF)},
    )


def why_not(program: bytes, options: Options) -> str | None:
    """Say what the board must not be given of a serialised Program, and why; None: it may run, or
    ``verify`` is off, or there is no board. A board that does not know the program runs it.

    Raises DeviceError.
    """
    from delegate._native import missing_forms

    if options.verify == "off" or not is_board(options):
        return None
    given = (options.device, options.cache_dir, options.timeout_ms, options.cores)
    found = missing_forms(program, *given)
    return "; ".join(f"{name} {reason}" for name, reason in found) or None
