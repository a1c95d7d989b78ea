"""A property that is computed once per object.

``functools.cached_property`` of Python 3.10 and 3.11 holds one lock for all objects of a class
while it computes. A process that forks meanwhile, in another thread, leaves that lock closed in the
child for ever. This one has no lock: two threads at once may compute the same value twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class cached_property(Generic[Value]):  # noqa: N801  a decorator, as the one that it stands for
    """Keeps what ``function`` returns in the object's ``__dict__``, under its own name."""

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self._function = function
        self._name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> cached_property[Value] | Value:
        if instance is None:
            return self
        value = self._function(instance)
        # A plain attribute is found before a descriptor that sets nothing.
        instance.__dict__[self._name] = value
        return value
