"""Turn tasks into register commands, buffers and programs. Knows nothing of TFLite."""

from typing import Final

FORMAT_VERSION: Final = 7
"""The version of the serialised form of programs. Readers accept exactly their own."""
