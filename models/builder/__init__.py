"""``delegate.model_builder`` under the name that the tests use."""

import sys
from importlib import import_module

from delegate.model_builder import *  # noqa: F403
from delegate.model_builder import __all__ as __all__

for _name in ("layers", "model_builder", "options", "ranges", "single_op", "table_writer", "views"):
    _module = import_module(f"delegate.model_builder.{_name}")
    sys.modules[f"{__name__}.{_name}"] = _module
    globals()[_name] = _module
