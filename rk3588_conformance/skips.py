"""The list of accepted skips: ``accepted_skips.txt`` beside this file.

One line per entry, "pattern | rule | reason"; "#" starts a comment. A case with rejected nodes is
a skip only if entries have its name and all the rules; an entry whose case is not rejected any more
is stale, and the case fails until the entry is gone. Some rules are not the delegate's, but of this
machine or of the model: RUNTIME_REFUSES, the installed runtime cannot load the model at all, which
another one may; FILE_ABSENT, there is no file for a name of the list; OTHER_OPERATORS, the model
has none that the suite is about.

Where less is known more is rejected: CHIP_SKIPS, of a chip, and AUTO_SKIPS, of ``numerics=auto``,
have the rules whose rejections are accepted of every case then, and what else follows from them.
OF_EXACT has those that no other mode has.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from delegate.errors import UsageError
from rk3588_conformance.gtest_filter import pattern_expression
from rk3588_conformance.outcome import Outcome, Status

RUNTIME_REFUSES = "runtime_refuses_model"
FILE_ABSENT = "file_absent"
OTHER_OPERATORS = "other_operators"
_NOT_THE_DELEGATES = frozenset({RUNTIME_REFUSES, FILE_ABSENT, OTHER_OPERATORS})
CHIP_SKIPS = {
    "rk3576": {
        "form_is_known": "no program is known to have the form",
        "resize_possible": "kernels are squares, of at most 64 taps; equal factors down",
        "pixels_repeated": "other sizes are products, which need gaps between rows",
        "tile_fits_cbuf": "one split of CBUF is proven, with 144 KiB for a group of kernels",
        "within_one_lsb": "without BN's multiplier not every scale is near enough",
        "multipliers_keep_bits": "channels share a shift of one multiplier of 15 bits",
        "tasks_in_range": "rows are cut into more tasks than a chain has",
        "alias_is_free": "the nodes around the parts stay on the CPU",
        "reduced_sides_in_range": "no program is known to add a map behind a convolution",
        "summed_window_in_range": "no program is known to add a map behind a convolution",
        "strides_or_patches": "no program is known to have kernels of one row, which patches need",
        RUNTIME_REFUSES: "the runtime has no kernel for a node that stays on the CPU",
        "tasks_keep_memory": "an input has no room for whole groups of channels",
        "host_converts": "the node on the other side stays on the CPU",
        "said_together": "another node of theirs stays on the CPU",
        "memory_is_kept": "the runtime overwrites what others read",
        "quantised_input": "the weights' DEQUANTIZE belongs to a node in fp16",
    }
}
"""The rules, by chip, and why their rejections are accepted."""
AUTO_SKIPS = {
    "form_is_known": "nobody has run the form; numerics=exact takes it",
    "within_one_lsb": "known forms round once, which is not near enough for every scale",
    "multipliers_keep_bits": "channels share a shift of one multiplier of 15 bits",
    "alias_is_free": "the nodes around the parts stay on the CPU",
    "host_converts": "the node on the other side stays on the CPU",
    "said_together": "another node of theirs stays on the CPU",
    "memory_is_kept": "the runtime overwrites what others read",
    RUNTIME_REFUSES: "the runtime has no kernel for a node that stays on the CPU",
}
"""Rules whose rejections are accepted with ``numerics=auto``, and why."""
FOLLOWING = {"order_possible": "form_is_known"}
"""Rules, and what they may follow from: a product that may not run exchanges no rows and columns of
the transpose beside it.
"""
OF_EXACT = {"equal_if_exact": "results that are a step off are what numerics=auto is for"}
"""Rules that are about ``numerics=exact`` alone, whose rejections are always accepted, and why."""
NO_SKIPS: Mapping[str, str] = {}


def known_skips(chip: str, numerics: str) -> Mapping[str, str]:
    """The rules whose rejections are accepted of every case, and why."""
    return CHIP_SKIPS.get(chip, NO_SKIPS if numerics == "exact" else AUTO_SKIPS)


SKIPS_FILE = Path(__file__).with_name("accepted_skips.txt")


@dataclass(frozen=True, slots=True)
class Skip:
    """One entry. ``pattern`` is a gtest pattern for whole names."""

    pattern: str
    rule: str
    reason: str

    def concerns(self, name: str) -> bool:
        """Return whether this entry speaks of the case ``name``."""
        return re.fullmatch(pattern_expression(self.pattern), name) is not None


def read_skips(path: Path = SKIPS_FILE) -> tuple[Skip, ...]:
    """All entries. Raises UsageError for a line that is no entry."""
    skips = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        parts = [part.strip() for part in text.split("|")]
        if len(parts) != 3 or not all(parts):
            raise UsageError(f"{path}, line {number}: must be: pattern | rule | reason")
        skips.append(Skip(*parts))
    return tuple(skips)


def judge(outcome: Outcome, skips: Sequence[Skip], known: Mapping[str, str] = NO_SKIPS) -> Outcome:
    """``outcome``, failed if it is an unlisted skip, or listed but not rejected by that rule.
    ``known``: see ``known_skips``.
    """
    entries = [skip for skip in skips if skip.concerns(outcome.name)]
    if outcome.status is Status.SKIPPED:
        accepted = {skip.rule for skip in entries}.union(known, OF_EXACT)
        causes = accepted.intersection(outcome.rules)
        accepted.update(rule for rule, cause in FOLLOWING.items() if cause in causes)
        if accepted.issuperset(outcome.rules):
            return outcome
        return replace(
            outcome,
            status=Status.FAILED,
            message=f"{outcome.message}\nrejected, and not in the list of accepted skips",
        )
    entries = [skip for skip in entries if skip.rule not in _NOT_THE_DELEGATES]
    if outcome.status is Status.OK and entries:
        text = f"listed as a skip by {entries[0].rule}, but not rejected: remove the entry"
        return replace(outcome, status=Status.FAILED, message=text)
    return outcome
