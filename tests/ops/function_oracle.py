"""Results of the reference kernels and of the simulator for models of one result."""

import numpy as np
import numpy.typing as npt
from tflite_runtime.interpreter import Interpreter, OpResolverType

from delegate._native import Executable
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.options import Options

Array = npt.NDArray[np.generic]
RANGES = {DType.INT8: (-128, 127), DType.UINT8: (0, 255)}


def all_values(dtype: DType) -> Array:
    low, high = RANGES[dtype]
    return np.arange(low, high + 1).astype(np.int8 if dtype is DType.INT8 else np.uint8)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Any values of the type."""
    low, high = RANGES[dtype]
    return rng.integers(low, high + 1, shape).astype(np.int8 if low else np.uint8)


EXACT = Options(numerics="exact")


def simulated(model: bytes, *inputs: Array, options: Options = EXACT) -> Array:
    """Return the first result of a program of all nodes on the simulator."""
    result = compile_model(model, options)
    assert not result.rejections, result.rejections
    (partition,) = result.partitions
    found, *_ = Executable(partition.program, "simulator").run(list(inputs))
    return found


def kernel_results(model: bytes, *inputs: Array, has_reference: bool = True) -> Array:
    """Return the first result of the reference kernels, or of the only ones where there are no
    others. ``inputs``: in the order of the model's. RuntimeError if they refuse.
    """
    kinds = OpResolverType
    kind = kinds.BUILTIN_REF if has_reference else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter = Interpreter(model_content=model, experimental_op_resolver_type=kind)
        interpreter.allocate_tensors()
    except ValueError as error:
        raise RuntimeError(str(error)) from None
    for details, given in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(details["index"], given.reshape(details["shape"]))
    interpreter.invoke()
    found: Array = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return found


def quantization(rng: np.random.Generator, dtype: DType, scale: float) -> Quantization:
    """``scale`` as float32, with a zero point anywhere, at the ends as often as not."""
    low, high = RANGES[dtype]
    zero_point = rng.choice((low, high, int(rng.integers(low, high + 1)), (low + high) // 2))
    return Quantization((float(np.float32(scale)),), (int(zero_point),))
