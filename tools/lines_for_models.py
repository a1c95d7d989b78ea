"""How much of a checkout compiling some models takes: lines of the files that are imported, and of
the functions that run.

    python tools/lines_for_models.py CHECKOUT OPERATORS MODEL...

``OPERATORS`` stay on the CPU (option deny_ops), so that checkouts that delegate more are compared
by the same nodes. Run it with the interpreter of an environment that has the dependencies.
"""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from types import FrameType
from typing import Any

_COMPILERS = ("delegate.compile.compiler", "delegate.compiler")


def main(checkout: str, denied: str, *models: str) -> None:
    """Prints one line. Raises ImportError where the checkout has no compiler."""
    root = Path(checkout).resolve()
    sys.path.insert(0, str(root))
    ran: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            ran.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    sys.setprofile(note)
    is_new = (root / "delegate" / "compile").is_dir()
    compiler = importlib.import_module(_COMPILERS[not is_new])
    options = importlib.import_module("delegate.options").Options
    for model in models:
        compiler.compile_model(Path(model), options.from_mapping({"deny_ops": denied}, {}))
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


def _lines_run(name: str, text: str, ran: set[tuple[str, int]]) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            if (name, first) in ran:
                lines.update(range(first, (node.end_lineno or first) + 1))
    return lines


if __name__ == "__main__":
    main(*sys.argv[1:])
