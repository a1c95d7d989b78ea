"""The keepers of this machine (``native/rocket/keeper.h``)."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

NAME = b"rk3588-keeper\0"


def keepers() -> set[int]:
    """Process numbers of those that run."""
    found = set()
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if place.read_bytes() == NAME:
                found.add(int(place.parent.name))
    return found


def descriptors(keeper: int) -> dict[int, str]:
    """Number and name of what it has open."""
    places = Path(f"/proc/{keeper}/fd").iterdir()
    return {int(place.name): os.readlink(place) for place in places}


def wait_for_end(keeper: set[int], timeout_s: float) -> None:
    """Raises AssertionError if one of them still runs then."""
    end = time.monotonic() + timeout_s
    while keepers() & keeper:
        assert time.monotonic() < end, f"the keeper runs on after {timeout_s} s"
        time.sleep(0.02)
