"""A dynamic-range model in fp16 on the NPU beside the CPU's kernels, measured from its float model.

    python -m benchmarks.dynamic_range FLOAT.tflite DYNAMIC.tflite FOLDER

The CPU's kernels of such a model round features to int8 for each product; the NPU computes with
the numbers that the int8 weights stand for, in fp16. Both see the same pictures, prepared as
``detect`` or ``classify`` does. SNR in dB and cosine per output, over all pictures; runs on the
simulator.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from delegate.cli.command import positive_integer  # noqa: E402
from delegate.cli.table import format_table  # noqa: E402
from delegate.errors import UsageError  # noqa: E402
from delegate.host.delegated import DelegatedModel  # noqa: E402
from delegate.options import Options  # noqa: E402
from delegate.progress import progress  # noqa: E402
from rk3588_vision.detection.candidate import Hints  # noqa: E402
from rk3588_vision.images import find_images  # noqa: E402
from rk3588_vision.quantization.layer_errors import Distance  # noqa: E402
from rk3588_vision.quantization.picture_input import PictureInput  # noqa: E402
from tools.script import ScriptParser, existing_file, existing_folder, run_script  # noqa: E402

SIDES = {"NPU, fp16": "auto", "CPU": "off"}
"""Option ``float`` by what it makes of the dynamic-range model."""


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("float_model", type=existing_file, metavar="FLOAT.tflite")
    parser.add_argument("dynamic", type=existing_file, metavar="DYNAMIC.tflite")
    parser.add_argument("pictures", type=existing_folder, metavar="FOLDER", help="of pictures")
    parser.add_argument("--limit", type=positive_integer, default=20, help="pictures (default 20)")
    given = parser.parse_args()
    pictures = find_images(given.pictures)[: given.limit]
    prepared = PictureInput.of(given.float_model, Hints())
    models = {
        side: DelegatedModel.load(given.dynamic, Options(device="simulator", float=wanted))
        for side, wanted in SIDES.items()
    }
    if models["NPU, fp16"].delegation.delegated_nodes == 0:
        raise UsageError(f"{given.dynamic}: nothing of it runs on the NPU")
    truth = DelegatedModel.load(given.float_model, Options(device="simulator", float="off"))
    found = {side: [Distance() for _ in truth.outputs] for side in SIDES}
    with progress("comparing", len(pictures)) as bar:
        for picture in pictures:
            sample = [prepared.sample(picture, truth.inputs[0])]
            wanted = truth.run(sample)
            for side, model in models.items():
                ours = model.run(sample)
                for distance, mine, theirs in zip(found[side], ours, wanted, strict=True):
                    distance.add(theirs, mine)
            bar.advance()
    rows = [
        (side, details["name"], f"{distance.snr_db:.1f}", f"{distance.cosine:.6f}")
        for side in SIDES
        for details, distance in zip(truth.outputs, found[side], strict=True)
    ]
    print(format_table(("computed by", "output", "SNR dB", "cosine"), rows, right=(2, 3)))
    return 0


if __name__ == "__main__":
    run_script(main)
