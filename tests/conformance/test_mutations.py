"""A conformance run notices every number that lowering gets wrong by one."""

import pytest

import delegate.compile.compiler
from delegate.cli import main
from delegate.lower.lowering import lower_partition
from delegate.options import Options
from rk3588_conformance.execution import run_case
from rk3588_conformance.outcome import Status
from tests.conformance.mutations import MUTATIONS

OPTIONS = Options.from_mapping({"device": "simulator", "log_level": "error", "deny_ops": ""})
SIZE = "input_size_80_weight_size_3"
PADDED = "stride_1_padding_same_1"
CASES = {
    "conv uint8": f"Conv2D.Op/{SIZE}_input_channels_32_output_channels_32_{PADDED}_is_signed_0",
    "conv int8": f"Conv2D.Op/{SIZE}_input_channels_32_output_channels_32_{PADDED}_is_signed_1",
    "conv per channel": (
        f"Conv2D.PerChannel/{SIZE}_input_channels_32_output_channels_32_{PADDED}_is_signed_1"
    ),
    "depthwise uint8": f"DepthwiseConv2D.Op/{SIZE}_channels_32_{PADDED}_is_signed_0",
    "depthwise per channel": (
        "DepthwiseConv2D.PerChannel/input_size_112_weight_size_3_channels_256_stride_2_"
        "padding_same_1_is_signed_1"
    ),
    "add": "PairShapes.Op/op_ADD_shape_1x37x41x64_activation_NONE_type_int8",
}
# What each mutation concerns; the others do not have that operand, and must not change.
CONCERNED = {
    "multiplier of BS + 1": {"conv uint8", "conv int8", "depthwise uint8", "add"},
    "multipliers per channel + 1": {"conv per channel", "depthwise per channel"},
    "multiplier of OUT_CVT + 1": {"conv uint8", "conv int8", "conv per channel",
                                  "depthwise uint8", "depthwise per channel", "add"},
    "shift of OUT_CVT + 1": set(CASES),
    "shift of BS + 1": set(CASES) - {"add"},
    "output zero point + 1": set(CASES),
    "padding's zero point + 1": set(CASES) - {"add"},
    "weight zero point + 1": {"conv uint8", "depthwise uint8"},
    "two channels swapped": {"conv per channel", "depthwise per channel"},
    "two biases swapped": {"conv uint8", "conv int8", "depthwise uint8"},
}  # fmt: skip


@pytest.fixture
def mutated(monkeypatch):
    def install(name: str) -> None:
        monkeypatch.setattr(
            delegate.compile.compiler, "lower_partition",
            lambda *arguments, **options: MUTATIONS[name](lower_partition(*arguments, **options)),
        )  # fmt: skip

    return install


@pytest.mark.parametrize("case", CASES)
def test_unmutated_lowering_passes(case):
    outcome = run_case(CASES[case], None, OPTIONS)
    assert outcome.status is Status.OK, outcome.message


@pytest.mark.parametrize(
    ("mutation", "case"),
    [(mutation, case) for mutation, cases in CONCERNED.items() for case in sorted(cases)],
)
def test_a_wrong_number_fails(mutation, case, mutated):
    mutated(mutation)
    outcome = run_case(CASES[case], None, OPTIONS)
    assert outcome.status is Status.FAILED


def test_every_mutation_concerns_some_case():
    assert set(CONCERNED) == set(MUTATIONS)
    assert all(CONCERNED.values())


def test_the_command_fails_on_a_wrong_zero_point(mutated, capsys):
    mutated("output zero point + 1")
    arguments = ["--device", "simulator", "--jobs", "1", f"--gtest_filter={CASES['conv int8']}"]
    assert main(["conformance", *arguments]) == 1
    assert "elements differ; at most" in capsys.readouterr().out
