"""Attributes that are computed once, at their first use, without a lock.

Python 3.11's `functools.cached_property` holds one lock per property while it computes, for all instances: a process
that forks while another thread does so leaves a child in which that property hangs for ever (later Pythons have no
lock). Here two threads that ask at the same time may both compute the value, which is the same for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801  (the name that readers know)
    """Decorator that makes a method's result an attribute, kept in the instance's `__dict__`."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value
