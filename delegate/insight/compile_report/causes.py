"""Explains why nodes stay on the CPU: one plain sentence per cause, with what to change in the
export.

A rule (``delegate.errors.Rule``) says what one node must fulfil. Here rules that come from the same
habit of an exporter become one cause: shapes that are computed while running, for instance, show in
five rules and as many operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from delegate.lower.rules import EQUAL_IF_EXACT, FORM_IS_KNOWN
from delegate.ops.shared.not_taken import NOT_TAKEN, SHAPES, Cause
from delegate.partition.rules import (
    MEMORY_IS_KEPT,
    NOT_DENIED,
    OPERATOR_SUPPORTED,
    PARTITION_FASTER_ON_NPU,
    READERS_TAKEN,
    SAID_TOGETHER,
)

BY_CHOICE: Final = Cause(
    "By estimate the CPU runs these as fast as the NPU, starts and conversions included (SLOW in "
    "option deny_ops)."
)
_FLOAT: Final = Cause(
    "The values are float32; the NPU computes 8-bit integers, and fp16 where that is asked for.",
    "Convert with full integer quantisation (representative_dataset; Ultralytics: int8=True), or "
    "try -O float=fp16.",
)
_WIDE: Final = Cause(
    "The values are 16-bit integers; the NPU takes 8 bits.",
    "Quantise to int8 (target_spec.supported_ops = [TFLITE_BUILTINS_INT8]) instead of 16x8.",
)
_ONCE: Final = Cause(
    "float16 weights become float32 when the model is loaded; that costs nothing later."
)
_EDGES: Final = Cause(
    "Float values change to integers or back between layers, not only at the model's ends.",
    "Quantise the whole model, without float layers in between.",
)
_TYPES: Final = Cause("Values change their type while the model runs, by CAST.")
_NO_HALF: Final = Cause(
    "In fp16 the NPU does not take these comparisons and functions.",
    "Quantise to int8, where they are part of a table.",
)
_RESIZE: Final = Cause(
    "Bilinear resizing in float other than by 2, 4, 8, or to a single column, is left to the CPU.",
    "Enlarge by 2 several times (align_corners=False), or quantise the model.",
)
_RANK: Final = Cause(
    "Tensors have more dimensions than the operator may have on the NPU.",
    "Write the layer with four dimensions (batch, height, width, channels): a 1-D layer as height "
    "1, windows and heads as pixels or channels.",
)
_ORDER: Final = Cause(
    "Transposes and reshapes mix channels with pixels of several images, as heads of attention do.",
    "Use one head of attention, or keep channels last throughout.",
)
_MOVES: Final = Cause(
    "Operators that only move data stand between nodes of the CPU.",
)
_REDUCED: Final = Cause(
    "A mean, sum or maximum over other axes than height and width, or than the last one.",
    "Reduce height and width together, or the last axis with keep_dims=True.",
)
_LOOKED_UP: Final = Cause(
    "Rows of a table are looked up by numbers that are computed: an embedding."
)
_STRIDE: Final = Cause(
    "A convolution's stride is above 7.",
    "Split patches in two steps, for instance strides 4 and 4 instead of 16.",
)
_LARGE_MEAN: Final = Cause(
    "A mean over more than 31 rows or columns, whose numbers have large prime factors or are above "
    "about 240.",
    "Use sizes that are multiples of 8, or average in two steps: AveragePooling2D, then the mean.",
)

_BY_RULE: Final = {
    PARTITION_FASTER_ON_NPU.name: BY_CHOICE,
    "transposed_size_known": SHAPES,
    "new_shape_constant": SHAPES,
    "new_size_known": SHAPES,
    "static_shapes": SHAPES,
    "cast_constant": _TYPES,
    "compares_float32": _EDGES,
    "host_converts": _EDGES,
    "constants_of_one_value": _EDGES,
    "of_one_value": _EDGES,
    "resized_by_power_of_two": _RESIZE,
    "resize_possible": _RESIZE,
    "feature_rank": _RANK,
    "image_rank": _RANK,
    "padded_rank": _RANK,
    "rank_in_range": _RANK,
    "order_possible": _ORDER,
    "alias_is_free": _MOVES,
    "alias_position_known": _MOVES,
    "tasks_keep_memory": _MOVES,
    "parts_are_reached": _MOVES,
    "features_computed": _MOVES,
    "reduced_over_pixels_or_channels": _REDUCED,
    "reduced_sides_in_range": _LARGE_MEAN,
    FORM_IS_KNOWN.name: Cause(
        "Nobody is known to have run such a task on a board (numerics=auto asks for that).",
        "On a board, rk3588-delegate bring-up tries such tasks; those that pass are used from then "
        "on.",
    ),
    EQUAL_IF_EXACT.name: Cause(
        "More results would be a step off than numerics=exact bears.",
        "Leave numerics at auto, the default.",
    ),
    "classes_in_range": Cause(
        "A softmax of more than 511 classes, of which the kernels leave sums open.",
        "End the model before the softmax: the largest logit is the same class.",
    ),
    SAID_TOGETHER.name: Cause(
        "Parts of a dilated convolution, or functions of means of groups of channels, beside nodes "
        "that the CPU keeps."
    ),
    MEMORY_IS_KEPT.name: Cause(
        "The runtime would overwrite a tensor between two reshapes that another node still reads.",
        "Merge reshapes that follow one another.",
    ),
    READERS_TAKEN.name: Cause("They compute shapes for nodes that stay on the CPU."),
    NOT_DENIED.name: Cause("The option deny_ops keeps them on the CPU.", "Leave deny_ops out."),
    "kernel_stays_inside": Cause(
        "A dense layer on a sequence has scales per channel; kernels of TensorFlow Lite 2.14 read "
        "beyond their memory there.",
        "Quantise dense layers per tensor: "
        "converter._experimental_disable_per_channel_quantization_for_dense_layers = True.",
    ),
    "operands_broadcast": Cause(
        "Two tensors are combined, of which a computed one has to be repeated too often.",
        "Give it the other one's shape where it is made, or make it a constant.",
    ),
    "strides_in_range": _STRIDE,
    "strides_or_patches": _STRIDE,
    "within_one_lsb": Cause(
        "The NPU's result could be more than one step off TensorFlow Lite's, by its scales.",
        "Calibrate with more pictures, so that the scales of neighbours are closer.",
    ),
}
_BY_OPERATOR: Final = {
    ("GATHER", rule): _LOOKED_UP for rule in ("features_computed", "new_shape_constant")
}
"""Causes by operator and rule, which count before those of the rule alone."""
_BY_TYPE: Final = {
    "FLOAT32": _FLOAT,
    "INT16": _WIDE,
    "FLOAT16": _ONCE,
    "INT32": SHAPES,
    "INT64": SHAPES,
}
_TYPE_RULES: Final = (
    "eight_bit_features", "quantised_input", "quantised_output", "quantised_or_float32_input",
    "float32_output",
)  # fmt: skip


def known_cause(op: str, rule: str, reason: str) -> Cause | None:
    """Return why nodes of an operator that break a rule stay on the CPU; ``reason`` is the sentence
    of one of them. None: the rule's own sentence has to do.
    """
    if rule == OPERATOR_SUPPORTED.name:
        name = op.partition(":")[2] or op
        return NOT_TAKEN.get(op) or Cause(f"The NPU does not take the operator {name}.")
    last = reason.rpartition(" ")[2]
    if rule in _TYPE_RULES:
        return _BY_TYPE.get(last)
    if rule == "between_eight_bits":
        return _NO_HALF if last == "fp16" else _BY_TYPE.get(last, _EDGES)
    return _BY_OPERATOR.get((op, rule)) or _BY_RULE.get(rule)


def causes_of(groups: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is left to the CPU by cause, the most expensive first. ``groups``: what
    ``left_by_rule`` gives.
    """
    found: dict[str, dict[str, Any]] = {}
    for group in groups:
        op, rule, reason = group["op"], group["rule"], group["reasons"][0]
        known = known_cause(op, rule, reason)
        cause = known or Cause(f"{reason.rstrip('.')}.")
        entry = found.setdefault(
            rule if known is None else cause.sentence,
            {"cause": cause.sentence, "remedy": cause.remedy, "ops": [], "nodes": [], "cpu_us": 0},
        )
        entry["ops"] += [op] if op not in entry["ops"] else []
        entry["nodes"] = sorted([*entry["nodes"], *group["nodes"]])
        entry["cpu_us"] += group["cpu_us"]
    return sorted(found.values(), key=lambda entry: -entry["cpu_us"])
