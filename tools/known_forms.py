"""Makes the table of RK3588's known forms from the recorded and the measured ones.

    python tools/known_forms.py ../shared/forms

Writes ``delegate/chip/rk3588/known_forms.json``: forms of tasks that Mesa's driver or the vendor's
compiler make, with how many were recorded, and settings that others ran, with their verdicts. What
is a number in them is left out, equal entries are one, and so are those that differ in numbers
alone. ``whole``: every setting is given, and those that are not named are 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.script import ScriptParser, existing_folder, run_script

TARGET = Path("delegate/chip/rk3588/known_forms.json")

CONFIRMED = (
    ("fly_fp", "BN clamps below and above, fp16", {"BN_CFG": "0x92"}),
    ("fly_fp", "BN multiplies values below 0 by a register, fp16", {"BN_CFG": "0x62"}),
    ("fly_fp", "BS adds, multiplies and clamps, fp16", {"BS_CFG": "0x20080"}),
)
"""Settings that the table of features in ``reference/silicon.md`` (section 1: bs_clamp,
bn_upper_limit, fp16_slopes) says passed on a board by the same registers, in words."""
CONFIRMING = "allbilly/rk3588:examples/expt (reference/silicon.md, section 1)"

_PRECISION = 0xF
NUMBERS = frozenset(
    {
        *("PAD_TL", "OUT_OFF", "OUT_SHIFT>0", "ONEC", "H<4in", "stride", "BS_OW_OP", "BS_NEG"),
        *("BN_NEG", "EW_NEG", "CVT_CON5", "pad_value", "BN_ALU_OP", "LUT_load", "EW_CVT_OFF"),
        *("BS_posneg_eq", "BS_MUL.sign", "BN_MUL.shift", "EW_CVT_SHIFT", "EW_CVT_SCALE"),
        *("KH<=7", "S_POINTER", "narrow", "BS_MUL.shift"),
    }
)
"""Settings of the sources that say which numbers a task has."""


ZEROS = ("0x0", "0", "1x1")
"""The values of settings that switch nothing on."""

WHOLE = {
    "ppu": {"PPU_MODE", "PPU_NOTCH", "PPU_K", "PPU_FMT", "PPU_MISC", "PRDMA_FMT"},
    "fly": {"FEATURE_MODE", "BS_CFG", "BN_CFG", "EW_CFG", "RDMA_MODE", "BS_OW"},
    "conv": {"CONV_CON1", "CORE_MISC", "FEATURE_MODE", "BS_CFG", "BN_CFG", "EW_CFG", "BS_OW"},
}
"""The fields that a complete entry of each kind names."""


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield every entry of both sources, without its numbers."""
    for entry in json.loads((folder / "recorded.json").read_text())["forms"]:
        yield {
            "kind": entry["kind"],
            "source": entry["source"],
            "verdict": "recorded",
            "tasks": entry["count"],
            **_settings(entry),
        }
    for entry in json.loads((folder / "measured.json").read_text())["entries"]:
        is_good = entry["verdict"].startswith(("exact", "within"))
        yield {
            "kind": entry["kind"],
            "source": entry["source"],
            "verdict": entry["verdict"].split(";")[0],
            "cause": "" if is_good else entry.get("cause", ""),
            "what": entry["what"],
            **_settings(entry),
        }
    for kind, what, settings in CONFIRMED:
        row = {"kind": kind, "source": CONFIRMING, "verdict": "exact", "cause": "", "what": what}
        yield {**row, "whole": False, "settings": settings}


def _settings(entry: dict[str, Any]) -> dict[str, Any]:
    found = {name: str(value) for name, value in entry["settings"].items() if name not in NUMBERS}
    if "PPU_FMT" in found:  # without the bytes between surfaces, a number
        found["PPU_FMT"] = hex(int(found["PPU_FMT"], 16) & _PRECISION)
    kind = entry["kind"].removesuffix("_fp")
    is_whole = WHOLE.get(kind, WHOLE["conv"]) <= found.keys()
    if is_whole:
        found = {name: value for name, value in found.items() if value not in ZEROS}
    return {"whole": is_whole, "settings": dict(sorted(found.items()))}


def merged(found: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """``found``, tasks of equal recorded entries added up."""
    every: dict[str, dict[str, Any]] = {}
    for row in found:
        key = json.dumps({k: v for k, v in row.items() if k != "tasks"}, sort_keys=True)
        if key in every and "tasks" in row:
            every[key]["tasks"] += row["tasks"]
        every.setdefault(key, row)
    return list(every.values())


def text(folder: Path) -> str:
    """Return the table's content: a line per entry."""
    lines = [json.dumps(row, sort_keys=True) for row in merged(rows(folder))]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def main(arguments: list[str] | None = None) -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("folder", type=existing_folder, metavar="FOLDER", help="../shared/forms")
    TARGET.write_text(text(parser.parse_args(arguments).folder))
    return 0


if __name__ == "__main__":
    run_script(main)
