"""Options of operators: one table per operator serves the file, the running interpreter and the
model builder.

Comes from: a class per operator (in ``delegate.ops``), whose fields say where the flatbuffer table
and the runtime's C struct hold them. Goes to: ``decode``, which both readers' nodes offer, and the
model builder, which writes the same fields. An enumeration that this version does not know, or a
table that is missing where the operator needs one, gives None; the constraints reject such a node.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from delegate.model.flatbuffer_reader import Table
from delegate.model.graph import Activation, Padding

T = TypeVar("T")


class FieldKind(enum.Enum):
    """The kind of value that a field holds. The file has enumerations and flags in a byte; the
    runtime's structs have them in an int and a byte, and number paddings, and enumerations with an
    "unknown", one higher.
    """

    PADDING = "padding"
    ACTIVATION = "activation"
    ENUM = "enumeration"
    ENUM_FROM_1 = "enumeration whose 0 is unknown to the runtime"
    INT32 = "int32"
    BOOL = "bool"
    FLOAT32 = "float32"


_BYTE, _INT32, _FLOAT32 = map(struct.Struct, ("<b", "<i", "<f"))
_FROM_1 = (FieldKind.PADDING, FieldKind.ENUM_FROM_1)
_ENUMERATIONS = (*_FROM_1, FieldKind.ACTIVATION, FieldKind.ENUM)
_IN_FILE: Mapping[FieldKind, struct.Struct] = MappingProxyType(
    {
        **dict.fromkeys((*_ENUMERATIONS, FieldKind.BOOL), _BYTE),
        FieldKind.INT32: _INT32,
        FieldKind.FLOAT32: _FLOAT32,
    }
)
_IN_STRUCT: Mapping[FieldKind, struct.Struct] = MappingProxyType(
    {**_IN_FILE, **dict.fromkeys(_ENUMERATIONS, _INT32)}
)
_PADDINGS = MappingProxyType({padding.value - 1: padding for padding in Padding})
# The file's ActivationFunctionType ends before SIGMOID, which only the runtime has.
_STRUCT_ACTIVATIONS = MappingProxyType({activation.value: activation for activation in Activation})
_FILE_ACTIVATIONS = MappingProxyType(
    {n: activation for n, activation in _STRUCT_ACTIVATIONS.items() if n < Activation.SIGMOID.value}
)


@dataclass(frozen=True, slots=True)
class OptionField:
    """``slot``: number in the flatbuffer table. ``offset``: bytes from the start of the runtime's
    struct. ``default``: what an absent field of the file means, in the file's numbering.
    """

    kind: FieldKind
    slot: int
    offset: int
    default: int | float = 0


_MADE_WITHOUT: Mapping[FieldKind, object] = MappingProxyType(
    {
        FieldKind.PADDING: Padding.SAME,
        FieldKind.ACTIVATION: Activation.NONE,
        FieldKind.BOOL: False,
    }
)


def option(
    kind: FieldKind, slot: int, offset: int, default: int | float = 0, *, usual: int | None = None
) -> Any:
    """A field of an ``Options`` class. ``usual``: what it is in options that are made without it,
    if not the default.
    """
    value = _MADE_WITHOUT.get(kind, default if usual is None else usual)
    field = OptionField(kind, slot, offset, default)
    return dataclasses.field(default=value, metadata={"option": field})


@dataclass(frozen=True, slots=True)
class Options:
    """Base of all option classes. ``UNION_TYPE``: number in the schema's ``BuiltinOptions``.
    ``NEEDS_TABLE``: False where an operator without options has the schema's defaults, as in the
    runtime.
    """

    UNION_TYPE: ClassVar[int]
    NEEDS_TABLE: ClassVar[bool] = False

    def decode(self, kind: type[T]) -> T | None:
        """Itself, if it is of this kind."""
        return self if isinstance(self, kind) else None


def fields_of(kind: type[Any]) -> tuple[tuple[str, OptionField], ...]:
    """The fields of an options class by name, in its order."""
    return tuple((field.name, field.metadata["option"]) for field in dataclasses.fields(kind))


def stored_bytes(field: OptionField) -> int:
    """Return how many bytes of the runtime's struct a field takes."""
    return _IN_STRUCT[field.kind].size


def struct_bytes(kind: type[Any]) -> int:
    """Return how many bytes of the runtime's struct the fields reach."""
    ends = (field.offset + stored_bytes(field) for _, field in fields_of(kind))
    return max(ends, default=0)


@dataclass(frozen=True, slots=True, eq=False)
class FileOptions:
    """The table of a .tflite file; ``union_type`` says which one of the schema it is."""

    union_type: int
    table: Table | None

    def decode(self, kind: type[T]) -> T | None:
        assert issubclass(kind, Options)
        table = self.table if self.union_type == kind.UNION_TYPE else None
        if table is None and kind.NEEDS_TABLE:
            return None
        return _options(
            kind,
            {
                name: field.default
                if table is None
                else table.number(field.slot, _IN_FILE[field.kind], field.default)
                for name, field in fields_of(kind)
            },
            _FILE_ACTIVATIONS,
        )


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """The first bytes of the runtime's struct."""

    content: bytes

    def decode(self, kind: type[T]) -> T | None:
        if len(self.content) < struct_bytes(kind):
            return None
        values = {
            name: _IN_STRUCT[field.kind].unpack_from(self.content, field.offset)[0]
            - (field.kind in _FROM_1)
            for name, field in fields_of(kind)
        }
        return _options(kind, values, _STRUCT_ACTIVATIONS)


def _options(
    kind: type[T],
    values: Mapping[str, Any],
    activations: Mapping[int, Activation],
) -> T | None:
    """Return the options of ``values`` as the file numbers them."""
    found: dict[str, Any] = {}
    for name, field in fields_of(kind):
        value = values[name]
        if field.kind is FieldKind.PADDING:
            value = _PADDINGS.get(value)
        elif field.kind is FieldKind.ACTIVATION:
            value = activations.get(value)
        elif field.kind is FieldKind.BOOL:
            value = value != 0
        if value is None:
            return None
        found[name] = value
    return kind(**found)


def file_bytes(field: OptionField, value: Any) -> bytes | None:
    """Return what the file holds for ``value`` of an options object; None for the default."""
    if field.kind is FieldKind.PADDING:
        value = value.value - 1
    elif field.kind is FieldKind.ACTIVATION:
        value = value.value
    return None if value == field.default else _IN_FILE[field.kind].pack(value)
