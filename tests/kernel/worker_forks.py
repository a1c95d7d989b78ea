"""Runs of worker_evidence, each in a child of its own that finds everything imported: a line of
JSON per run with its ``environment`` and ``arguments``, answered with a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys

from delegate.compile import compiler, plugin  # noqa: F401 - for the children
from tests.kernel import worker_evidence


def main() -> None:
    for line in sys.stdin:
        given = json.loads(line)
        child = os.fork()
        if child == 0:
            os.environ.update(given["environment"])
            sys.argv[1:] = [json.dumps(given["arguments"])]
            worker_evidence.main()
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            print(json.dumps({"crashed": status}), flush=True)


if __name__ == "__main__":
    main()
