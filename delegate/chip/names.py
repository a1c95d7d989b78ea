"""The names of the chips that programs can be compiled for: each is a folder beside this file."""

from __future__ import annotations

from typing import Final

NAMES: Final = ("rk3588", "rk3576")
"""The first is the chip of users who name no other."""
