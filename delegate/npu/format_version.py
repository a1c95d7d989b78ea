"""The version of the serialised form of programs, apart from what writes and reads them."""

FORMAT_VERSION = 7
"""Readers accept exactly their own."""
