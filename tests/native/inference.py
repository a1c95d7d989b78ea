"""One inference, and which nodes of the plugin's test model of three layers are convolutions."""

from __future__ import annotations

import numpy as np

CONV_NODES = (0, 2)


def invoke(interpreter, value: int = 3) -> np.ndarray:
    detail = interpreter.get_input_details()[0]
    interpreter.set_tensor(detail["index"], np.full(detail["shape"], value, detail["dtype"]))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def invoke_on_cpu(runtime, model) -> np.ndarray:
    interpreter = runtime.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    return invoke(interpreter)
