"""The cases of ``make board`` on the stand-in kernel, as the guest runs them on the real one.

``python -m tests.board.guest_on_standin``, on a board of ``tests.kernel.board``. What the file
``faults`` says of the emulated cores becomes the stand-in's faults.
"""

from __future__ import annotations

import os

from tests.kernel.standin_calls import set_faults
from tools.board import faults, guest

_LOST = ("silent", "ppu", "page", "reset")


def set_fault(text: str) -> None:
    """``tools/board/native/faults.h``'s words; those that only cost time or memory do nothing."""
    words = text.split()
    kind = words[0] if words else ""
    os.environ.pop("RK3588_SIM_BREAK", None)
    if kind == "deviate":
        os.environ["RK3588_SIM_BREAK"] = words[2]
    elif kind == "hang":
        set_faults(f"SUBMIT@1=hang:{int(words[1]) - 1}")
    else:
        set_faults("SUBMIT@1=lost" if kind in _LOST else "")


def main() -> None:
    faults.set_fault = set_fault
    guest.main()


if __name__ == "__main__":
    main()
