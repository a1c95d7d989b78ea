"""``compile`` says the answer first, in at most 25 lines, whatever the model."""

from pathlib import Path

import pytest

from delegate.insight.compile_report.causes import BY_CHOICE, causes_of, known_cause
from tests.cli.conftest import MODEL, Run
from tests.shared_folder import MODELS, model_files, needs_models, some_of

MOST_LINES = 25
DENIED = "deny_ops=CONV_2D,DEPTHWISE_CONV_2D,ADD,MEAN,FULLY_CONNECTED,RESHAPE"
SMALL = ["numerics=auto", "numerics=exact", "deny_ops=ADD", DENIED]


def check(text: str, document: dict[str, object]) -> None:
    lines = text.splitlines()
    assert len(lines) <= MOST_LINES, text
    assert [line for line in lines[1:] if len(line) > 100] == []
    whole = document["delegated_nodes"] == document["total_nodes"]
    verdict = lines[1].removeprefix("on the NPU   ")
    assert verdict.startswith("whole: " if whole else ("not whole: ", "whole: ", "no: "))
    assert ("left to the CPU: " in text) is bool(document["rejections"])
    assert "helps most" in text


@pytest.mark.parametrize("option", SMALL)
def test_answer_fits_a_screen(run: Run, option: str) -> None:
    document = run("compile", MODEL, "-O", option, "--json").json
    check(run("compile", MODEL, "-O", option).out, document)


@needs_models
@pytest.mark.parametrize("model", some_of(model_files(".", "graphs", "float"), 9))
def test_answer_of_public_models_fits_a_screen(run: Run, model: Path) -> None:
    chosen = ("-O", "numerics=auto")
    document = run("compile", model, *chosen, "--json").json
    check(run("compile", model, *chosen).out, document)
    told = [node for cause in document["causes"] for node in cause["nodes"]]
    assert sorted(told) == sorted({entry["node"] for entry in document["rejections"]})
    assert all(cause["cause"].endswith(".") for cause in document["causes"])


@needs_models
def test_constants_of_a_float_model_belong_to_its_partition(run: Run) -> None:
    model = MODELS / "float" / "mediapipe_face_detection_short_range.tflite"
    document = run("compile", model, "--json").json
    assert document["delegated_nodes"] == document["total_nodes"]
    assert "on the NPU   whole: " in run("compile", model).out


@needs_models
def test_shapes_that_are_computed_cost_nothing(run: Run) -> None:
    found = run("compile", MODELS / "graphs" / "unet_128.int8.tflite", "--json").json
    assert found["delegated_nodes"] >= found["total_nodes"] - 1
    assert not any("shapes" in cause["cause"] for cause in found["causes"])
    model = MODELS / "graphs" / "mnist_tut.int8.tflite"
    found = run("compile", model, "--json", "-O", "deny_ops=RESHAPE").json
    (cause,) = (cause for cause in found["causes"] if "compute shapes" in cause["cause"])
    assert cause["ops"] == ["SHAPE", "STRIDED_SLICE", "PACK"]
    assert "nodes that stay on the CPU" in cause["cause"]


@needs_models
def test_what_has_no_modelled_time_is_advised_nevertheless(run: Run) -> None:
    model = MODELS / "graphs" / "lstm_k3.int8.tflite"
    found = run("compile", model, "--json").json["best_change"]
    assert "instead of LSTM" in found["change"]
    verdict = run("compile", model).out.splitlines()[1]
    assert "multiplications" not in verdict  # nobody counts those of the LSTM


def test_rules_with_one_reason_behind_them_are_one_cause() -> None:
    groups = [
        {"op": op, "rule": rule, "nodes": [node], "cpu_us": us, "reasons": [reason]}
        for op, rule, node, us, reason in (
            ("SHAPE", "operator_supported", 3, 1.0, "it is SHAPE"),
            ("PACK", "eight_bit_features", 1, 2.0, "tensor 4 is INT32"),
            ("CONV_2D", "eight_bit_features", 2, 9.0, "tensor 4 is FLOAT32"),
            ("ADD", "made_up_rule", 5, 0.5, "The made up must be true: node 5"),
            ("MUL", "made_up_rule", 6, 0.5, "The made up must be true: node 6"),
        )
    ]
    found = causes_of(groups)
    assert [(cause["nodes"], cause["cpu_us"]) for cause in found] == [
        ([2], 9.0), ([1, 3], 3.0), ([5, 6], 1.0),
    ]  # fmt: skip
    assert found[2]["cause"] == "The made up must be true: node 5."
    assert found[2]["ops"] == ["ADD", "MUL"]


def test_what_stays_by_choice_has_no_remedy() -> None:
    assert known_cause("ADD", "partition_faster_on_npu", "") is BY_CHOICE
    assert not BY_CHOICE.remedy


def test_functions_of_float_stay_for_what_the_model_is() -> None:
    """Nothing changes between layers of a model without 8-bit tensors."""
    rule = "between_eight_bits"
    found = {
        reason: known_cause("GREATER_EQUAL", rule, f"Functions must lie between: {reason}")
        for reason in ("tensor 4 'x' is FLOAT32", "the model is computed in fp16", "they are more")
    }
    assert [cause and cause.sentence.split()[0] for cause in found.values()] == [
        "The", "In", "Float",
    ]  # fmt: skip
    cast = known_cause("CAST", "cast_constant", "tensor 0 is no constant")
    assert cast is not None
    assert "CAST" in cast.sentence
