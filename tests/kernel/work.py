"""Runs a worker: ``python -m tests.kernel.work NAME ARGUMENTS`` calls ``work`` of the module
``tests.kernel.worker_NAME`` with the arguments, JSON by name, and prints what it returns on the
last line of its output; with what the stand-in objected to, unless it is a list.
"""

from __future__ import annotations

import importlib
import json
import sys

from tests.kernel.standin_calls import take_violations


def main() -> None:
    _, name, given = sys.argv
    found = importlib.import_module(f"tests.kernel.worker_{name}").work(**json.loads(given))
    if isinstance(found, dict):
        found = {**found, "violations": take_violations()}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
