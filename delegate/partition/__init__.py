"""Which nodes go to the NPU: constraints, partitions, rejections."""

from delegate.partition.types import Partition, Rejection

__all__ = ["Partition", "Rejection"]
