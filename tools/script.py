"""Give benchmarks and tools what commands have: a helpful ``--help``, and one line for every error
that a user can cause.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from delegate.cli.command import describe_os_error
from delegate.errors import DelegateError

_EXIT_FAILURE = 1
_EXIT_USAGE = 2
_EXIT_INTERRUPTED = 130


def _program() -> str:
    """Return what was run, as a user would type it: ``python -m benchmarks.chips``,
    ``tools/alone.py``.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None:
        return sys.argv[0]
    return f"python -m {spec.name.removesuffix('.__main__')}"


class ScriptParser(argparse.ArgumentParser):
    """argparse for a module run by itself, which ``text``, its docstring, describes; an error is
    one line.
    """

    def __init__(self, text: str | None) -> None:
        super().__init__(
            prog=_program(),
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        self.exit(_EXIT_USAGE, f"{self.prog}: error: {message} (see --help)\n")


def existing_file(text: str) -> Path:
    """Return the path of a file that is there, for argparse."""
    path = Path(text)
    if path.is_file():
        return path
    problem = "is a folder" if path.is_dir() else "no such file"
    raise argparse.ArgumentTypeError(f"{text}: {problem}")


def existing_folder(text: str) -> Path:
    """Return the path of a folder that is there, for argparse."""
    path = Path(text)
    if path.is_dir():
        return path
    problem = "is no folder" if path.exists() else "no such folder"
    raise argparse.ArgumentTypeError(f"{text}: {problem}")


def run_script(main: Callable[[], int]) -> NoReturn:
    """Ends the process with what ``main`` returns; what a user can cause is one line on stderr."""
    try:
        code = main()
        sys.stdout.flush()
        sys.exit(code)
    except KeyboardInterrupt:
        _fail("interrupted", _EXIT_INTERRUPTED)
    except DelegateError as error:
        _fail(str(error), error.exit_code)
    except OSError as error:
        _fail(describe_os_error(error), _EXIT_FAILURE)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip().splitlines()
        _fail(f"a process of it failed: {said[-1] if said else error}", _EXIT_FAILURE)


def _fail(text: str, code: int) -> NoReturn:
    print(f"{_program()}: error: {' '.join(text.split())}", file=sys.stderr)
    sys.exit(code)
