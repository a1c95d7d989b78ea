"""The command line: ``rk3588-delegate`` and ``python -m delegate``.

Takes arguments, gives tables or JSON on stdout, one line on stderr for every error, and an exit
code: 0 ok, 1 mismatch or failure, 2 usage, 3 no device, 4 unsupported under strict.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from delegate.cli.command import PROGRAM, Command, describe_os_error, print_error
from delegate.errors import DelegateError
from delegate.host.interruption import EXIT_INTERRUPTED, is_interrupted
from delegate.host.library import describe_missing
from delegate.version import __version__

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE

COMMANDS = (
    "classify",
    "detect",
    "compile",
    "compare",
    "evaluate",
    "quantize",
    "accuracy",
    "bench",
    "trace",
    "replay",
    "explain",
    "bring-up",
    "conformance",
    "doctor",
    "top",
    "disasm",
    "models",
    "completion",
    "supported-ops",
    "library-path",
)
"""Their names, in the order of ``--help``; each is the ``COMMAND`` of the module of its name."""


def load_command(name: str) -> Command:
    """One of ``COMMANDS``; imports what it needs, no other's."""
    found: Command = importlib.import_module(f"delegate.cli.{name.replace('-', '_')}").COMMAND
    return found


class _Parser(argparse.ArgumentParser):
    """argparse, but an error is one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{PROGRAM}: error: {message} (see {self.prog} --help)\n")


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The command line, or that of some commands, as an argparse parser."""
    parser = _Parser(
        prog=PROGRAM,
        description="TensorFlow Lite delegate for the Rockchip RK3588 NPU.",
        epilog="Every delegate option is also an environment variable RK3588_DELEGATE_<KEY>.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_Parser
    )
    for command in map(load_command, names):
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.summary,
            epilog=command.examples_text(PROGRAM),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.declare(sub)
        sub.add_argument("--debug", action="store_true", help="show tracebacks of errors")
        sub.set_defaults(run=command.run, parser=sub)
    return parser


def _fail(text: str, code: int) -> int:
    print_error(text)
    return code


def _abandon_stdout() -> None:
    """Writes what stdout still takes; if it takes nothing, spares Python's exit a second error."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; raises only with ``--debug`` or from argparse."""
    words = sys.argv[1:] if argv is None else argv
    try:
        return _run(words)
    except BrokenPipeError:
        _abandon_stdout()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        if is_interrupted():
            return EXIT_INTERRUPTED  # with the line that goes with it
        return _fail("interrupted", EXIT_INTERRUPTED)
    except Exception as error:
        if is_interrupted():
            return EXIT_INTERRUPTED
        if "--debug" in words:
            traceback.print_exc()
        return _fail_by(error)


def _run(words: Sequence[str]) -> int:
    if len(words) == 0:
        build_parser().print_help()
        return EXIT_USAGE
    asked = words[:1] if words[0] in COMMANDS else () if words[0] == "--version" else COMMANDS
    parser = build_parser(asked)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    code: int = arguments.run(arguments)
    if sys.stdout is not None:  # a parent may have closed it
        sys.stdout.flush()
    return code


def _fail_by(error: Exception) -> int:
    """Prints the line for an error that ended a command, and returns the exit code."""
    if isinstance(error, DelegateError):
        return _fail(str(error), error.exit_code)
    if isinstance(error, ModuleNotFoundError) and (remedy := describe_missing(error)):
        return _fail(remedy, EXIT_FAILURE)
    if isinstance(error, OSError):
        _abandon_stdout()  # it may be what failed
        return _fail(describe_os_error(error), EXIT_FAILURE)
    if isinstance(error, MemoryError):
        return _fail("out of memory", EXIT_FAILURE)
    return _fail(
        f"internal error: {type(error).__name__}: {error}; please report it with the output "
        "of --debug",
        EXIT_FAILURE,
    )
