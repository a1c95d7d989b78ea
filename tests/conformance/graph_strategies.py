"""Random quantised models for properties: chains, residuals, shared inputs, several outputs.

Also operators in between that stay on the CPU (a pooling of one pixel, a reshape), so that there
are several partitions with tensors that cross. All shapes keep h, w and c until a strided layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from delegate.model.graph import Activation, DType
from rk3588_conformance.builder import layers, options
from rk3588_conformance.builder.layers import Window, conv, depthwise
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.random_layers import Numbers, draw_quantization

_ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU6)


@dataclass(frozen=True)
class Step:
    """One operator: its kind, which earlier tensors it reads, and its details."""

    kind: str
    first: int
    second: int
    channels: int
    kernel: int
    stride: int
    activation: Activation


KINDS = ("conv", "conv", "depthwise", "add", "add", "tile", "reshape")


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    count = draw(st.integers(1, 7))
    return [
        Step(
            kind=draw(st.sampled_from(KINDS)),
            first=draw(st.integers(0, 2)),
            second=draw(st.integers(0, 4)),
            channels=draw(st.sampled_from((1, 3, 16, 19, 33))),
            kernel=draw(st.sampled_from((1, 2, 3))),
            stride=draw(st.sampled_from((1, 1, 1, 2))),
            activation=draw(st.sampled_from(_ACTIVATIONS)),
        )
        for _ in range(count)
    ]


@dataclass(frozen=True)
class Plan:
    """A model to build: the same plan gives the same bytes."""

    seed: int
    dtype: DType
    per_channel: bool
    h: int
    w: int
    c: int
    steps: list[Step]
    extra_output: bool


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    dtype = draw(st.sampled_from((DType.UINT8, DType.INT8)))
    return Plan(
        seed=draw(st.integers(0, 2**32 - 1)),
        dtype=dtype,
        per_channel=dtype is DType.INT8 and draw(st.booleans()),
        h=draw(st.integers(1, 9)),
        w=draw(st.integers(1, 9)),
        c=draw(st.sampled_from((1, 3, 8, 17, 32))),
        steps=draw(steps()),
        extra_output=draw(st.booleans()),
    )


def build(plan: Plan) -> bytes:
    """The plan's model. ``first`` and ``second`` count back from the newest tensor."""
    rng = np.random.default_rng(plan.seed)
    builder = ModelBuilder("random graph")
    shape = (1, plan.h, plan.w, plan.c)
    quantization = draw_quantization(rng, plan.dtype)
    tensors = [builder.input("input", shape, plan.dtype, quantization)]
    read: set[int] = set()
    for number, step in enumerate(plan.steps):
        x = tensors[max(len(tensors) - 1 - step.first, 0)]
        operands = [x]
        if step.kind == "add":
            fitting = [t for t in tensors if builder.spec(t).shape == builder.spec(x).shape]
            operands.append(fitting[step.second % len(fitting)])
        read.update(operands)
        tensors.append(_append(builder, rng, plan, step, number, operands))
    middle = tensors[len(tensors) // 2]
    for tensor in tensors[1:]:
        if tensor not in read or (plan.extra_output and tensor == middle):
            builder.output(tensor)
    return builder.build()


def _append(
    builder: ModelBuilder,
    rng: np.random.Generator,
    plan: Plan,
    step: Step,
    number: int,
    operands: list[int],
) -> int:
    x = operands[0]
    name = f"{step.kind}_{number}"
    numbers = Numbers(per_channel=plan.per_channel, activation=step.activation)
    window = Window(kh=step.kernel, kw=step.kernel, sh=step.stride, sw=step.stride)
    if step.kind == "depthwise":
        return depthwise(builder, rng, x, window, numbers, name=name)
    if step.kind == "add":
        return layers.add(builder, *operands, activation=step.activation, name=name)
    if step.kind == "tile":  # once: keeps the values, and is not for the NPU
        spec = builder.spec(x)
        y = builder.tensor(name, spec.shape, spec.dtype, spec.quantization)
        times = builder.constant(f"{name}/times", np.ones(len(spec.shape), np.int32))
        builder.operator("TILE", (x, times), (y,), None)
        return y
    if step.kind == "reshape":
        spec = builder.spec(x)
        y = builder.tensor(name, spec.shape, spec.dtype, spec.quantization)
        target = builder.constant(f"{name}/shape", np.array(spec.shape, np.int32))
        builder.operator("RESHAPE", (x, target), (y,), options.reshape(spec.shape))
        return y
    return conv(builder, rng, x, step.channels, window, numbers, name=name)
