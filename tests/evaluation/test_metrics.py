"""Accuracies, labels and state files against what they are by definition."""

import json
from pathlib import Path

import numpy as np
import pytest

from delegate.errors import UsageError
from rk3588_vision.evaluation.ground_truth import class_map, classes_of, objects_of
from rk3588_vision.evaluation.metrics import (
    class_mismatch,
    classification_metrics,
    detection_metrics,
)
from rk3588_vision.evaluation.state import StateFile

pytest.importorskip("pycocotools")


def test_top1_and_top5() -> None:
    records = [
        {"image": "a", "ours": [3, 1, 2, 0, 9], "theirs": [3, 1, 2, 0, 9]},
        {"image": "b", "ours": [5, 4, 2, 0, 9], "theirs": [4, 5, 2, 0, 9]},
        {"image": "c", "ours": [7, 8, 6, 5, 4], "theirs": [7, 8, 6, 5, 4]},
    ]
    result = classification_metrics(records, {"a": 2, "b": 3, "c": 0}, 1)
    assert result["delegate"] == {"top1": 1 / 3, "top5": 2 / 3}
    assert result["cpu"] == {"top1": 2 / 3, "top5": 2 / 3}
    assert result["top1_agreement"] == 2 / 3


def square(index: int, x: float, y: float) -> tuple[int, float, float, float, float]:
    return (index, x, y, x + 0.2, y + 0.2)


def row(index: int, score: float, x: float, y: float) -> list[float]:
    return [index, score, x * 100, y * 100, x * 100 + 20, y * 100 + 20]


def test_average_precision_of_a_case_counted_by_hand() -> None:
    """Class 0: two objects, of which one is found first and one never, AP50 = 51 of 101 recalls.
    Class 1: found after a wrong box, precision 1/2 everywhere."""
    truth = {"a": (square(0, 0.1, 0.1), square(0, 0.6, 0.6), square(1, 0.1, 0.6))}
    found = [row(0, 0.9, 0.1, 0.1), row(1, 0.8, 0.6, 0.1), row(1, 0.7, 0.1, 0.6)]
    record = {"image": "a", "width": 100, "height": 100, "ours": found}
    result = detection_metrics([record], truth, {}, 2)
    assert result["classes"] == 2
    assert result["delegate"]["ap50"] == pytest.approx((51 / 101 + 0.5) / 2)
    assert "cpu" not in result


def test_classes_are_translated_by_name_and_unknown_ones_left_out() -> None:
    mapping = class_map(["person", "n/a", "hot dog"], ["hot_dog", "Person", "cat"])
    assert mapping == {0: 1, 2: 0}
    truth = {"a": (square(1, 0.1, 0.1), square(2, 0.5, 0.5))}
    record = {"image": "a", "width": 100, "height": 100, "ours": [row(0, 0.9, 0.1, 0.1)]}
    assert detection_metrics([record], truth, mapping, 3)["delegate"]["ap50"] == pytest.approx(1)


def test_classes_that_are_numbered_otherwise_are_noticed() -> None:
    """An SSD model's numbers have gaps where YOLO's labels have none: 17 and 16 are the dog."""
    places = [(0.1, 0.1), (0.1, 0.4), (0.4, 0.1), (0.4, 0.4), (0.7, 0.7)]
    truth = {"a": tuple(square(16 + i, *place) for i, place in enumerate(places))}
    shifted = [row(17 + i, 0.9, *place) for i, place in enumerate(places)]
    record = {"image": "a", "width": 100, "height": 100, "ours": shifted}
    assert class_mismatch([record], truth, {}) == (0, 5)
    assert class_mismatch([record], truth, {17 + i: 16 + i for i in range(5)}) is None
    same = [row(16 + i, 0.9, *place) for i, place in enumerate(places)]
    assert class_mismatch([record | {"ours": same}], truth, {}) is None
    beside = [row(17 + i, 0.9, x + 0.15, y) for i, (x, y) in enumerate(places)]
    assert class_mismatch([record | {"ours": beside}], truth, {}) is None


def test_the_order_of_records_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    truth, records = {}, []
    for number in range(12):
        name = f"{number:02d}"
        spots = rng.uniform(0, 0.8, (4, 2))
        truth[name] = tuple(square(int(rng.integers(3)), x, y) for x, y in spots)
        found = [row(int(rng.integers(3)), float(np.round(rng.uniform(), 1)), x, y)
                 for x, y in spots + rng.normal(0, 0.03, spots.shape)]  # fmt: skip
        records.append({"image": name, "width": 100, "height": 100, "ours": found})
    expected = detection_metrics(records, truth, {}, None)
    assert 0 < expected["delegate"]["ap50"] < 1
    assert detection_metrics(records[::-1], truth, {}, None) == expected


def test_truth_from_names_tables_and_text_files(tmp_path: Path) -> None:
    images = [tmp_path / "007_owl.jpg", tmp_path / "12.png"]
    assert classes_of(images[:1], None) == {"007_owl.jpg": 7}
    table = tmp_path / "truth.csv"
    table.write_text("image,class\n007_owl.jpg,3\n12.png,4\n")
    assert classes_of(images, table) == {"007_owl.jpg": 3, "12.png": 4}
    (tmp_path / "12.txt").write_text("5 0.5 0.5 0.2 0.4\n")
    objects = objects_of(images, None)
    assert objects["007_owl.jpg"] == ()
    assert objects["12.png"][0] == pytest.approx((5, 0.4, 0.3, 0.6, 0.7))


def test_truth_from_coco(tmp_path: Path) -> None:
    document = {
        "images": [{"id": 4, "file_name": "x.jpg", "width": 200, "height": 100}],
        "categories": [{"id": 90, "name": "b"}, {"id": 7, "name": "a"}],
        "annotations": [{"image_id": 4, "category_id": 90, "bbox": [20, 10, 40, 30]}],
    }
    path = tmp_path / "coco.json"
    path.write_text(json.dumps(document))
    objects = objects_of([tmp_path / "x.jpg", tmp_path / "y.jpg"], path)
    assert objects["x.jpg"][0] == pytest.approx((1, 0.1, 0.1, 0.3, 0.4))
    assert objects["y.jpg"] == ()


@pytest.mark.parametrize("text", ["", "{}", '{"images": 3}', "[]"])
def test_bad_truth_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "truth.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="COCO"):
        objects_of([tmp_path / "x.jpg"], path)
    with pytest.raises(UsageError, match="no class"):
        classes_of([tmp_path / "x.jpg"], None)
    with pytest.raises(UsageError, match="no label files"):
        objects_of([tmp_path / "x.jpg"], None)


@pytest.mark.parametrize("number", ["9" * 10, "9" * 5000, "\xb2", "-1", "1e3"])
def test_class_numbers_have_one_to_nine_digits(tmp_path: Path, number: str) -> None:
    images, table = [tmp_path / "x.jpg"], tmp_path / "truth.csv"
    table.write_text(f"image,class\nx.jpg,{number}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="line 2 is not image,class"):
        classes_of(images, table)
    (tmp_path / "x.txt").write_text(f"{number} 0.5 0.5 0.25 0.125\n", encoding="utf-8")
    with pytest.raises(UsageError, match="line 1 is not class"):
        objects_of(images, None)
    with pytest.raises(UsageError, match="no class"):
        classes_of([tmp_path / f"{number[:99]}_x.jpg"], None)


def test_state_survives_a_cut_line_and_refuses_another_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    with StateFile(path, "one") as state:
        state.add({"image": "a", "ours": [1]})
        state.add({"image": "b", "ours": [2]})
    path.write_bytes(path.read_bytes()[:-4])
    with StateFile(path, "one") as state:
        assert list(state.records) == ["a"]
        state.add({"image": "c", "ours": [3]})
    with StateFile(path, "one") as state:
        assert list(state.records) == ["a", "c"]
    with pytest.raises(UsageError, match="another evaluation"):
        StateFile(path, "two")
    path.write_text("nonsense\n")
    with pytest.raises(UsageError, match="state file"):
        StateFile(path, "one")
