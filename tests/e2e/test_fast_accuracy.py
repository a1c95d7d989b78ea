"""Tests what ``numerics=auto`` costs in accuracy: at most 0.004, on pictures shaken by a step.

The pictures themselves are too few to tell (``benchmarks/fast_accuracy.py``).
"""

import pytest

from benchmarks import fast_accuracy
from tests.shared_folder import MODELS, SHARED, needs_models

pytestmark = [needs_models, pytest.mark.exhaustive]

MOST_LOST = 0.004
IMAGES = SHARED / "images"
DETECTION = [
    "--task", "detect", "--labels", str(IMAGES / "coco_labels.txt"),
    "--truth-labels", str(IMAGES / "coco80_labels.txt"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "folder", "arguments"),
    [
        ("mobilenet_v2_1.0_224_quant", "imagenet", []),
        ("mobilenet_v2_1.0_224_int8_per_channel", "imagenet", []),
        ("ssdlite_mobiledet_coco_qat_postprocess", "coco", DETECTION),
    ],
)
def test_accuracy_stays(
    model: str, folder: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pycocotools")
    given = [str(MODELS / f"{model}.tflite"), str(IMAGES / folder), *arguments]
    assert fast_accuracy.main(given) == 0
    (shaken,) = (row for row in capsys.readouterr().out.splitlines() if row.startswith("shaken"))
    fast, exact, difference, _ = map(float, shaken.split()[-4:])
    assert exact > 0.3
    assert difference == pytest.approx(fast - exact, abs=2e-4)
    assert difference >= -MOST_LOST
