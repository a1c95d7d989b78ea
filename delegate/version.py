"""The version of this package, for the metadata, programs, caches and reports."""

from __future__ import annotations

__version__ = "0.1.0"
