"""Ahead-of-time compilation: a .tflite file whose partitions are operators that hold Programs."""
