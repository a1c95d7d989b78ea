"""Well-formed flatbuffers that are wrong models: fields, indices, shapes, types, tables and order.

One seed, one file. The bases are small random graphs, layers with sparse weights, and a model with
every construct of the schema; some files are damaged in their bytes as well (``mutate``).
"""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from delegate.model import tflite_schema as schema
from delegate.model.flatbuffer_tables import Items, OptionsValue, TableValue, write_file
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_operators import PLACEHOLDER_FOR_GREATER_OP_CODES
from delegate.ops.add import AddOptions
from rk3588_conformance.builder import Net, options
from rk3588_conformance.cut_model import parse
from rk3588_conformance.generated.random_graphs import random_graph
from rk3588_conformance.sparse_grid import integers

# The tables of a large model lie in its first or last bytes, constants between.
TABLES_BYTES = 8192

INTERESTING = (0, 1, 2, 4, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def everything() -> bytes:
    """One model with every construct that the reader knows."""
    rng = np.random.default_rng(0)
    b = Net("everything")
    q = Quantization((0.5,), (3,))
    x = b.input("x", (1, 4), DType.INT8, q, shape_signature=(-1, 4))
    state = b.tensor("state", (1, 4), DType.INT8, q, is_variable=True)
    b.constant("packed", np.array([0x21], np.uint8), dtype=DType.INT4, shape=(2,))
    b.constant("sparse", np.arange(3, dtype=np.int8), shape=(2, 2), is_sparse=True)
    b.constant("far", rng.integers(0, 9, (3, 4), dtype=np.int32), is_external=True)
    b.constant("axis", np.ones((2, 3), np.int8), Quantization((1.0,) * 3, (0,), 1))
    y = b.tensor("y", (1, 4), DType.INT8, q)
    b.operator("ADD", (x, state), (y,), AddOptions(), version=2)
    z = b.tensor("z", (1, 4), DType.INT8, q)
    b.operator("CUSTOM:Op", (y, -1), (z,), custom_options=b"abc")
    b.operator(209, (z,), (x,), options.reshape((1, 4)))
    b.output(z)
    b.subgraph("other")
    b.output(b.input("w", (2,), DType.FLOAT32))
    b.metadata("note", b"text")
    b.signature("serve", {"x": x}, {"z": z})
    return b.build()


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """One to four changes of bytes, words, runs, or the length."""
    mutant = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(0, min(len(content), TABLES_BYTES)))
        if rng.random() < 0.7:
            place = len(mutant) - 1 - place  # flatbuffers put the tables behind the buffers
        place = min(max(place, 0), max(len(mutant) - 4, 0))
        kind = rng.integers(0, 6)
        if kind == 0:
            mutant[place] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            mutant[place] = int(rng.integers(0, 256))
        elif kind == 2:
            aligned = place // 4 * 4
            struct.pack_into("<I", mutant, aligned, int(rng.choice(INTERESTING)))
        elif kind == 3:
            aligned = place // 4 * 4  # a plausible offset: somewhere later in the file
            struct.pack_into("<I", mutant, aligned, int(rng.integers(0, len(mutant) - aligned)))
        elif kind == 4:
            other = int(rng.integers(0, max(len(mutant) - 16, 1)))
            mutant[place : place + 8] = mutant[other : other + 8]
        else:
            del mutant[int(rng.integers(8, len(mutant))) :]
            if len(mutant) < 16:
                break
    return bytes(mutant)


NUMBERS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 64, 127, 255, 256, 65535, 1 << 20, (1 << 31) - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-30, 1e-7, 0.5, 3.0, 1e7, 1e38, float("inf"), float("nan"))
ZERO_POINTS = (-129, -128, 0, 1, 127, 255, 1 << 40)
SIZES = (-1, 0, 1, 2, 3, 5, 16, 17, 33, 1 << 16)
TYPES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 9, 9, 11, 15, 17, 99)
# Operators that read and write few tensors, and those of the delegate.
CODES = (0, 1, 2, 3, 4, 6, 9, 14, 17, 18, 19, 22, 25, 28, 34, 39, 41, 43, 45, 49, 51, 59, 65, 67,
         77, 83, 102, 114, 126, 206)  # fmt: skip


class _Model:
    """``tables``: those of a kind, by its name."""

    def __init__(self, root: TableValue, rng: random.Random) -> None:
        self.rng = rng
        graph = rng.choice(root.children(schema.ModelSlot.SUBGRAPHS))
        self.tensors = graph.children(schema.SubGraphSlot.TENSORS)
        self.operators = graph.children(schema.SubGraphSlot.OPERATORS)
        self.buffers = root.children(schema.ModelSlot.BUFFERS)
        self.codes = root.children(schema.ModelSlot.OPERATOR_CODES)
        trees = self._of_tensors(schema.TensorSlot.SPARSITY)
        levels = [level for t in trees for level in t.children(schema.SparsitySlot.LEVELS)]
        vectors = [v for level in levels for v in level.fields.values()
                   if isinstance(v, TableValue)]  # fmt: skip
        self.tables = {
            "graph": [graph], "tensors": self.tensors, "operators": self.operators,
            "buffers": self.buffers, "codes": self.codes,
            "scalings": self._of_tensors(schema.TensorSlot.QUANTIZATION),
            "trees": [*trees, *levels, *vectors, *vectors],
            "all": [graph, root, *self.tensors, *self.operators, *self.buffers, *self.codes],
        }  # fmt: skip

    def _of_tensors(self, slot: int) -> list[TableValue]:
        found = (tensor.fields.get(slot) for tensor in self.tensors)
        return [table for table in found if isinstance(table, TableValue)]

    def any_tensor(self) -> int:
        choice = self.rng.random()
        if choice < 0.03:
            return -1
        if choice < 0.05:
            return self.rng.choice((len(self.tensors), -2, 1 << 30, -(1 << 31)))
        return self.rng.randrange(len(self.tensors))

    def tensor_nearby(self) -> int:
        """A tensor that an operator reads or writes."""
        known = self.rng.choice(self.operators).integers(self.rng.choice(_TENSORS))
        return self.rng.choice(known or [-1])

    def any_buffer(self) -> int:
        return self.rng.randrange(len(self.buffers) + (self.rng.random() < 0.1))


Change = Callable[[_Model], None]
Drawn = Callable[[_Model], Any]


def _one_of(values: Sequence[Any]) -> Drawn:
    return lambda m: m.rng.choice(values)


def _change(m: _Model, values: list[Any], drawn: Drawn) -> None:
    """One more, one less, one twice, another order, or another one."""
    kind = m.rng.randrange(7)
    if not values or kind == 0:
        values.insert(m.rng.randint(0, len(values)), drawn(m))
    elif kind == 1:
        values.pop(m.rng.randrange(len(values)))
    elif kind == 2:
        values.append(m.rng.choice(values))
    elif kind == 3:
        m.rng.shuffle(values)
    else:
        values[m.rng.randrange(len(values))] = drawn(m)


def _list(tables: str, slots: Sequence[int], drawn: Drawn, kind: str = "<i4") -> Change:
    """Changes a vector of numbers of a ``kind`` of NumPy's."""

    def change(m: _Model) -> None:
        if m.tables[tables]:
            _change_vector(m, m.rng.choice(m.tables[tables]), m.rng.choice(slots), drawn, kind)

    return change


def _change_vector(m: _Model, table: TableValue, slot: int, drawn: Drawn, kind: str) -> None:
    items = table.fields.get(slot)
    values = np.frombuffer(items.content, kind).tolist() if isinstance(items, Items) else []
    _change(m, values, drawn)
    with np.errstate(over="ignore"):
        content = np.array(values, kind)
    table.fields[slot] = Items(content.tobytes(), content.itemsize, content.itemsize)


def _number(tables: str, slot: int, size: int, drawn: Drawn) -> Change:
    """Changes a number of ``size`` bytes."""

    def change(m: _Model) -> None:
        if m.tables[tables]:
            m.rng.choice(m.tables[tables]).set_number(slot, drawn(m), size)

    return change


def _without(tables: str, slot: int) -> Change:
    def change(m: _Model) -> None:
        m.rng.choice(m.tables[tables]).fields.pop(slot, None)

    return change


def _any(tables: str, kinds: tuple[type, ...]) -> Change:
    """Changes any number of any table, or with Items among ``kinds`` any vector too."""

    def change(m: _Model) -> None:
        table = m.rng.choice(m.tables[tables] or [TableValue()])
        slots = [slot for slot, value in table.fields.items() if isinstance(value, kinds)]
        if not slots:
            return
        slot = m.rng.choice(slots)
        value = table.fields[slot]
        size = value.item_bytes if isinstance(value, Items) else len(cast("bytes", value))
        drawn: Drawn = lambda m: m.rng.choice(NUMBERS) % (1 << 8 * size)  # noqa: E731
        if isinstance(value, Items):
            _change_vector(m, table, slot, drawn, f"<u{size}")
        else:
            table.fields[slot] = drawn(m).to_bytes(size, "little")

    return change


def _content(m: _Model) -> None:
    """Change what a buffer holds: shorter, longer, other values, nothing."""
    buffer = m.rng.choice(m.buffers)
    items = buffer.fields.get(schema.BufferSlot.DATA)
    content = bytearray(items.content) if isinstance(items, Items) else bytearray()
    kind = m.rng.randrange(5)
    if kind == 0:
        content = content[: m.rng.randint(0, len(content))]
    elif kind == 1:
        content += m.rng.randbytes(m.rng.choice((1, 4, 16)))
    elif kind == 2:
        content.clear()
    elif len(content) >= 4:
        for _ in range(m.rng.choice((1, 1, 4))):
            place = m.rng.randrange(0, len(content) - 3, 4)
            struct.pack_into("<i", content, place, m.rng.choice((-1, -9, 0, 1, 2, 5, 1 << 30)))
    buffer.fields[schema.BufferSlot.DATA] = Items(bytes(content), 1, 16)


def _options(m: _Model) -> None:
    """Changes a byte of an operator's options."""
    operator = m.rng.choice(m.operators)
    value = operator.fields.get(schema.OperatorSlot.BUILTIN_OPTIONS)
    if isinstance(value, OptionsValue) and len(value.inline) > 4:
        inline = bytearray(value.inline)
        inline[m.rng.randrange(4, len(inline))] = m.rng.choice((0, 1, 2, 3, 5, 8, 127, 255))
        changed = replace(value, inline=bytes(inline))
        operator.fields[schema.OperatorSlot.BUILTIN_OPTIONS] = changed


def _order(m: _Model) -> None:
    """Operators in another order, twice, or gone."""
    _change(m, m.operators, _one_of(m.operators))


def _code(m: _Model) -> None:
    """Another operator, or a custom one: also our own, with any content."""
    code, number = m.rng.choice(m.codes), m.rng.choice(CODES)
    if m.rng.random() < 0.3:
        number = 32
        code.set_text(schema.OperatorCodeSlot.CUSTOM_CODE, m.rng.choice(("rk3588-npu", "Any", "")))
        options = Items(m.rng.randbytes(m.rng.choice((0, 1, 8, 64))), 1, 16)
        m.rng.choice(m.operators).fields[schema.OperatorSlot.CUSTOM_OPTIONS] = options
    old = min(number, PLACEHOLDER_FOR_GREATER_OP_CODES)
    code.set_number(schema.OperatorCodeSlot.DEPRECATED_BUILTIN_CODE, old, 1)
    code.set_number(schema.OperatorCodeSlot.BUILTIN_CODE, number, 4)


def _share(m: _Model) -> None:
    """One table in the place of another, so that both are the same."""
    tables = m.rng.choice((m.tensors, m.buffers, m.operators, m.codes))
    tables[m.rng.randrange(len(tables))] = m.rng.choice(tables)


_TENSORS = (schema.OperatorSlot.INPUTS, schema.OperatorSlot.OUTPUTS)
_EDGES = (schema.SubGraphSlot.INPUTS, schema.SubGraphSlot.OUTPUTS)
_SHAPES = (*6 * (schema.TensorSlot.SHAPE,), schema.TensorSlot.SHAPE_SIGNATURE)
_SCALES, _ZEROS = (schema.QuantizationSlot.SCALE,), (schema.QuantizationSlot.ZERO_POINT,)
_tree = _any("trees", (bytes, Items))
MUTATIONS: tuple[tuple[int, Change], ...] = (
    (4, _list("operators", _TENSORS, _Model.any_tensor)),
    (3, _list("operators", _TENSORS, _Model.tensor_nearby)),
    (4, _list("graph", _EDGES, _Model.any_tensor)),
    (4, _list("tensors", _SHAPES, _one_of(SIZES))),
    (2, _list("scalings", _SCALES, _one_of(FLOATS), "<f4")),
    (1, _list("scalings", _ZEROS, _one_of(ZERO_POINTS), "<i8")),
    (1, _number("scalings", schema.QuantizationSlot.QUANTIZED_DIMENSION, 4, _one_of((0, 1, 3, 9)))),
    (1, _number("tensors", schema.TensorSlot.TYPE, 1, _one_of(TYPES))),
    (1, _number("tensors", schema.TensorSlot.IS_VARIABLE, 1, lambda _: 1)),
    (2, _number("tensors", schema.TensorSlot.BUFFER, 4, _Model.any_buffer)),
    (1, _number("operators", schema.OperatorSlot.BUILTIN_OPTIONS_TYPE, 1, _one_of(range(127)))),
    (1, _number("codes", schema.OperatorCodeSlot.VERSION, 4, _one_of((0, 1, 2, 3, 4, 5, 99)))),
    (1, _without("tensors", schema.TensorSlot.QUANTIZATION)),
    (1, _without("operators", schema.OperatorSlot.BUILTIN_OPTIONS)),
    (3, _content), (1, _options), (3, _order), (1, _code), (2, _share), (2, _any("all", (bytes,))),
)  # fmt: skip
"""Changes, and how often each is made."""
EVERYTHING_SHARE = 0.05
SPARSE_SHARE = 0.05
BYTES_SHARE = 0.08


def sparse_model(rng: random.Random) -> bytes:
    """A layer whose int8 weights stand behind DENSIFY."""
    case = integers.case(rng.choice(list(integers.parameters())))
    assert case.build is not None
    return case.build(case.generator())


def mutant(seed: int) -> bytes:
    """A changed model; the same seed gives the same bytes."""
    rng = random.Random(seed)
    drawn = rng.random()
    is_sparse = EVERYTHING_SHARE <= drawn < EVERYTHING_SHARE + SPARSE_SHARE
    if is_sparse:
        base = sparse_model(rng)
    elif drawn < EVERYTHING_SHARE:
        base = everything()
    else:
        base = random_graph(rng.randrange(1 << 30)).content
    root = parse(base)
    weights = [weight for weight, _ in MUTATIONS]
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        ((_, change),) = rng.choices(MUTATIONS, weights)
        if is_sparse and rng.random() < 0.5:
            change = _tree
        model = _Model(root, rng)
        if model.tensors and model.operators and model.buffers and model.codes:
            change(model)
    content = write_file(root, b"TFL3")
    if rng.random() < BYTES_SHARE:
        content = mutate(content, np.random.default_rng(seed))
    return content
