"""Rewrite all files that follow from modules, below a folder: by default here, the source tree.

    python -m tools.generate [FOLDER]

A test fails while one is stale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from delegate.chip.chips import every_chip
from tools.generate import api, chips, commands, operators, options, registers, stored_options
from tools.script import ScriptParser, existing_folder, run_script

FILES: Mapping[str, Callable[[], str]] = {
    "docs/api.md": api.page,
    "docs/commands.md": commands.page,
    "docs/options.md": options.page,
    "docs/supported_operators.md": operators.page,
    "delegate/model/stored_options.py": stored_options.module,
    "native/chip/chip_gen.h": chips.header,
    "native/loader/options_gen.h": options.header,
    **{registers.header_path(chip): partial(registers.header, chip) for chip in every_chip()},
    **{registers.page_path(chip): partial(registers.page, chip) for chip in every_chip()},
}
"""Path, and what gives the text."""


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("folder", nargs="?", type=existing_folder, metavar="FOLDER")
    folder = parser.parse_args().folder
    if folder is None and not Path("pyproject.toml").is_file():
        parser.error("the current folder is no source tree: it has no pyproject.toml")
    for path, text in FILES.items():
        place = (folder or Path()) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    run_script(main)
