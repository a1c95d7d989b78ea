"""Tests that words tell what a form does: all that changes results is in them."""

from collections import defaultdict

import pytest

from delegate.chip.chip import Form
from delegate.chip.chips import DEFAULT
from delegate.chip.known_forms import known_forms_of
from delegate.chip.rk3588.words import form_in_words, kind_in_words

KNOWN = known_forms_of(DEFAULT.target)
"""The table of RK3588."""

WITHOUT_WORDS = {
    *("CBUF_CON1.hi", "SIZE_E", "BS_OW", "WDMA_same", "FEATURE_MODE", "PPU_FMT", "SRC_DMA"),
    *("ERDMA", "RDMA_MODE", "WEIGHT5068", "CORE_MISC", "BS_CFG", "EW_CFG"),
}
"""Settings by which known forms with the same words differ: how values are fetched and written, the
switches of a stage that is off, and a data mode that EW and its reader name both."""

MESA = {
    "BN_CFG": "0x53", "BRDMA": "0x2", "BS_CFG": "0x20150", "BS_OW": "0x124", "CORE_MISC": "0x1",
    "CVT_CON0": "0xb", "DMA_CON0": "0xf000f", "ERDMA": "0x1", "EW_CFG": "0x383",
    "FEATURE_MODE": "0x1e4", "RDMA_MODE": "0x7810", "SIZE_E": "1", "WDMA_same": "1",
    "WEIGHT5068": "0x1010101",
}  # fmt: skip
SUMMAND = "BS adds a number per channel, adds the sum of inputs times one number"
SCALED = "OUT_CVT scales and writes int8"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, f"{SUMMAND}; {SCALED}"),
        ({"CBUF_CON0.flags": "0x2000"},
         f"{SUMMAND}; {SCALED}; weights of the task before are kept"),
        ({"BN_CFG": "0x12"}, f"{SUMMAND}; BN clamps at 0; {SCALED}"),
        ({"BN_CFG": "0x92"}, f"{SUMMAND}; BN clamps below and above; {SCALED}"),
        ({"OUT_SHIFT.flags": "0x40000000"}, f"{SUMMAND}; {SCALED}, ties away from zero"),
        (
            {"BN_CFG": "0x20040", "EW_CFG": "0x302", "LUT_used": "1"},
            f"{SUMMAND}; BN adds one number, multiplies by one number; tables give the result; "
            f"{SCALED}",
        ),
        (
            {"BS_CFG": "0x20140", "BS_MUL.src": "0x1", "BS_OW": "0x125"},
            "BS adds a number per channel, multiplies by a number per channel, adds the sum of "
            f"inputs times a number per channel; {SCALED}",
        ),
        (
            {"EW_CFG": "0x904202c0", "ERDMA": "0x40000004"},
            f"{SUMMAND}; EW adds a map, scaled first; {SCALED}",
        ),
        ({"CONV_CON1": "0x6000a000"}, f"packed pixels of 3 channels; rows are fetched one by one; "
         f"{SUMMAND}; {SCALED}"),
    ],
)  # fmt: skip
def test_stages_are_told_in_words(changes: dict[str, str], words: str) -> None:
    assert form_in_words(Form("conv", {**MESA, **changes})) == words


def test_kinds_are_told_in_words() -> None:
    assert kind_in_words("dedw") == "depthwise convolution with zeros between input pixels, int8"
    assert kind_in_words("fly_fp") == "DPU alone, fp16"


def test_known_forms_with_the_same_words_differ_in_what_has_none() -> None:
    same: dict[tuple[str, str], list[Form]] = defaultdict(list)
    for kind, forms in KNOWN.whole.items():
        for items in forms:
            form = Form(kind, dict(items))
            same[kind, form_in_words(form)].append(form)
    assert len(same) > len(KNOWN.whole)
    for (kind, words), (first, *others) in same.items():
        assert words, kind
        for other in others:
            differing = {n for n, _ in {*first.settings.items()} ^ {*other.settings.items()}}
            assert differing <= WITHOUT_WORDS, (kind, words)
