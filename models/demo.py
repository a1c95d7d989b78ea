"""``make demo``: classifies a photograph with MobileNetV1, or without it the digits of this folder.

The photograph and the model come from ../shared, the cache or a download (see ``zoo``); where none
of these has them, the small model in ``digits/`` classifies handwritten digits. Says what runs
where.
"""

from __future__ import annotations

import sys
from pathlib import Path

from delegate.cli import main as delegate_command
from rk3588_vision.zoo import DownloadError, fetch, read_manifest

DIGITS = Path(__file__).with_name("digits")


def classify_photograph() -> int:
    """The command line's answer for the photograph. Raises DownloadError if a file is nowhere."""
    entries = read_manifest()
    model = fetch(entries["mobilenet_v1_1.0_224_quant"])
    labels = fetch(entries["imagenet_labels"])
    image = fetch(entries["grace_hopper"])
    return delegate_command(
        ["classify", str(image), "--model", str(model), "--labels", str(labels)]
    )


def classify_digits() -> int:
    """The command line's answer for a held-out digit of each class. The CPU runs so small a model
    as fast; the NPU is asked for it to be seen at work.
    """
    model, labels = DIGITS / "digits_int8.tflite", DIGITS / "labels.txt"
    for image in sorted((DIGITS / "images").glob("*.png")):
        chosen = ["--labels", str(labels), "--top", "1", "-O", "deny_ops=NONE"]
        code = delegate_command(["classify", str(image), "--model", str(model), *chosen])
        print()
        if code:
            return code
    return 0


def main() -> int:
    """Returns the exit code of the command line."""
    try:
        return classify_photograph()
    except (DownloadError, OSError) as error:
        print(f"no photograph to classify: {error}", file=sys.stderr)
        print("classifying handwritten digits instead, on the NPU although the CPU runs so small")
        print("a model as fast (option deny_ops=NONE)")
    return classify_digits()


if __name__ == "__main__":
    sys.exit(main())
