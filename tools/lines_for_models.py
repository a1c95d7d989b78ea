"""Counts how much of a checkout the compilation of some models takes: lines of the files that are
imported, and of the functions that run.

    python tools/lines_for_models.py CHECKOUT OPERATORS MODEL...

``OPERATORS`` stay on the CPU (option deny_ops), so that checkouts that delegate more are compared
by the same nodes. Run it with the interpreter of an environment that has the dependencies.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from pathlib import Path
from types import FrameType
from typing import Any

_COMPILERS = ("delegate.compile.compiler", "delegate.compiler")


def main() -> int:
    """Prints one line."""
    # Nothing of this checkout is imported: the other one has modules of the same names.
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT")
    parser.add_argument("denied", metavar="OPERATORS", help="as ADD,MUL; none: an empty text")
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    chosen = parser.parse_args()
    root: Path = chosen.checkout.resolve()
    for path in (root / "delegate" / "options.py", *chosen.models):
        if not path.is_file():
            parser.error(f"{path}: no such file")
    sys.path.insert(0, str(root))
    ran: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            ran.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    sys.setprofile(note)
    is_new = (root / "delegate" / "compile").is_dir()
    compiler = importlib.import_module(_COMPILERS[not is_new])
    options = importlib.import_module("delegate.options").Options
    for model in chosen.models:
        compiler.compile_model(model, options.from_mapping({"deny_ops": chosen.denied}, {}))
    sys.setprofile(None)
    files = {str(getattr(module, "__file__", "")) for module in list(sys.modules.values())}
    texts = {
        name: Path(name).read_text(encoding="utf-8")
        for name in files
        if name.startswith(str(root / "delegate")) and name.endswith(".py")
    }
    imported = sum(len(text.splitlines()) for text in texts.values())
    run = sum(len(_lines_run(name, text, ran)) for name, text in texts.items())
    print(f"{len(texts)} files of {imported} lines, {run} of them in functions that ran")
    return 0


def _lines_run(name: str, text: str, ran: set[tuple[str, int]]) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            if (name, first) in ran:
                lines.update(range(first, (node.end_lineno or first) + 1))
    return lines


if __name__ == "__main__":
    sys.exit(main())
