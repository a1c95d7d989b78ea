"""Compare the programs of boards by driver and by what they have proved: tasks and cycles.

    python -m benchmarks.boards [MODEL...] [--all]

Without MODEL: five of the folder of public models. A fresh board has forms that others have run
alone. After ``bring-up`` it has those of all its cases, where a board is as right as the simulator;
the vendor's driver waits for the pooling unit. With --all every node goes to the NPU, also where
the CPU is expected to be faster. Cycles are modelled, without launches.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from delegate.chip.chip import Chip  # noqa: E402
from delegate.cli.table import format_table, thousands  # noqa: E402
from delegate.compile.compiler import compile_model  # noqa: E402
from delegate.host.chosen import WAITS_FOR_POOLING, chosen_chip  # noqa: E402
from delegate.options import Options  # noqa: E402
from delegate.progress import progress  # noqa: E402
from rk3588_conformance.self_test import run_cases  # noqa: E402
from tools.script import ScriptParser, existing_file, run_script  # noqa: E402

SHARED = ROOT.parent / "shared" / "models"
DEFAULT_MODELS = (
    "mobilenet_v2_1.0_224_quant",
    "ssdlite_mobiledet_coco_qat_postprocess",
    "yolov5n_640_int8_per_channel",
    "yolov8n_640_int8_per_channel",
    "yolox_nano_320_int8_per_channel",
)


def shown_by_bring_up(options: Options, chip: Chip) -> dict[str, str]:
    """Return what a board shows that is right with every case, as the simulator is."""
    found: dict[str, str] = {}
    for step in run_cases(options, chip):
        found |= step.proofs
    return found


def boards() -> dict[str, Chip]:
    """Return the chip as each kind of board has it."""
    simulator = Options.from_mapping({"device": "simulator", "chip": "rk3588"}, {})
    fresh = chosen_chip(simulator)
    vendors = chosen_chip(replace(simulator, device=WAITS_FOR_POOLING))
    shown = shown_by_bring_up(simulator, fresh)
    return {
        "fresh": fresh,
        "vendor's driver": vendors,
        "after bring-up": fresh.on_board(shown),
        "both": vendors.on_board(shown),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("models", type=existing_file, nargs="*", metavar="MODEL")
    parser.add_argument("--all", action="store_true")
    chosen = parser.parse_args(arguments)
    models: list[Path] = chosen.models or [SHARED / f"{name}.tflite" for name in DEFAULT_MODELS]
    options = Options.from_mapping({"deny_ops": ""} if chosen.all else {}, {})
    kinds, rows = boards(), []
    with progress("compiling", len(models) * len(kinds)) as bar:
        for path in models:
            cells = [path.stem]
            for chip in kinds.values():
                found = compile_model(path, options, chip).partitions
                tasks = sum(compiled.tasks for compiled in found)
                cycles = sum(compiled.estimate.cycles for compiled in found)
                cells.append(f"{len(found)}: {tasks}, {thousands(cycles)}")
                bar.advance()
            rows.append(cells)
    print("partitions: tasks, cycles")
    print(format_table(("model", *kinds), rows, right=range(1, len(kinds) + 1)))
    return 0


if __name__ == "__main__":
    run_script(main)
