"""Inconsistent and hostile files: each a ModelError that names the place, in bounded resources."""

import struct
import time
import tracemalloc
from collections.abc import Callable

import flatbuffers
import numpy as np
import pytest

from delegate.errors import ModelError
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph, read_model
from rk3588_conformance.builder import Net


def builder_with_tensor(**kwargs: object) -> Net:
    b = Net()
    b.tensor("x", (2, 3), DType.INT8, **kwargs)  # type: ignore[arg-type]
    return b


def expect(b: Net, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_model(b.build())


Add = Callable[[Net], object]
ODD: list[tuple[Add, str]] = [
    (lambda b: b.operator("ADD", (0, 1), (0,)),
     "subgraph 0 operator 0: refers to tensor 1; the subgraph has 1"),
    (lambda b: b.operator("ADD", (0, -2), (0,)), "refers to tensor -2"),
    (lambda b: b.output(-1), "subgraph 0: refers to tensor -1"),
    (lambda b: b.signature("s", {"a": 9}, {}), "argument 0: refers to tensor 9"),
    (lambda b: b.signature("s", {}, {}, subgraph=3), "signature 0: refers to subgraph 3"),
    (lambda b: b.constant("c", np.zeros(5, np.int8), shape=(2, 3)),
     r"constant of shape \[2, 3\] and type INT8 takes 6 bytes, its buffer holds 5"),
    (lambda b: b.constant("c", np.zeros(6, np.int8), shape=(-2, -3)), "its buffer holds 6"),
    (lambda b: b.constant("c", np.zeros(1, np.int8), shape=(1,) * 33), "rank 33; the limit is 32"),
    (lambda b: b.constant("c", np.zeros(1, np.int8), shape=(2**31 - 1,) * 32),
     "its buffer holds 1"),
    (lambda b: b.operator(32, (0,), (0,)), "operator code 0: a custom operator without a name"),
]  # fmt: skip


@pytest.mark.parametrize(("add", "message"), ODD)
def test_what_is_inconsistent_is_named(add: Add, message: str) -> None:
    b = builder_with_tensor()
    add(b)
    expect(b, message)


@pytest.mark.parametrize(
    ("quantization", "message"),
    [
        (Quantization((1.0, 2.0), (0, 0, 0), 0), "2 scales and 3 zero points"),
        (Quantization((1.0,), (), 0), "1 scales and 0 zero points"),
        (Quantization((1.0, 2.0), (0, 0), 1), r"2 scales along axis 1 of shape \[2, 3\]"),
        (Quantization((1.0, 2.0), (0, 0), -1), "along axis -1"),
        (Quantization((1.0, 2.0), (0, 0), 7), "along axis 7"),
        (Quantization((1.0,), (2**40,), 0), "zero point 1099511627776 exceeds 32 bits"),
    ],
)
def test_inconsistent_quantisation(quantization: Quantization, message: str) -> None:
    expect(builder_with_tensor(quantization=quantization), message)


def test_external_buffer_beyond_the_file() -> None:
    b = Net()
    b.constant("c", np.zeros(64, np.int8), is_external=True)
    with pytest.raises(ModelError, match="buffer 1: 64 bytes at byte"):
        read_graph(b.build()[:-1])


def test_name_that_is_not_utf8() -> None:
    b = Net()
    b.tensor("plain-name", (1,), DType.INT8)
    content = b.build().replace(b"plain-name", b"plain\xff\xfename"[:10])
    with pytest.raises(ModelError, match="tensor 0: text in field 3 is not UTF-8"):
        read_graph(content)


def test_other_schema_version() -> None:
    b = builder_with_tensor()
    content = bytearray(b.build())
    root = struct.unpack_from("<I", content, 0)[0]
    vtable = root - struct.unpack_from("<i", content, root)[0]
    field = root + struct.unpack_from("<H", content, vtable + 4)[0]
    struct.pack_into("<I", content, field, 4)
    with pytest.raises(ModelError, match="schema version 4; only version 3 is defined"):
        read_graph(content)


def model_with(fb: flatbuffers.Builder, slots: dict[int, int]) -> bytes:
    fb.StartObject(8)
    fb.PrependUint32Slot(0, 3, 0)
    for slot, offset in slots.items():
        fb.PrependUOffsetTRelativeSlot(slot, offset, 0)
    fb.Finish(fb.EndObject(), b"TFL3")
    return bytes(fb.Output())


def offsets(fb: flatbuffers.Builder, target: int, count: int) -> int:
    """A vector of ``count`` offsets that all point to ``target``."""
    fb.StartVector(4, count, 4)
    for _ in range(count):
        fb.PrependUOffsetTRelative(target)
    return int(fb.EndVector())


def hostile_tensors(count: int, dimensions: int) -> bytes:
    """A subgraph of ``count`` times the same tensor, whose shape has ``dimensions`` entries."""
    fb = flatbuffers.Builder(1 << 20)
    shape = fb.CreateNumpyVector(np.ones(dimensions, np.int32))
    name = fb.CreateString("n" * dimensions)
    fb.StartObject(4)
    fb.PrependUOffsetTRelativeSlot(0, shape, 0)
    fb.PrependUOffsetTRelativeSlot(3, name, 0)
    tensor = fb.EndObject()
    tensors = offsets(fb, tensor, count)
    fb.StartObject(1)
    fb.PrependUOffsetTRelativeSlot(0, tensors, 0)
    graph = fb.EndObject()
    return model_with(fb, {2: offsets(fb, graph, 1)})


def test_many_tensors_sharing_one_huge_vector_cost_little() -> None:
    content = hostile_tensors(20_000, 20_000)  # 180 kB that describe 2 GB
    started = time.perf_counter()
    with pytest.raises(ModelError, match=r"share so much|rank 20000"):
        read_graph(content)
    assert time.perf_counter() - started < 5
    content = hostile_tensors(20_000, 30)
    tracemalloc.start()
    with pytest.raises(ModelError, match=r"share so much"):
        read_graph(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * len(content)


def test_subgraphs_sharing_one_operator_list_cost_little() -> None:
    fb = flatbuffers.Builder(1 << 20)
    fb.StartObject(1)
    tensor = fb.EndObject()
    tensors = offsets(fb, tensor, 5_000)
    fb.StartObject(1)
    fb.PrependUOffsetTRelativeSlot(0, tensors, 0)
    graph = fb.EndObject()
    content = model_with(fb, {2: offsets(fb, graph, 5_000)})  # 40 kB, 25 million tensors
    started = time.perf_counter()
    with pytest.raises(ModelError, match=r"share so much|tables"):
        read_model(content)
    assert time.perf_counter() - started < 5


def test_table_that_points_to_itself() -> None:
    """Offsets in a cycle: the schema that is read has no recursion, so none can be entered."""
    content = bytearray(builder_with_tensor().build())
    refused = 0
    for position in range(8, len(content) - 4, 4):
        looped = bytearray(content)
        struct.pack_into("<I", looped, position, 0)
        try:
            read_model(looped)
        except ModelError:
            refused += 1
    assert refused >= 5


def test_huge_vector_length() -> None:
    b = Net()
    b.constant("c", np.full((7, 11), 5, np.int8))
    content = b.build().replace(struct.pack("<I", 77), struct.pack("<I", 0xFFFFFFFF), 1)
    with pytest.raises(ModelError, match="claims 4294967295 items"):
        read_graph(content)


def test_vector_that_ends_one_item_behind_the_file() -> None:
    """Its count alone would fit; its items of four bytes do not."""
    fb = flatbuffers.Builder(256)
    shape = fb.CreateNumpyVector(np.array([7, 11], np.int32))  # written first: last in the file
    fb.StartObject(1)
    fb.PrependUOffsetTRelativeSlot(0, shape, 0)
    tensors = offsets(fb, fb.EndObject(), 1)
    fb.StartObject(1)
    fb.PrependUOffsetTRelativeSlot(0, tensors, 0)
    content = model_with(fb, {2: offsets(fb, fb.EndObject(), 1)})
    assert content.endswith(struct.pack("<Iii", 2, 7, 11))
    assert read_graph(content).tensors[0].shape == (7, 11)
    longer = content[:-12] + struct.pack("<Iii", 3, 7, 11)
    with pytest.raises(ModelError, match="field 0 claims 3 items of 4 bytes"):
        read_graph(longer)
