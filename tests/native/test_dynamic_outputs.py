"""Results of known shapes that the runtime makes dynamic: slices of a slice's whole batch."""

import numpy as np

from delegate.host.delegation import collect_delegations
from delegate.model.graph import DType, Quantization
from rk3588_conformance.builder import Net
from tests.inferences import drawn_int8, interpreter_of, invoke

SHAPE = (1, 7, 3, 48)


def two_slices() -> bytes:
    builder = Net()
    quantization = Quantization((0.5,), (3,))
    x = builder.input("x", SHAPE, DType.INT8, quantization, shape_signature=(-1, *SHAPE[1:]))
    y = builder.add(x, x, output_scale=0.5, output_zero_point=3)
    for rows in (5, 2):
        begin = builder.constant("begin", np.array([0, 1, 0, 0], np.int32))
        size = builder.constant("size", np.array([-1, rows, 3, 48], np.int32))
        part = builder.tensor(
            "part", (1, rows, 3, 48), DType.INT8, quantization, shape_signature=(-1, rows, 3, 48)
        )
        builder.operator("SLICE", (y, begin, size), (part,), None, version=2)
        y = part
    z = builder.tensor("z", builder.spec(y).shape, DType.INT8, quantization)
    block = builder.constant("block", np.ones(2, np.int32))
    crops = builder.constant("crops", np.zeros((2, 2), np.int32))
    builder.operator("BATCH_TO_SPACE_ND", (y, block, crops), (z,), None, version=2)  # of the CPU
    return builder.build(z)


def test_a_dynamic_result_of_a_partition_gets_memory() -> None:
    model = two_slices()
    reference = interpreter_of(model)
    with collect_delegations() as found:
        interpreter = interpreter_of(model, device="simulator")
    assert found[0].delegated_nodes == 3
    for seed in range(3):
        values = drawn_int8(SHAPE, seed)
        (ours,), (theirs,) = invoke(interpreter, values), invoke(reference, values)
        np.testing.assert_array_equal(ours, theirs)
