"""Weights and per-channel operands in the order the hardware fetches them.

Dense int8: ``[O/32][I/32][kh][kw][32 o][32 i]``. Input channels are padded to 16 (a last block of
16 or 32 lanes), output channels to an even number; the last output group keeps its own size.
Padding lanes hold the weight zero point: together with the OW term (-zero_point * sum of the
inputs) they contribute nothing. Depthwise int8: ``[C/64][kh][kw][64]``, last group 16, 32 or 64
channels. Both observed in programs that run on silicon.

fp16 weights in the order the hardware fetches them.

Dense: ``[O/16][I/32][kh][kw][16 o][32 i]``, input channels padded to 8 and a last block of 8, 16 or
32 lanes (24 take 32). Depthwise: ``[C/32][kh][kw][32]``, a last group of 8, 16 or 32 channels. Both
observed in vendor programs.

Read weights, biases, multipliers and padding of the model in the device's terms.

Grouped convolutions and depth multipliers as dense convolutions.

The MAC array multiplies every kernel with all input channels, or, depthwise, one channel with one
kernel. Groups in between become dense kernels whose foreign channels hold the weight zero point,
which contributes nothing: exact, at the price of the multiplications that a dense layer makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Groups
from delegate.chip.element import CHANNELS_PER_SURFACE, Element, align
from delegate.model.graph import DType, Graph, Node, Padding, Tensor

Int8Array = npt.NDArray[np.int8]
Int64Array = npt.NDArray[np.int64]

# BRDMA block: 8 channels as 8 int32 | 8 int16 | 8 int16.
OPERAND_BLOCK_CHANNELS = 8


def pack_dense(
    weights: Int8Array, zero_point: int, groups: Groups, group: int | None = None
) -> bytes:
    """Pack OHWI weights (int8, zero point not taken off) for a dense convolution.

    ``group``: kernels that lie together; fewer than the hardware's where a task takes fewer.
    """
    group = group or groups.dense_kernels
    block = groups.input_lanes
    outputs, kh, kw, inputs = weights.shape
    kernels = align(outputs, groups.kernel_unit)
    lanes = align(inputs, CHANNELS_PER_SURFACE)
    whole_lanes = lanes - lanes % block
    whole_kernels = outputs - outputs % group
    if inputs != lanes:
        padded = np.full((outputs, kh, kw, lanes), zero_point, np.int8)
        padded[..., :inputs] = weights
        weights = padded
    parts = []
    if whole_kernels:
        whole = weights[:whole_kernels].reshape(-1, group, kh, kw, lanes)
        parts.append(_pack_kernel_groups(whole, whole_lanes, block))
    if whole_kernels < kernels:
        rest = np.full((1, kernels - whole_kernels, kh, kw, lanes), zero_point, np.int8)
        rest[0, : outputs - whole_kernels] = weights[whole_kernels:]
        parts.append(_pack_kernel_groups(rest, whole_lanes, block))
    return b"".join(parts)


def _pack_kernel_groups(groups: Int8Array, whole_lanes: int, block: int) -> bytes:
    """[G][o][kh][kw][lanes] -> per G: [I/L][kh][kw][o][L], then the tail block of fewer lanes."""
    # Eight lanes at a time, which all of these are multiples of: single bytes take longer.
    words = np.ascontiguousarray(groups).view(np.uint64)
    count, size, kh, kw, lanes = words.shape
    whole = whole_lanes // 8
    head = words[..., :whole].reshape(count, size, kh, kw, -1, block // 8)
    head = head.transpose(0, 4, 2, 3, 1, 5)
    if whole == lanes:
        return bytes(head.tobytes())
    head = head.reshape(count, -1)
    tail = words[..., whole:].transpose(0, 2, 3, 1, 4).reshape(count, -1)
    return bytes(np.concatenate([head, tail], axis=1).tobytes())


def pack_depthwise(weights: Int8Array, zero_point: int, groups: Groups) -> bytes:
    """Packs HWC weights (int8, zero point not taken off) for a depthwise convolution. Raises
    ValueError where the chip cannot hold them.
    """
    if groups.depthwise_weight_bytes > 1:
        return _pack_depthwise_pairs(weights, zero_point, groups)
    kh, kw, channels = weights.shape
    lanes = groups.depthwise_lanes(channels)
    padded = np.full((kh, kw, lanes), zero_point, np.int8)
    padded[:, :, :channels] = weights
    size = groups.depthwise_channels
    parts = [padded[:, :, start : start + size].tobytes() for start in range(0, lanes, size)]
    return b"".join(parts)


def _pack_depthwise_pairs(weights: Int8Array, zero_point: int, groups: Groups) -> bytes:
    """Pack as ``pack_depthwise`` for a chip that adds two bytes per weight: the weight, and what
    the zero point takes off. Channel c of a group has bytes 4 * (c // 2) + c % 2 and two behind it
    (observed). ``zero_point`` -128 is 127 in the second byte and 1 in the first: no weight may be
    127 then. Raises ValueError.
    """
    second = min(-zero_point, np.iinfo(np.int8).max)
    first = weights.astype(np.int16) - (zero_point + second)
    if first.size and int(first.max()) > np.iinfo(np.int8).max:
        raise ValueError(f"weights of {int(weights.max())} with the zero point {zero_point}")
    kh, kw, channels = weights.shape
    lanes = groups.depthwise_lanes(channels)
    pairs = np.zeros((kh, kw, lanes, 2), np.int8)
    pairs[:, :, :channels, 0] = first
    pairs[:, :, :channels, 1] = second
    # [lanes / 2][2 channels][2 bytes] to [lanes / 2][2 bytes][2 channels].
    ordered = pairs.reshape(kh, kw, lanes // 2, 2, 2).swapaxes(-1, -2).reshape(kh, kw, 2 * lanes)
    size = 2 * groups.depthwise_channels
    return b"".join(ordered[:, :, i : i + size].tobytes() for i in range(0, 2 * lanes, size))


def padded_operands(values: npt.NDArray[Any], channels: int, element: str) -> npt.NDArray[Any]:
    """Return one value for each channel, zero up to ``channels``: dense "<i4" or "<f4" as BRDMA
    reads summands (DATA_USE = 1), "<i2" or "<f2" as NRDMA reads factors (DATA_USE = 4).
    """
    padded = np.zeros(channels, element)
    padded[: len(values)] = values
    return padded


def pack_operand_blocks(
    bias: Int64Array,
    multipliers: Int64Array,
    channels: int,
    *,
    ow: int | None = 0,
    unused_multiplier: int = 0,
) -> bytes:
    """Pack blocks of 8 channels (8 int32 bias | 8 int16 OW | 8 int16 multiplier) for BRDMA DATA_USE
    = 7, or without OW operands for DATA_USE = 5. ``unused_multiplier``: of channels beyond
    ``bias``.
    """
    parts = [("bias", "<i4", OPERAND_BLOCK_CHANNELS), ("multiplier", "<i2", OPERAND_BLOCK_CHANNELS)]
    if ow is not None:
        parts.insert(1, ("ow", "<i2", OPERAND_BLOCK_CHANNELS))
    blocks = np.zeros(channels // OPERAND_BLOCK_CHANNELS, np.dtype(parts))
    if ow:
        blocks["ow"] = ow
    blocks["bias"] = padded_operands(bias, channels, "<i4").reshape(-1, OPERAND_BLOCK_CHANNELS)
    padded = padded_operands(multipliers, channels, "<i2")
    padded[len(multipliers) :] = unused_multiplier
    blocks["multiplier"] = padded.reshape(-1, OPERAND_BLOCK_CHANNELS)
    return bytes(blocks.tobytes())


SCALAR_BYTES = 16


def pack_shifts(shift: int, shift_negative: int) -> bytes:
    """Pack the record of BS's shifts of a chip that reads them from memory: a word with the shift
    of values from 0 on in bits 5:0 and that of others in 13:8.
    """
    return bytes([shift, shift_negative]).ljust(SCALAR_BYTES, b"\0")


def pack_scalars(summand: int, multiplier: int | None, shift: int = 0) -> bytes:
    """Pack the record of a stage's numbers for all channels, likewise: a summand, of which every
    half of 32 bytes begins with a copy; and, unless ``multiplier`` is None, that and the word of
    shifts.
    """
    record = summand.to_bytes(4, "little", signed=True).ljust(SCALAR_BYTES, b"\0") * 2
    if multiplier is None:
        return record
    factor = multiplier.to_bytes(2, "little", signed=True).ljust(SCALAR_BYTES, b"\0")
    return record + factor + pack_shifts(shift, shift)


def pack_bn_multipliers(multipliers: Int64Array, channels: int) -> bytes:
    """Pack the factors of BN, which takes them without a sign; zero up to ``channels``."""
    if multipliers.min() < 0:
        raise ValueError("BN has no multipliers below 0")
    return padded_operands(multipliers, channels, "<i2").tobytes()


def pack_ew_multipliers(multipliers: Int64Array, channels: int) -> tuple[bytes, int]:
    """Pack dense integers for ERDMA per channel, zero up to ``channels``, and the bytes of each: 1
    where they fit int8, else 2.
    """
    size = 1 if int(multipliers.max()) <= np.iinfo(np.int8).max else 2
    return padded_operands(multipliers, channels, f"<i{size}").tobytes(), size


HalfArray = npt.NDArray[np.float16]

_BYTES = Element.FP16.bytes


def stored_lanes(channels: int, block: int) -> int:
    """Return the lanes that ``channels`` input channels, whole surfaces, take in a kernel."""
    whole, rest = divmod(channels, block)
    stored = Element.FP16.lanes if rest else 0
    while stored < rest:
        stored *= 2
    return whole * block + stored


def pack_dense_half(
    weights: HalfArray, kernels: int, groups: Groups, group: int | None = None
) -> bytes:
    """Pack OHWI weights for a dense convolution programmed with ``kernels``, those beyond the
    weights' being 0. ``group``: kernels that lie together.
    """
    group = group or groups.dense_kernels // _BYTES
    block = groups.input_lanes
    outputs, kh, kw, inputs = weights.shape
    lanes = stored_lanes(-(-inputs // Element.FP16.lanes) * Element.FP16.lanes, block)
    padded = np.zeros((kernels, kh, kw, lanes), np.float16)
    padded[:outputs, :, :, :inputs] = weights
    parts = []
    for first in range(0, kernels, group):
        some = padded[first : first + group]
        for lane in range(0, lanes, block):
            parts.append(some[..., lane : lane + block].transpose(1, 2, 0, 3).tobytes())
    return b"".join(parts)


def pack_depthwise_half(weights: HalfArray, groups: Groups) -> bytes:
    """Pack HWC weights for a depthwise convolution; channels beyond the weights' are 0."""
    kh, kw, channels = weights.shape
    lanes = groups.depthwise_lanes(channels * _BYTES) // _BYTES
    padded = np.zeros((kh, kw, lanes), np.float16)
    padded[:, :, :channels] = weights
    size = groups.depthwise_channels // _BYTES
    return b"".join(padded[:, :, first : first + size].tobytes() for first in range(0, lanes, size))


@dataclass(frozen=True, slots=True, eq=False)
class DeviceWeights:
    """Weights of a layer, in their TFLite shape or as filters."""

    values: npt.NDArray[Any]
    """int8 as the device has them; float32 or float16 of a layer that is computed in fp16."""
    zero_point: int
    bias: npt.NDArray[Any]
    """One number per output channel: int64, or float32."""


def device_weights(
    graph: Graph, node: Node, channels: int, numpy_shape: tuple[int, ...]
) -> DeviceWeights:
    """Read the constant weights (input 1) and the optional bias (input 2) of ``node``."""
    weights = graph.tensor(node.inputs[1])
    assert weights.constant is not None
    values, is_float = weights.constant.reshape(numpy_shape), weights.dtype is DType.FLOAT32
    bias: npt.NDArray[Any] = np.zeros(channels, np.float32 if is_float else np.int64)
    if len(node.inputs) > 2 and node.inputs[2] >= 0:
        constant = graph.tensor(node.inputs[2]).constant
        assert constant is not None
        bias = constant.reshape(-1).astype(bias.dtype)
    if is_float:
        return DeviceWeights(values, 0, bias)
    assert weights.quantization is not None
    zero_point = weights.quantization.zero_points[0]
    offset = weights.dtype.element.offset
    if offset:
        # The top bit flipped is the subtraction of 128.
        values = np.bitwise_xor(values.view(np.uint8), np.uint8(offset))
        zero_point -= offset
    return DeviceWeights(values.view(np.int8), zero_point, bias)


def real_ratios(
    source: Tensor,
    weights: Tensor,
    target: Tensor,
    channels: int,
    *,
    in_float32: bool | None = None,
) -> npt.NDArray[np.float64]:
    """Return sx * sw_c / sy as TFLite's kernels compute it: in double, but with weights of one
    scale sx * sw is a product of float32 where ``in_float32`` (None: where the tensors are uint8).
    """
    assert source.quantization is not None
    assert weights.quantization is not None
    assert target.quantization is not None
    input_scale, output_scale = source.quantization.scale, target.quantization.scale
    scales = np.array(weights.quantization.scales, np.float64)
    if in_float32 is None:
        in_float32 = source.dtype is DType.UINT8
    if scales.size == 1 and in_float32:
        product = (np.float32(input_scale) * scales.astype(np.float32)).astype(np.float64)
    else:
        product = input_scale * scales
    return np.ascontiguousarray(np.broadcast_to(product / output_scale, (channels,)))


def leading_padding(
    padding: Padding, size: int, output: int, kernel: int, stride: int, dilation: int
) -> int:
    """Return the padding above or left of the image: half of SAME's total, rounded down."""
    if padding is Padding.VALID:
        return 0
    total = (output - 1) * stride + (kernel - 1) * dilation + 1 - size
    return max(total, 0) // 2


Number = TypeVar("Number", bound=np.generic)


def widen_groups(
    weights: npt.NDArray[Number], input_channels: int, zero_point: int
) -> npt.NDArray[Number]:
    """OHWI weights of equal groups, in order, to OHWI weights over all input channels."""
    outputs, kh, kw, covered = weights.shape
    groups = input_channels // covered
    if groups == 1:
        return weights
    wide = np.full((groups, outputs // groups, kh, kw, groups, covered), zero_point, weights.dtype)
    split = weights.reshape(groups, outputs // groups, kh, kw, covered)
    for group in range(groups):
        wide[group, :, :, :, group] = split[group]
    return wide.reshape(outputs, kh, kw, input_channels)


def widen_multiplier(
    weights: npt.NDArray[Number], input_channels: int, zero_point: int
) -> npt.NDArray[Number]:
    """HWO weights of a depthwise convolution with depth multiplier O / input channels, to OHWI.

    TFLite's output channel c * multiplier + k reads input channel c: as many groups as channels.
    """
    return widen_groups(weights.transpose(2, 0, 1)[..., None], input_channels, zero_point)
