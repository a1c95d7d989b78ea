"""Well-formed flatbuffers that are wrong models: fields, indices, shapes, types, tables and order.

One seed, one file. The bases are small random graphs, layers with sparse weights, and a model with
every construct of the schema; some files are damaged in their bytes as well (``mutate``).
"""

import random
import struct
from collections.abc import Callable

import numpy as np

from delegate.model import tflite_schema as schema
from delegate.model.flatbuffer_tables import Items, OptionsValue, TableValue, write_file
from delegate.model.graph import DType, Quantization
from delegate.ops.add import AddOptions
from rk3588_conformance.builder import ModelBuilder, options
from rk3588_conformance.cut_model import parse
from rk3588_conformance.generated.random_graphs import random_graph
from rk3588_conformance.sparse_grid import integers

# The tables of a large model lie in its first or last bytes, constants between.
TABLES_BYTES = 8192

INTERESTING = (0, 1, 2, 4, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def everything() -> bytes:
    """One model with every construct that the reader knows."""
    rng = np.random.default_rng(0)
    b = ModelBuilder("everything")
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
TYPES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 9, 9, 11, 15, 17, 99)
# Operators that read and write few tensors, and those of the delegate.
CODES = (0, 1, 2, 3, 4, 6, 9, 14, 17, 18, 19, 22, 25, 28, 34, 39, 41, 43, 45, 49, 51, 59, 65, 67,
         77, 83, 102, 114, 126, 206)  # fmt: skip
TENSOR_SLOTS = (schema.OperatorSlot.INPUTS, schema.OperatorSlot.OUTPUTS)
EDGE_SLOTS = (schema.SubGraphSlot.INPUTS, schema.SubGraphSlot.OUTPUTS)


class _Model:
    def __init__(self, root: TableValue, rng: random.Random) -> None:
        self.root, self.rng = root, rng
        self.graph = rng.choice(root.children(schema.ModelSlot.SUBGRAPHS))
        self.tensors = self.graph.children(schema.SubGraphSlot.TENSORS)
        self.operators = self.graph.children(schema.SubGraphSlot.OPERATORS)
        self.buffers = root.children(schema.ModelSlot.BUFFERS)
        self.codes = root.children(schema.ModelSlot.OPERATOR_CODES)

    def number(self) -> int:
        return self.rng.choice(NUMBERS)

    def any_tensor(self) -> int:
        choice = self.rng.random()
        if choice < 0.03:
            return -1
        if choice < 0.05:
            return self.rng.choice((len(self.tensors), -2, 1 << 30, -(1 << 31)))
        return self.rng.randrange(len(self.tensors))


def _change_list(m: _Model, values: list[int]) -> list[int]:
    kind = m.rng.randrange(7)
    if not values or kind == 0:
        values.insert(m.rng.randint(0, len(values)), m.any_tensor())
    elif kind == 1:
        values.pop(m.rng.randrange(len(values)))
    elif kind == 2:
        values.append(m.rng.choice(values))
    elif kind == 3:
        m.rng.shuffle(values)
    else:
        values[m.rng.randrange(len(values))] = m.any_tensor()
    return values


def _wire(m: _Model) -> None:
    """An operator's tensors."""
    operator, slot = m.rng.choice(m.operators), m.rng.choice(TENSOR_SLOTS)
    operator.set_integers(slot, _change_list(m, operator.integers(slot)))


def _cross(m: _Model) -> None:
    """Exchanges a tensor that one operator reads or writes with one of another."""
    first, second = (m.rng.choice(m.operators) for _ in "ab")
    one, other = (m.rng.choice(TENSOR_SLOTS) for _ in "ab")
    a, b = first.integers(one), second.integers(other)
    if a and b:
        a[m.rng.randrange(len(a))] = m.rng.choice(b)
        first.set_integers(one, a)


def _edges(m: _Model) -> None:
    """Inputs and outputs of the model: more, fewer, twice, constants."""
    slot = m.rng.choice(EDGE_SLOTS)
    m.graph.set_integers(slot, _change_list(m, m.graph.integers(slot)))


def _shape(m: _Model) -> None:
    tensor = m.rng.choice(m.tensors)
    slot = schema.TensorSlot.SHAPE if m.rng.random() < 0.85 else schema.TensorSlot.SHAPE_SIGNATURE
    shape = tensor.integers(slot)
    kind = m.rng.randrange(6)
    if not shape or kind == 0:
        shape.insert(m.rng.randint(0, len(shape)), m.rng.choice((0, 1, 1, 2, -1)))
    elif kind == 1:
        shape.pop(m.rng.randrange(len(shape)))
    elif kind == 2:
        m.rng.shuffle(shape)
    else:
        shape[m.rng.randrange(len(shape))] = m.rng.choice((-1, 0, 1, 2, 3, 5, 16, 17, 33, 1 << 16))
    tensor.set_integers(slot, shape)


def _kind(m: _Model) -> None:
    """A tensor's type, buffer, or whether it is a variable."""
    tensor = m.rng.choice(m.tensors)
    kind = m.rng.randrange(4)
    if kind == 0:
        tensor.set_number(schema.TensorSlot.TYPE, m.rng.choice(TYPES), 1)
    elif kind == 1:
        tensor.set_number(schema.TensorSlot.IS_VARIABLE, 1, 1)
    else:
        buffer = m.rng.randrange(len(m.buffers) + (m.rng.random() < 0.1))
        tensor.set_number(schema.TensorSlot.BUFFER, buffer, 4)


def _quantization(m: _Model) -> None:
    tensor = m.rng.choice(m.tensors)
    table = tensor.fields.get(schema.TensorSlot.QUANTIZATION)
    if not isinstance(table, TableValue) or m.rng.random() < 0.05:
        tensor.fields.pop(schema.TensorSlot.QUANTIZATION, None)
        return
    scales = table.fields.get(schema.QuantizationSlot.SCALE)
    zeros = table.fields.get(schema.QuantizationSlot.ZERO_POINT)
    floats = list(np.frombuffer(scales.content, "<f4")) if isinstance(scales, Items) else []
    points = list(np.frombuffer(zeros.content, "<i8")) if isinstance(zeros, Items) else []
    kind = m.rng.randrange(5)
    if kind == 0 and floats:
        floats[m.rng.randrange(len(floats))] = m.rng.choice(FLOATS)
    elif kind == 1 and points:
        points[m.rng.randrange(len(points))] = m.rng.choice((-129, -128, 0, 1, 127, 255, 1 << 40))
    elif kind == 2:
        values: list[object] = m.rng.choice((floats, points))
        del values[m.rng.randint(0, len(values)) :]
    elif kind == 3:
        floats, points = floats * 2, points * 2
    else:
        table.set_number(schema.QuantizationSlot.QUANTIZED_DIMENSION, m.rng.choice((0, 1, 3, 9)), 4)
    with np.errstate(over="ignore"):
        content = np.array(floats, "<f4").tobytes()
    table.fields[schema.QuantizationSlot.SCALE] = Items(content, 4, 4)
    table.fields[schema.QuantizationSlot.ZERO_POINT] = Items(
        np.array(points, "<i8").tobytes(), 8, 8
    )


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
    operator = m.rng.choice(m.operators)
    value = operator.fields.get(schema.OperatorSlot.BUILTIN_OPTIONS)
    kind = m.rng.randrange(4)
    if kind == 0:
        operator.fields.pop(schema.OperatorSlot.BUILTIN_OPTIONS, None)
    elif kind == 1:
        operator.set_number(schema.OperatorSlot.BUILTIN_OPTIONS_TYPE, m.rng.randrange(127), 1)
    elif isinstance(value, OptionsValue) and len(value.inline) > 4:
        inline = bytearray(value.inline)
        place = m.rng.randrange(4, len(inline))
        inline[place] = m.rng.choice((0, 1, 2, 3, 5, 8, 127, 255))
        operator.fields[schema.OperatorSlot.BUILTIN_OPTIONS] = OptionsValue(
            bytes(inline), value.vtable, value.phase, value.references
        )


def _order(m: _Model) -> None:
    """Operators in another order, twice, or gone."""
    kind = m.rng.randrange(4)
    one, other = (m.rng.randrange(len(m.operators)) for _ in "ab")
    if kind == 0:
        m.operators.insert(other, m.operators[one])
    elif kind == 1 and len(m.operators) > 1:
        m.operators.pop(one)
    else:
        m.operators[one], m.operators[other] = m.operators[other], m.operators[one]


def _code(m: _Model) -> None:
    """Another operator, version, or a custom one: also our own, with any content."""
    code = m.rng.choice(m.codes)
    kind = m.rng.randrange(4)
    if kind == 0:
        code.set_number(schema.OperatorCodeSlot.VERSION, m.rng.choice((0, 1, 2, 3, 4, 5, 99)), 4)
    elif kind == 1:
        code.set_number(schema.OperatorCodeSlot.DEPRECATED_BUILTIN_CODE, 32, 1)
        code.set_number(schema.OperatorCodeSlot.BUILTIN_CODE, 32, 4)
        code.set_text(schema.OperatorCodeSlot.CUSTOM_CODE, m.rng.choice(("rk3588-npu", "Any", "")))
        size = m.rng.choice((0, 1, 8, 64))
        options = Items(m.rng.randbytes(size), 1, 16)
        m.rng.choice(m.operators).fields[schema.OperatorSlot.CUSTOM_OPTIONS] = options
    else:
        number = m.rng.choice(CODES)
        code.set_number(schema.OperatorCodeSlot.DEPRECATED_BUILTIN_CODE, min(number, 127), 1)
        code.set_number(schema.OperatorCodeSlot.BUILTIN_CODE, number, 4)


def _share(m: _Model) -> None:
    """One table in the place of another, so that both are the same."""
    tables = m.rng.choice((m.tensors, m.buffers, m.operators, m.codes))
    tables[m.rng.randrange(len(tables))] = m.rng.choice(tables)


def _any_number(m: _Model) -> None:
    """Any number of any table."""
    table = m.rng.choice([m.graph, m.root, *m.tensors, *m.operators, *m.buffers, *m.codes])
    slots = [slot for slot, value in table.fields.items() if isinstance(value, bytes)]
    if slots:
        _renumber(m, table, m.rng.choice(slots))


def _renumber(m: _Model, table: TableValue, slot: int) -> None:
    value = table.fields[slot]
    if isinstance(value, bytes):
        table.fields[slot] = (m.number() % (1 << 8 * len(value))).to_bytes(len(value), "little")


def _tree(m: _Model) -> None:
    """Change a number of the tree that says where a sparse constant's values stand."""
    found = [t.fields.get(schema.TensorSlot.SPARSITY) for t in m.tensors]
    trees = [tree for tree in found if isinstance(tree, TableValue)]
    if not trees:
        return
    tree = m.rng.choice(trees)
    levels = tree.children(schema.SparsitySlot.LEVELS)
    vectors = [v for level in levels for v in level.fields.values() if isinstance(v, TableValue)]
    table = m.rng.choice([tree, *levels, *vectors, *vectors])
    slot = m.rng.choice([s for s, v in table.fields.items() if isinstance(v, bytes | Items)])
    value = table.fields[slot]
    _renumber(m, table, slot)
    if isinstance(value, Items):
        size = value.item_bytes
        kind = np.dtype(f"<u{size}")
        numbers = [int(v) for v in np.frombuffer(value.content, kind)]
        changed = [v % (1 << 8 * size) for v in _change_list(m, numbers)]
        table.fields[slot] = Items(np.array(changed, kind).tobytes(), size, size)


MUTATIONS: tuple[tuple[int, Callable[[_Model], None]], ...] = (
    (4, _wire), (3, _cross), (4, _edges), (4, _shape), (4, _kind), (4, _quantization),
    (3, _content), (3, _options), (3, _order), (2, _code), (2, _share), (2, _any_number),
)  # fmt: skip
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
