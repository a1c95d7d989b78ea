"""Requantisation: what the DPU's stages compute, and the proof that it is TensorFlow Lite's result.

``pipeline`` is the DPU, ``tflite`` the reference kernels, ``prover`` compares the two for every
accumulator, ``pair_prover`` for every pair of operands. Choosers (``two_roundings``,
``one_rounding``, ``addition``) propose pipelines; ``requantize`` takes the first that is proven.
Nothing about how a pipeline was found enters the proof.
"""
