"""Damage the bytes of a model file."""

from __future__ import annotations

import struct

import numpy as np

from delegate.model.graph import DType, Quantization
from delegate.ops.add import AddOptions
from rk3588_conformance.builder import ModelBuilder, options

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
