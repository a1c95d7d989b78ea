"""The keepers of this machine (``native/rocket/keeper.h``)."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

NAME = b"rk3588-keeper\0"


def keepers(device: str = "") -> set[int]:
    """Return the process numbers of those that run; with ``device``, of those that have a file open
    whose name begins so.
    """
    found = set()
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if place.read_bytes() == NAME:
                keeper = int(place.parent.name)
                if not device or any(n.startswith(device) for n in descriptors(keeper).values()):
                    found.add(keeper)
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
