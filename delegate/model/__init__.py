"""A .tflite file or a live interpreter as a graph."""
