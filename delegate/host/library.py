"""Where the delegate's shared object lies."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from delegate.errors import DelegateError

NATIVE_MODULE = "delegate._native"
NOT_BUILT = (
    "the native library of rk3588-delegate is not built: install the package with pip, or "
    "run make native in its source tree"
)
_LIBRARY = "librk3588_delegate.so"


def library_path() -> str:
    """The absolute path of the shared object. Raises DelegateError if it is not built."""
    # In an editable installation the native part lies elsewhere than the package's files.
    spec = find_spec(NATIVE_MODULE)
    found = [Path(spec.origin)] if spec is not None and spec.origin else []
    for place in [*found, Path(__file__).parent]:
        library = place.resolve().with_name(_LIBRARY)
        if library.is_file():
            return str(library)
    raise DelegateError(NOT_BUILT)
