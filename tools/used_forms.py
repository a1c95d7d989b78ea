"""Counts the forms of tasks in the programs of models, for docs/forms.md and a test.

    python tools/used_forms.py ../shared/models

Writes ``tools/used_forms.json``: for every model of the folder and of its ``float`` (in fp16), by
the name of each form how many tasks of the default programs for RK3588 have it, and the settings of
the forms that nobody has run as a whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from delegate.chip.chip import Form, Standing
from delegate.chip.chips import DEFAULT
from delegate.chip.known_forms import known_forms_of
from delegate.compile.compiler import compile_model
from delegate.npu.evidence import program_forms
from delegate.npu.program_reader import parse
from delegate.options import Options
from tools.script import ScriptParser, existing_folder, run_script

KNOWN = known_forms_of(DEFAULT.target)
"""The table of RK3588."""

TARGET = Path(__file__).with_suffix(".json")


def models_in(folder: Path) -> list[Path]:
    """Return the whole models, those of int8 first."""
    return [*sorted(folder.glob("*.tflite")), *sorted((folder / "float").glob("*.tflite"))]


def forms_of_model(path: Path) -> Iterator[Form]:
    """Yield the form of each task of the model's default programs."""
    given = {"device": "null", "float": "fp16"} if path.parent.name == "float" else {}
    for compiled in compile_model(
        path, Options.from_mapping({"deny_ops": "", **given}, {})
    ).partitions:
        yield from (task.form for task in program_forms(parse(compiled.program)))


def document(paths: list[Path]) -> dict[str, Any]:
    """Return the content of the file."""
    models: dict[str, dict[str, int]] = {}
    unknown: dict[str, dict[str, str]] = {}
    for path in paths:
        forms = list(forms_of_model(path))
        models[path.stem] = dict(sorted(Counter(form.name for form in forms).items()))
        for form in forms:
            if KNOWN.standing(form) is not Standing.WHOLE:
                unknown[form.name] = dict(sorted(form.settings.items()))
    return {"models": models, "unknown": dict(sorted(unknown.items()))}


def text(found: dict[str, Any]) -> str:
    """Return the file's text: a line per model and per form."""
    parts = []
    for name, rows in found.items():
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items()]
        parts.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(arguments: list[str] | None = None) -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("folder", type=existing_folder, metavar="FOLDER", help="../shared/models")
    TARGET.write_text(text(document(models_in(parser.parse_args(arguments).folder))))
    return 0


if __name__ == "__main__":
    run_script(main)
