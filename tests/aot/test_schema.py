"""The copy's schema against the public one, as the generated accessors of `tflite` have it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

import pytest

from delegate.compile.aot import schema

tflite = pytest.importorskip("tflite")

_NUMBERS = {"Bool": 1, "Int8": 1, "Uint8": 1, "Int32": 4, "Uint32": 4, "Float32": 4, "Int64": 8,
            "Uint64": 8}  # fmt: skip


def public_slots(name: str) -> dict[int, str]:
    """Slot to kind: "number 4", "vector 8", "string", "tables", "table" or "union"."""
    slots = {}
    source = inspect.getsource(getattr(tflite, name))
    for part in source.split(f"    # {name}\n")[1:]:
        method = re.match(r"    def (\w+)\(self", part)
        offset = re.search(r"self\._tab\.Offset\((\d+)\)", part)
        if method is None or offset is None or re.search("Length$|AsNumpy$|IsNone$", method[1]):
            continue
        slot = (int(offset[1]) - 4) // 2
        if "_tab.Union" in part:
            slots[slot] = "union"
        elif "_tab.String(o" in part:
            slots[slot] = "string"
        elif "Vector(o)" in part:
            items = re.search(r"j \* (\d+)", part)
            is_table = ".Indirect" in part
            slots[slot] = "tables" if is_table else f"vector {items[1] if items else 1}"
        elif "Indirect" in part:
            slots[slot] = "table"
        else:
            number = re.search(r"number_types\.(\w+?)Flags, o", part)
            assert number is not None, (name, method[1])
            slots[slot] = f"number {_NUMBERS[number[1]]}"
    return slots


def kind_text(kind: schema.Kind) -> str:
    if isinstance(kind, schema.Number):
        return f"number {kind.size_bytes}"
    if isinstance(kind, schema.Vector):
        return f"vector {kind.item_bytes}"
    texts = {schema.String: "string", schema.Child: "table", schema.Children: "tables"}
    return texts.get(type(kind), "union")


def tables_below(table: schema.TableType) -> dict[str, schema.TableType]:
    found = {table.name: table}
    for kind in table.slots.values():
        if isinstance(kind, (schema.Child, schema.Children)):
            found.update(tables_below(kind.table))
        elif isinstance(kind, schema.Choice):
            for child in kind.tables.values():
                found.update(tables_below(child))
    return found


TABLES = tables_below(schema.MODEL)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_table_has_the_public_slots(name):
    ours = {slot: kind_text(kind) for slot, kind in TABLES[name].slots.items()}
    assert ours == public_slots(name)


def union_names(union: type) -> dict[int, str]:
    return {v: k for k, v in vars(union).items() if isinstance(v, int) and v > 0}


@pytest.mark.parametrize(
    ("slot", "union"), [(4, "BuiltinOptions"), (12, "BuiltinOptions2")], ids=["first", "second"]
)
def test_options_have_the_public_references(slot, union):
    options = schema.OPERATOR.slots[slot]
    assert isinstance(options, schema.Options)
    # Accessors of a union module: tflite.BuiltinOptions2 is a class of constants.
    names = union_names(getattr(tflite, union))
    assert options.last_type == max(names)
    for number, name in names.items():
        if not hasattr(tflite, name):
            continue
        expected = {s: k for s, k in public_slots(name).items() if not k.startswith("number")}
        ours: Mapping[int, schema.Vector | schema.String] = options.references.get(number, {})
        assert {s: kind_text(k) for s, k in ours.items()} == expected, name
