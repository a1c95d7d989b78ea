"""``python -m delegate`` is the command line."""

from __future__ import annotations

import sys

from delegate.cli import main

if __name__ == "__main__":
    sys.exit(main())
