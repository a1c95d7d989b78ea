"""The operators that the NPU takes: one file each, which exports its record as ``OPERATOR``.

An operator without a file here stays on the CPU. To add one, see docs/adding_an_operator.md.
"""

from delegate.ops.operator import OPERATORS as OPERATORS
