"""Names of tensors that lie beyond the file: runtimes do not look at them, the snapshot does."""

import struct

import numpy as np
import pytest
import tflite

import delegate
from delegate.errors import ModelError
from delegate.host.delegation import collect_delegations
from delegate.host.runtimes import find_runtime
from delegate.model.graph import DType, Quantization
from rk3588_conformance.builder import Net, layers
from tests.loops import for_each

NAME_SLOT = 4 + 2 * 3
"""In a Tensor's vtable: shape, type and buffer come before."""


def with_name_offset(content: bytes, offset: int) -> bytes:
    """The name of the first output lies ``offset`` bytes behind the place in its table."""
    graph = tflite.Model.GetRootAs(content, 0).Subgraphs(0)
    table = graph.Tensors(graph.Outputs(0))._tab
    place = table.Pos + table.Offset(NAME_SLOT)
    return content[:place] + struct.pack("<I", offset) + content[place + 4 :]


@for_each("offset", [1 << 24, 1 << 28, 0x7FFF_FFF0])
def test_a_model_with_a_wild_name_runs_on_the_npu(offset: int) -> None:
    builder = Net()
    x = builder.input("x", (1, 5, 3, 19), DType.INT8, Quantization((0.5,), (3,)))
    y = builder.conv(x, 21, layers.Window(3, 3))
    builder.output(y)
    runtime = find_runtime()
    try:
        runtime.interpreter(with_name_offset(builder.build(), offset))
    except ModelError as error:
        pytest.skip(f"this runtime looks at names: {error}")
    results = []
    for content in (builder.build(), with_name_offset(builder.build(), offset)):
        options = {"device": "simulator", "log_level": "error"}
        plugin = runtime.load_delegate(delegate.library_path(), options)
        with collect_delegations() as found:
            interpreter = runtime.interpreter(content, [plugin])
        interpreter.allocate_tensors()
        interpreter.set_tensor(x, np.arange(285, dtype=np.int8).reshape(1, 5, 3, 19))
        interpreter.invoke()
        results.append(interpreter.get_tensor(y))
        assert [d.delegated_nodes for d in found] == [1]
    np.testing.assert_array_equal(*results)
