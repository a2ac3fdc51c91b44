"""Digests of Python functions: of their source, and of what that source takes from outside.

Equal digests mean equal answers, as far as Python can tell: constants, other functions of the same module and the
values that a closure holds are part of the digest. A value whose content cannot be told (an open file, a session of
another engine) makes the function unlike any other, also in later processes.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype)
_SERIAL = itertools.count()


def digest_of(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the digest of a function, and what in it cannot be told: "" where all of it can."""
    walk = _Walk()
    text = "\0".join(walk.parts(function))
    if walk.untold:
        text += f"\0{os.getpid()} {next(_SERIAL)} {os.urandom(8).hex()}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32], walk.untold


def place_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, with its file and line where it has them."""
    inner = inspect.unwrap(function)
    inner = inner.func if isinstance(inner, functools.partial) else inner
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    code = getattr(inner, "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


class _Walk:
    """The texts that say what a function does. `untold`: the first value whose content cannot be told."""

    def __init__(self) -> None:
        self.untold = ""
        self._seen: set[int] = set()

    def parts(self, thing: object, name: str = "") -> Iterator[str]:
        """Yield the texts of a function or of a value that it takes from outside."""
        if isinstance(thing, _PLAIN):
            yield f"{type(thing).__name__} {thing!r}"
        elif isinstance(thing, FunctionType):
            yield from self._function(thing)
        elif isinstance(thing, functools.partial):
            yield "partial"
            yield from self.parts(thing.func, name)
            yield from self._all((*thing.args, *itertools.chain(*sorted(thing.keywords.items()))), name)
        elif isinstance(thing, tuple | list):
            yield f"{type(thing).__name__} {len(thing)}"
            yield from self._all(thing, name)
        elif isinstance(thing, Mapping):
            yield f"mapping {len(thing)}"
            yield from self._all(itertools.chain(*thing.items()), name)
        elif isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
            content = np.ascontiguousarray(thing)
            yield f"{thing.dtype} {thing.shape} {hashlib.sha256(content.view(np.uint8).data).hexdigest()}"
        elif isinstance(thing, ModuleType):
            yield f"module {thing.__name__}"
        elif isinstance(thing, type | np.ufunc | BuiltinFunctionType):
            yield f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', thing.__name__)}"
        else:
            self.untold = self.untold or f"{name or 'it'} is a {type(thing).__qualname__}"
            yield type(thing).__qualname__

    def _all(self, things: Iterable[Any], name: str) -> Iterator[str]:
        for each in things:
            yield from self.parts(each, name)

    def _function(self, function: FunctionType) -> Iterator[str]:
        yield f"{function.__module__}.{function.__qualname__}"
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        yield _source(function)
        yield from self._all((*(function.__defaults__ or ()),), "a default")
        yield from self._all(itertools.chain(*sorted((function.__kwdefaults__ or {}).items())), "a default")
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                held = cell.cell_contents
            except ValueError:  # a function that refers to itself is not there yet
                continue
            yield name
            yield from self.parts(held, f"'{name}' of {function.__qualname__}")
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                yield from self._global(name, function)

    def _global(self, name: str, user: FunctionType) -> Iterator[str]:
        """Yield the texts of what a function finds in its module. Values whose content cannot be told are those of
        their module, not of the function."""
        thing = user.__globals__[name]
        yield name
        if isinstance(thing, FunctionType) and thing.__module__ != user.__module__:
            yield f"{thing.__module__}.{thing.__qualname__}"
        elif isinstance(thing, (*_PLAIN, FunctionType, ModuleType, type, np.ufunc, BuiltinFunctionType)):
            yield from self.parts(thing, name)
        else:
            yield type(thing).__qualname__


def _source(function: FunctionType) -> str:
    """Return the text of a function. Lambdas of one line share its text, so that their instructions count as well, as
    they do for functions without a source."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        text = ""
    if text and function.__name__ != "<lambda>":
        return text
    return text + "".join(_instructions(function.__code__))


def _instructions(code: CodeType) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)
        else:
            yield repr(constant)


def _names(code: CodeType) -> set[str]:
    """Return the names that a function's instructions, and those of functions in it, take from outside."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names, inner))
