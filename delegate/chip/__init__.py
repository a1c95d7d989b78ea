"""Differences from one chip of the family to the next: values of ``Chip``, and element types."""
