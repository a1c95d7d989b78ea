"""Settings of all tests.

What most tests claim is equality with the reference kernels: they, and the processes that they
start, run with ``numerics=exact``. Tests of the default say so themselves.
"""

from __future__ import annotations

import os

os.environ.setdefault("RK3588_DELEGATE_NUMERICS", "exact")
