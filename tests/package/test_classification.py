"""Tests the way from output tensors to labels and scores."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delegate.errors import ModelError, UsageError
from rk3588_vision.class_ranking import class_count, probabilities, rank, read_labels


def details(
    dtype: Any, scale: float = 0.0, zero_point: int = 0, shape: tuple[int, ...] = (1, 3)
) -> dict[str, Any]:
    return {"name": "scores", "shape": shape, "dtype": dtype, "quantization": (scale, zero_point)}


def test_quantised_softmax_is_dequantised_only() -> None:
    output = np.array([[0, 64, 192]], np.uint8)
    found = probabilities(output, details(np.uint8, 1 / 256, 0))
    assert found.tolist() == [0.0, 0.25, 0.75]
    output = np.array([[-128, -64, 64]], np.int8)
    found = probabilities(output, details(np.int8, 1 / 256, -128))
    assert found.tolist() == [0.0, 0.25, 0.75]


def test_quantised_logits_go_through_a_softmax() -> None:
    output = np.array([[10, 12, 14]], np.int8)
    found = probabilities(output, details(np.int8, 0.5, 2))
    expected = np.exp([4.0, 5.0, 6.0])
    assert np.allclose(found, expected / expected.sum())


def test_float_probabilities_pass_and_logits_go_through_a_softmax() -> None:
    output = np.array([[0.25, 0.25, 0.5]], np.float32)
    assert probabilities(output, details(np.float32)).tolist() == [0.25, 0.25, 0.5]
    huge = np.array([[1000.0, 999.0, -1000.0]], np.float32)
    found = probabilities(huge, details(np.float32))
    assert np.isclose(found.sum(), 1.0)
    assert np.isclose(found[0] / found[1], np.e)


def test_equal_scores_rank_by_index() -> None:
    output = np.array([[9, 7, 9]], np.uint8)
    found = rank(output, details(np.uint8, 1 / 256, 0), ["a", "b", "c"], 2)
    assert [(entry.index, entry.label) for entry in found] == [(0, "a"), (2, "c")]


def test_more_asked_for_than_there_is_gives_all() -> None:
    output = np.array([[9, 7, 8]], np.uint8)
    assert [e.index for e in rank(output, details(np.uint8, 1 / 256, 0), None, 99)] == [0, 2, 1]


def test_scores_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(ModelError, match="not finite"):
        rank(np.array([[np.nan, 1.0]], np.float32), details(np.float32), None, 1)


@pytest.mark.parametrize("shape", [(1, 10), (1, 1, 1, 10), (10,)])
def test_scores_may_have_leading_ones(shape: tuple[int, ...]) -> None:
    assert class_count(details(np.uint8, shape=shape)) == 10


@pytest.mark.parametrize("shape", [(), (1, 1), (2, 10), (1, 20, 20, 16)])
def test_outputs_that_are_no_scores_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match="no list of class scores"):
        class_count(details(np.uint8, shape=shape))


def test_background_line_is_dropped_only_where_the_model_lacks_it(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_text("Background\ncat\ndog, hound\n\n", encoding="utf-8")
    assert read_labels(path, 3) == ["Background", "cat", "dog, hound"]
    assert read_labels(path, 2) == ["cat", "dog, hound"]
    path.write_text("cat\ndog\nmouse\n", encoding="utf-8")
    with pytest.raises(UsageError, match="too long a label file: 3 labels for 2 classes"):
        read_labels(path, 2)
