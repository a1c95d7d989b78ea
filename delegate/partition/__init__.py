"""Selects the nodes for the NPU: constraints, partitions, rejections."""
