"""Programs in the form that LiteRT's dispatch libraries take: as byte code of one operator.

In: a serialised Program and the tensors of the operator that it stands for. Out: the same Program
with its bindings numbered by the operator's inputs and outputs, since LiteRT tells a dispatch
library no numbers of tensors (``native/litert/dispatch_device.h``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from delegate.errors import DelegateError
from delegate.npu.program import parse, serialize


def with_ports(program: bytes, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """Return a Program whose tensors are numbered by their places in ``inputs`` and ``outputs``.
    Raises DelegateError if it reads or writes others, or does not write all ``outputs``.
    """
    parsed = parse(program)
    sides = []
    for bindings, tensors in ((parsed.inputs, inputs), (parsed.outputs, outputs)):
        ports = {tensor: port for port, tensor in enumerate(tensors)}
        lacking = {binding.tensor for binding in bindings}.difference(ports)
        if lacking:
            raise DelegateError(f"a program has tensor {min(lacking)}, its operator has not")
        sides.append(
            tuple(
                dataclasses.replace(binding, tensor=ports[binding.tensor]) for binding in bindings
            )
        )
    if {binding.tensor for binding in sides[1]} != set(range(len(outputs))):
        raise DelegateError("a program does not write all outputs of its operator")
    return serialize(dataclasses.replace(parsed, inputs=sides[0], outputs=sides[1]))
