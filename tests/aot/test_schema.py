"""The copy's schema against the public one, as the generated accessors of `tflite` have it."""

import inspect
import re
from collections.abc import Iterable

import pytest

from delegate.model import tflite_schema

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


def kind_text(kind: str) -> str:
    if kind.isdigit():
        return f"number {kind}"
    if kind in ("text", "bytes"):
        return {"text": "string", "bytes": "vector 1"}[kind]
    if kind.startswith("["):
        return f"vector {kind[1:-1]}" if kind[1:-1].isdigit() else "tables"
    return "union" if "|" in kind or kind in tflite_schema.LAST_OPTIONS else "table"


def texts(kinds: Iterable[str]) -> dict[int, str]:
    return {slot: kind_text(kind) for slot, kind in enumerate(kinds) if kind != "-"}


@pytest.mark.parametrize("name", sorted(tflite_schema.TABLES))
def test_table_has_the_public_slots(name):
    assert texts(tflite_schema.TABLES[name]) == public_slots(name)


def test_every_table_is_reached_and_known():
    words = " ".join(word for kinds in tflite_schema.TABLES.values() for word in kinds)
    named = set(re.findall(r"[A-Z]\w+", words)) - set(tflite_schema.LAST_OPTIONS)
    assert named | {tflite_schema.MODEL} == set(tflite_schema.TABLES)


def union_names(union: type) -> dict[int, str]:
    return {v: k for k, v in vars(union).items() if isinstance(v, int) and v > 0}


@pytest.mark.parametrize("union", tflite_schema.LAST_OPTIONS)
def test_options_have_the_public_references(union):
    # Accessors of a union module: tflite.BuiltinOptions2 is a class of constants.
    names = union_names(getattr(tflite, union))
    assert tflite_schema.LAST_OPTIONS[union] == max(names)
    for number, name in names.items():
        if not hasattr(tflite, name):
            continue
        expected = {s: k for s, k in public_slots(name).items() if not k.startswith("number")}
        assert texts(tflite_schema.REFERENCES.get(f"{union} {number}", ())) == expected, name
