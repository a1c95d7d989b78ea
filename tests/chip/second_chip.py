"""A chip that does not exist: other CBUF, other groups, two cores. It has a known name, since no
program is made that every device would refuse.
"""

from dataclasses import replace

from delegate.chip.chip import Cbuf, Groups
from delegate.chip.rk3588 import RK3588

SECOND = replace(
    RK3588,
    cores=2,
    cbuf=Cbuf(
        banks=14,
        bank_bytes=64 * 1024,
        entry_bytes=64,
        max_row_entries=1024,
        resident_weight_banks=2,
    ),
    groups=Groups(dense_kernels=16, depthwise_channels=32, input_lanes=32),
)
