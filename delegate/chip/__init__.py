"""Differences from one chip of the family to the next: values of ``Chip``, and element types."""

from __future__ import annotations

from typing import Final

NAMES: Final = ("rk3588", "rk3576")
"""The chips that programs can be compiled for: each is a folder beside this file. The first is that
of users who name no other.
"""
