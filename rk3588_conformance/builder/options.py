"""Builtin options of operators, as the flatbuffer fields that ``ModelBuilder`` writes.

Comes from: the options of ``delegate.ops``, and here those of operators that have none there. Goes
to: ``ModelBuilder.operator``. A field that equals the schema's default is left out of the file, as
the converter does, so that readers meet their own default paths.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from delegate.model.flatbuffer_tables import Items, Value
from delegate.model.operator_options import Options, fields_of, file_bytes

# Numbers in the schema's ``BuiltinOptions`` of operators whose options nobody reads.
_SOFTMAX, _RESHAPE, _SPLIT, _SPLIT_V = 9, 17, 35, 79


@dataclass(frozen=True, slots=True)
class BuiltinOptions:
    """A table of the ``BuiltinOptions`` union: its number and its fields by slot, as the file has
    them.
    """

    union_type: int
    fields: Mapping[int, Value] = field(default_factory=dict)


def of(options: Options | BuiltinOptions | None) -> BuiltinOptions:
    """The table of an operator of ``delegate.ops``, of another, or none."""
    if not isinstance(options, Options):
        return options or BuiltinOptions(0)
    found = {
        row.slot: file_bytes(row, getattr(options, name)) for name, row in fields_of(type(options))
    }
    return BuiltinOptions(
        options.UNION_TYPE, {slot: value for slot, value in found.items() if value is not None}
    )


def softmax(beta: float = 1.0) -> BuiltinOptions:
    return BuiltinOptions(_SOFTMAX, {0: struct.pack("<f", beta)})


def reshape(new_shape: Sequence[int]) -> BuiltinOptions:
    return BuiltinOptions(_RESHAPE, {0: Items(np.array(new_shape, "<i4").tobytes(), 4, 4)})


def split(num_splits: int) -> BuiltinOptions:
    return BuiltinOptions(_SPLIT, {0: struct.pack("<i", num_splits)})


def split_v(num_splits: int) -> BuiltinOptions:
    return BuiltinOptions(_SPLIT_V, {0: struct.pack("<i", num_splits)})
