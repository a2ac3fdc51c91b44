"""The way of a function's calls: those that are known already run in native code (`kernels.builtin`), all others, and
all where an interpreter has no room for that, go through `dispatch.call`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from cenote.core.extensions import switched
from cenote.functional import dispatch
from cenote.functional.dispatch import Parser, Prepared
from cenote.kernels.builtin import MOST_KNOWN, Builtin, KnownCall
from cenote.kernels.launch import DirectRunner

# Calls that do not find a place among the known ones, after which these are forgotten: a loop over many sizes must not
# make a record for each call (20 us), and sizes that are no longer used must not stay for ever.
_PATIENCE = 1000
_callers: WeakSet[Caller] = WeakSet()


class Caller:
    """Caller of the functions whose arguments a parser reads.

    `now` is what to call: with the arrays, the other arguments (the function's name first), `out` and `threads`.
    """

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.now = self.slow
        self._names: dict[str, Any] = {}
        self._builtin: Builtin | None = None
        self._known: dict[int, Prepared] = {}
        self._missed = 0

    def slow(self, arrays: tuple[Any, ...], arguments: tuple[Any, ...], out: object, threads: object) -> Any:
        """Run a call that is not known. Raises as `dispatch.call`."""
        return dispatch.call(self.parser, arrays, arguments, out, threads, self.learn)

    def serve(self, names: dict[str, Any]) -> None:
        """Be `call` among the names that a function's code sees, now and when that changes."""
        names["call"], self._names = self.now, names

    def forget(self) -> None:
        """Forget the known calls."""
        self._known.clear()
        self._missed = 0
        if self._builtin is not None:
            self._builtin.forget()

    def learn(
        self, prepared: Prepared, given: tuple[Any, ...], arguments: tuple[Any, ...], threads: object
    ) -> None:
        """Make a call known that has been prepared before: one that is made once is not worth it. `given`: the arrays,
        and numbers among them that the prepared call holds."""
        runner = prepared.runner
        if id(prepared) in self._known or not isinstance(runner, DirectRunner):
            return
        if not prepared.dense or prepared.moved or not Builtin.is_possible():
            return
        if len(self._known) >= MOST_KNOWN:
            self._missed += 1
            if self._missed < _PATIENCE:
                return
            self.forget()
        known = KnownCall(runner, given, arguments, threads, prepared.in_place)
        if self._builtin is None:
            self._builtin = Builtin(self.slow)
            self.now = self._builtin.function
            _callers.add(self)
            if self._names:
                self._names["call"] = self.now
        self._known[id(prepared)] = prepared
        self._builtin.add(known)


def called(arrays: str, name: str, keys: Sequence[str], out: str) -> str:
    """The call of the dispatcher, in a function's own code. Its key begins with the function's name, or with that and
    the algorithm's where the caller names one."""

    def key(first: str) -> str:
        return f"call({arrays}, ({', '.join([first, *keys])},), {out}, threads)"

    return f"{key(repr(name))} if algorithm is None else {key(f'({name!r}, algorithm)')}"


def are_arrays(values: tuple[Any, ...]) -> bool:
    """Whether all values are plain arrays of NumPy."""
    return all(type(x) is np.ndarray for x in values)


def forget() -> None:
    """Forget all prepared calls: later ones are prepared anew."""
    dispatch.forget_prepared()
    for each in list(_callers):
        each.forget()


# A call names a user's algorithm, not its version.
switched.when_changed.append(forget)
