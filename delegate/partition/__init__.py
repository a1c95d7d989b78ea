"""Which nodes go to the NPU: constraints, partitions, rejections."""
