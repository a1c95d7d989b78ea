"""The reference kernels' 256 results of a function of one value, and quantisations to ask for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tflite_runtime.interpreter import Interpreter, OpResolverType

from delegate.model.graph import DType, Quantization

RANGES = {DType.INT8: (-128, 127), DType.UINT8: (0, 255)}


def all_values(dtype: DType) -> npt.NDArray[np.generic]:
    low, high = RANGES[dtype]
    return np.arange(low, high + 1).astype(np.int8 if dtype is DType.INT8 else np.uint8)


def kernel_results(
    model: bytes, inputs: npt.NDArray[np.generic], *, has_reference: bool = True
) -> npt.NDArray[np.generic]:
    """Return what the reference kernels make of the only input, or the only ones where there are no
    others. RuntimeError if they refuse.
    """
    kinds = OpResolverType
    kind = kinds.BUILTIN_REF if has_reference else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter = Interpreter(model_content=model, experimental_op_resolver_type=kind)
        interpreter.allocate_tensors()
    except ValueError as error:
        raise RuntimeError(str(error)) from None
    details = interpreter.get_input_details()[0]
    interpreter.set_tensor(details["index"], inputs.reshape(details["shape"]))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def quantization(rng: np.random.Generator, dtype: DType, scale: float) -> Quantization:
    """``scale`` as float32, with a zero point anywhere, at the ends as often as not."""
    low, high = RANGES[dtype]
    zero_point = rng.choice((low, high, int(rng.integers(low, high + 1)), (low + high) // 2))
    return Quantization((float(np.float32(scale)),), (int(zero_point),))
