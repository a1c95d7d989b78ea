"""``python -m delegate`` is the command line."""

from __future__ import annotations

import contextlib
import sys

from delegate.host import interruption


def _say() -> None:
    with contextlib.suppress(OSError, AttributeError):  # nobody may listen
        sys.stderr.write("rk3588-delegate: error: interrupted\n")
        sys.stderr.flush()


def run() -> int:
    """The command line from its first moment on: what it imports can be interrupted too."""
    try:
        try:
            interruption.install(_say)
            from delegate.cli import main

            code = main()
        finally:
            interruption.finish()
    except BaseException:
        if not interruption.is_interrupted():
            raise
        code = interruption.EXIT_INTERRUPTED
    if interruption.is_interrupted() and code == interruption.EXIT_INTERRUPTED:
        interruption.end(_say)
    return code


if __name__ == "__main__":
    sys.exit(run())
