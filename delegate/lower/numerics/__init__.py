"""Requantisation: what the DPU's stages compute, and the proof that it is TensorFlow Lite's result.

``pipeline`` is the DPU; ``tflite`` is the arithmetic of the reference kernels and specifies what
they compute from one accumulator, or from a pair of values. Solvers (``two_roundings``,
``one_rounding``, ``image_sums``, ``addition``, ``multiplication``) propose pipelines,
``requantize`` takes the best, and ``prover`` compares it with the specification for every input.
Nothing about how a pipeline was found enters the proof.
"""
