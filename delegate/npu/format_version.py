"""The version of the serialised form of programs, apart from what writes and reads them."""

FORMAT_VERSION = 6
"""Readers accept exactly their own."""
