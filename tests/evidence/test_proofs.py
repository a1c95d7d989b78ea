"""Proofs of features agree with the simulator, and notice whatever is wrong with a feature."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from delegate import _native
from delegate.chip.chip import Chip
from delegate.chip.feature_header import HEADER_PATH as FEATURES_PATH
from delegate.chip.feature_header import feature_header
from delegate.chip.features import FACTS, Feature
from delegate.chip.rk3576 import RK3576
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import compile_model
from delegate.evidence.bench import Proof
from delegate.evidence.header import HEADER_PATH, lz4_block, proofs_header
from delegate.evidence.proofs import DESCRIBED, proof_of, proofs_of
from delegate.npu.features_used import features_of, task_values
from delegate.npu.program import parse, serialize
from delegate.options import Options
from tests.evidence.proof_runs import outcome
from tests.generated.random_graphs import random_graph
from tests.shared_folder import whole_models
from tests.worse import everywhere

ROOT = Path(__file__).resolve().parents[2]
FEATURES = {feature.name: feature for feature in RK3588.features}
CHIPS = (RK3588, RK3576)
ALL = [pytest.param(chip, item.name, id=f"{chip.name}-{item.name}") for chip in CHIPS
       for item in chip.features]  # fmt: skip
BASE = {
    "rk3588": ("convolution", "summand_per_channel"),
    "rk3576": ("convolution", "operand_blocks", "shift_record"),
}
"""What every task of a convolution uses."""
MOST_MS = 20.0
SLOW_CLOCK_HZ = 200_000_000

# Worse chips that others reported, and the features of which a proof must notice them.
REPORTED = {
    "table:lost": {"kept_table"},
    "cbuf:kept_weights_lost": {"kept_weights"},
    "bn:multiplier_ignored": {"bn_multiplier", "bn_multiplier_per_channel"},
    "ew:operands_low_byte": {"wide_ew_operand"},
    "ew:shift_ignored": {"ew_truncation"},
    "out:ties_even": {"ties_away"},
    "core:input_sums_ignored": {"input_sums"},
    "cna:rows_packed": {"window_of_columns"},
    "write:surfaces_in_pairs": {"element_wise_alone"},
    "out:ties_up": {"convolution", "depthwise_convolution", "ew_addition", "ties_away"},
    "bs:ties_up": {"multiplier", "shift_of_negatives"},
    "bn:ties_up": {"bn_multiplier"},
    "ew:conversion_ties_up": {"operand_conversion"},
    "ew:ties_up": {"ew_truncation"},
    "registers:of_the_one_before": {"convolution", "depthwise_convolution"},
    "registers:of_the_one_before_behind_alone": {"element_wise_alone"},
}


@functools.cache
def proof(name: str, chip: Chip = RK3588) -> Proof:
    return proof_of(chip, name)


def test_every_feature_has_a_proof_and_nothing_else_has() -> None:
    for chip in CHIPS:
        assert DESCRIBED[chip.name].keys() == {feature.name for feature in chip.features}


@pytest.mark.parametrize(("chip", "name"), ALL)
def test_a_proof_uses_its_feature_and_agrees_with_the_simulator(chip: Chip, name: str) -> None:
    made = proof(name, chip)
    found = {use.feature.name: use.tasks for use in features_of(chip, [made.program])}
    assert name in found
    if name not in BASE[chip.name]:
        assert found[name] < len(made.program.tasks), "nothing runs that does without it"
    assert outcome(made) == "proved"


def test_the_last_proof_of_cores_uses_every_core() -> None:
    cores = {task.core for task in proof("several_cores").program.tasks}
    assert cores == set(range(RK3588.cores))


@pytest.mark.parametrize("way", REPORTED)
def test_proofs_notice_what_others_reported(way: str) -> None:
    worse = everywhere(way)
    noticed = {name for name in FEATURES if outcome(proof(name), worse) != "proved"}
    assert REPORTED[way] <= noticed


def test_entries_of_tables_bear_the_reported_spikes() -> None:
    failed = {
        name for name in FEATURES if outcome(proof(name), everywhere("table:spikes")) != "proved"
    }
    # Only these look between entries, or add to one: numerics=fast does without them there, and
    # float models leave LOGISTIC to the CPU.
    between = {"table_behind_convolution", "table_elsewhere", "fp16_table"}
    assert failed == between | {"sum_behind_table"}


def other_settings(chip: Chip, feature: Feature) -> Iterator[tuple[str, npt.NDArray[np.uint64]]]:
    """The proof's words with one field of the feature's settings changed, in all tasks that use
    the feature: as a chip computes that ignores it.
    """
    program = proof(feature.name, chip).program
    values = list(task_values(program))
    for name in feature.settings:
        place, _, last = name.rpartition(".")
        is_field = name not in FACTS and "." in place and not place.startswith("ENABLE")
        if not is_field or name in WITHOUT_EFFECT:
            continue
        owner = chip.registers.register(place)
        mask = owner.field(last).mask
        for flip in (mask, mask & -mask):
            words = program.words().copy()
            for index, task in enumerate(program.tasks):
                if not feature.is_used(values[index]):
                    continue
                first = task.regcmd_offset // 8
                for word in range(first, first + task.regcmd_count):
                    is_it = int(words[word]) >> 48 == owner.target
                    if is_it and int(words[word]) & 0xFFFF == owner.offset:
                        words[word] ^= np.uint64(flip << 16)
            yield f"{name} ^ {flip:#x}", words


# Fields that the simulator need not look at, because what they say follows from the rest.
WITHOUT_EFFECT = {
    "CNA.CBUF_CON0.WEIGHT_REUSE": "weights that are fetched once more are the same",
    "DPU.EW_CFG.EW_DATA_MODE": "the reader of the operand has a mode of its own",
    "DPU.BS_OW_CFG.OD_BYPASS": "without a convolution there are no sums of inputs",
    "DPU.LUT_CFG.LUT_HYBRID_PRIORITY": "both tables hold the same where both match",
    "DPU.LUT_CFG.LUT_OFLOW_PRIORITY": "nothing lies beyond the tables",
}


@pytest.mark.parametrize(("chip", "name"), ALL)
def test_a_proof_notices_every_setting_of_its_feature(chip: Chip, name: str) -> None:
    """Each of them: a chip that takes no notice of one computes something else, or cannot."""
    feature = next(item for item in chip.features if item.name == name)
    unnoticed = [
        what
        for what, words in other_settings(chip, feature)
        if outcome(proof(name, chip), words=words) == "proved"
    ]
    assert unnoticed == []


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_all_proofs_together_take_no_longer_than_promised(chip: Chip) -> None:
    cycles = sum(item.program.estimate.cycles for item, _ in proofs_of(chip))
    assert cycles * 1e3 / SLOW_CLOCK_HZ < MOST_MS
    # Every core runs each of them three times at most.
    assert 3 * chip.cores * cycles * 1e3 / SLOW_CLOCK_HZ < MOST_MS


def test_the_safest_come_first_behind_what_they_rest_on() -> None:
    order = [item.feature for item, _ in proofs_of(RK3588)]
    assert sorted(order) == sorted(FEATURES)
    for number, (item, rests) in enumerate(proofs_of(RK3588)):
        assert rests <= set(order[:number])
        better = {n for n in order[number:] if FEATURES[n].rank > FEATURES[item.feature].rank}
        ready = {n for n in better if dict(named_rests())[n] <= set(order[:number])}
        assert not ready, f"{item.feature} runs before {ready}"


@functools.cache
def named_rests() -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple((item.feature, rests) for item, rests in proofs_of(RK3588))


def test_headers_are_not_stale() -> None:
    for path, text, command in (
        (FEATURES_PATH, feature_header(), "delegate.chip.feature_header"),
        (HEADER_PATH, proofs_header(), "delegate.evidence.header"),
    ):
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"run python -m {command}"


@pytest.mark.parametrize(
    "content", [b"", b"a", b"abcd" * 4, bytes(70_000), bytes(range(256)) * 3 + b"end"]
)
def test_packed_blocks_are_lz4(content: bytes) -> None:
    assert unpacked(lz4_block(content)) == content


def unpacked(block: bytes) -> bytes:
    """By the format's public description."""
    out, at = bytearray(), 0

    def length(first: int) -> int:
        nonlocal at
        while first >= 15:
            first += block[at]
            at += 1
            if block[at - 1] != 255:
                break
        return first

    while at < len(block):
        token = block[at]
        at += 1
        count = length(token >> 4)
        out += block[at : at + count]
        at += count
        if at == len(block):
            break
        distance = block[at] | block[at + 1] << 8
        at += 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-distance])
    return bytes(out)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_native_code_finds_the_same_features(chip: Chip) -> None:
    programs = [serialize(item.program) for item, _ in proofs_of(chip)]
    models = [random_graph(seed).content for seed in range(25)]
    for model in [*models, *whole_models()[:4]]:
        programs += [item.program for item in compile_model(model, Options(), chip=chip).partitions]
    for program in programs:
        expected = [use.feature.name for use in features_of(chip, [parse(program)])]
        assert _native.features_of(program) == expected
