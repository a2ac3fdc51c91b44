"""Algorithms and rewrites of users, by the names under which a load switches them on.

Plans name each one with the digest of its module. What a plan holds runs without the module; to plan anew takes the
very module that the plan was made with.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from cenote.core.deferred import cached_property, dataclass
from cenote.core.errors import (
    ArgumentError,
    CenoteError,
    OperatorError,
    UnsupportedError,
    error_of_user,
    near,
    shown,
)
from cenote.core.extensions.digests import place_of
from cenote.core.extensions.installed import import_installed
from cenote.core.extensions.modules import import_registering, source_digest
from cenote.core.formulas.expressions import OpenSizeError
from cenote.core.sizes import plain

F = TypeVar("F", bound=Callable[..., Any])

POOL, POOL_WITH_INDICES = "pool", "pool_with_indices"
POOL_OF_RANGES, COMPENSATED_POOL = "pool_of_ranges", "compensated_pool"
CONVOLUTION, CONVOLUTION_AT_RUN_TIME = "convolution", "convolution_at_run_time"
TRANSPOSED_CONVOLUTION = "transposed_convolution"
PROBLEMS = (
    POOL,
    POOL_WITH_INDICES,
    POOL_OF_RANGES,
    COMPENSATED_POOL,
    CONVOLUTION,
    CONVOLUTION_AT_RUN_TIME,
    TRANSPOSED_CONVOLUTION,
)
"""The problems that algorithms solve."""

_TO_ADD = (
    "import the module that registers it (on the command line: --operators MODULE), or install a package that names it "
    "under the entry points cenote.operators"
)


class Mention(NamedTuple):
    """Mention of an extension in the options of a load and in plans: its name, the module that registers it, and the
    digest of that."""

    name: str
    module: str
    digest: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class UserExtension:
    """An algorithm (`of`: the problems that it solves) or a rewrite (`before`: the pattern that it replaces, None for
    one that takes the whole graph), and the function of the user that it is."""

    name: str
    function: Callable[..., Any]
    of: str = ""
    before: object = None

    @property
    def kind(self) -> str:
        """The word "algorithm" or "rewrite"."""
        return "algorithm" if self.of else "rewrite"

    @cached_property
    def place(self) -> str:
        """Name of the function, with its file and line."""
        return place_of(self.function)

    @cached_property
    def origin(self) -> str:
        """Name, and the file and line that it comes from, as plans show them."""
        code = getattr(self.function, "__code__", None)
        where = f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else self.module or self.place
        return f"{self.name}, of {where}"

    @property
    def module(self) -> str:
        """Name of the module that registers it."""
        return getattr(self.function, "__module__", None) or "__main__"

    @cached_property
    def reference(self) -> Mention:
        """The mention of it in options and plans."""
        return Mention(self.name, self.module, source_digest(self.module)[0])

    @property
    def where(self) -> str:
        """Beginning of errors about it."""
        return f"{self.kind} {self.name}, {self.place}"

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function does. Raises OperatorError, which names it, for an exception in it."""
        with self.errors():
            return self.function(*arguments)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Name the extension in errors that the user's code raises in this context."""
        try:
            yield
        except OpenSizeError:  # planned again, for numbers
            raise
        except OperatorError:
            raise
        except CenoteError as error:
            raise error.located(self.where) from error
        except Exception as error:  # whatever the user's function raises
            raise error_of_user(error, self.where) from error

    def check_estimate(self, seconds: object) -> None:
        """Raise OperatorError for estimated seconds that are no number, negative, infinite or NaN."""
        number = plain(cast(float, seconds))
        if not isinstance(number, Real) or isinstance(number, bool) or not 0 <= float(number) < math.inf:
            raise OperatorError(f"{self.where} estimates {shown(seconds)}, not a number of seconds")


_registered: dict[str, UserExtension] = {}
when_changed: list[Callable[[], None]] = []
"""What is called when another extension has a name: calls of functions that are prepared hold the one before."""


def _checked_name(name: object) -> str:
    domain, _, last = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if not domain or not last.isidentifier():
        raise ArgumentError(
            f'{shown(name)} is no name of an algorithm or a rewrite: a domain, a dot and a word, as in "shop.direct"'
        )
    return str(name)


def _add(made: UserExtension) -> None:
    """Register an extension. One of the same module and function takes its predecessor's place, so that a module can
    be imported again."""
    before = _registered.get(made.name)
    if before is not None and before.place.rpartition(":")[0] != made.place.rpartition(":")[0]:
        raise ArgumentError(f"{made.name} is registered twice: {before.place} and {made.place}; rename one")
    made.reference  # noqa: B018  (the digest of the source as it is imported now)
    _registered[made.name] = made
    _tell()


def _tell() -> None:
    for each in when_changed:
        each()


def register_algorithm(name: str, *, of: str) -> Callable[[F], F]:
    """Return a decorator that makes a function an algorithm of pools or convolutions.

    name   name with a domain, as plans show it and loads switch it on: "shop.direct"
    of     the problems that it solves: "pool" (windows that slide), "pool_with_indices", "pool_of_ranges" (adaptive),
           "compensated_pool", "convolution" (of constant weights), "convolution_at_run_time" (of weights that the
           model computes) or "transposed_convolution"

    The function takes the problem and the target and returns None where it does not serve the problem; else a
    `cenote.algorithms.Candidate` for pools, `Lowering`s for convolutions. It is asked by loads with
    `extensions=("shop.direct",)` or `algorithms={"max_pool": "shop.direct"}` only, and by calls of functions with
    `algorithm="shop.direct"`. The function is returned unchanged.

    Raises ArgumentError for a name without a domain, one that another function has, and unknown problems.
    """
    _checked_name(name)
    if of not in PROBLEMS:
        raise ArgumentError(f"{name}: of={shown(of)} is not known ({', '.join(PROBLEMS)})")

    def decorate(function: F) -> F:
        _add(UserExtension(name, function, of=of))
        return function

    return decorate


def register_rewrite(name: str, *, before: object = None) -> Callable[[F], F]:
    """Return a decorator that makes a function a rewrite of graphs.

    name    name with a domain: "shop.fold"
    before  the nodes that it replaces, a `cenote.algorithms.Pattern`: the function gets each `Match`, and returns what
            to compute in place of its last node, or None to leave it. None: the function gets the whole graph, with
            the types of all values, and returns another one

    It runs in loads with `extensions=("shop.fold",)` only, on the model's own operators, before Cenote's passes. The
    function is returned unchanged.

    Raises ArgumentError for a name without a domain, and one that another function has.
    """
    _checked_name(name)

    def decorate(function: F) -> F:
        _add(UserExtension(name, function, before=before))
        return function

    return decorate


def registered_extensions() -> dict[str, UserExtension]:
    """Return the algorithms and rewrites that are registered, by name."""
    return dict(_registered)


def forget(name: str) -> bool:
    """Forget an algorithm or a rewrite; return whether there was one. Models that are loaded keep it."""
    found = _registered.pop(name, None) is not None
    if found:
        _tell()
    return found


def lookup(name: str) -> UserExtension | None:
    """Return the algorithm or rewrite of a name, also of installed packages; None where there is none."""
    if name not in _registered:
        import_installed()
    return _registered.get(name)


def is_of_user(name: str) -> bool:
    """Return whether the name of an algorithm is one of a user's: those have a domain, and Cenote's have none."""
    return "." in name


def algorithm_named(name: str) -> UserExtension | None:
    """Return the user's algorithm whose lowerings may have a name: its own, or one that begins with it and "_". None
    where no such algorithm is registered, also by installed packages."""
    while is_of_user(name):
        found = lookup(name)
        if found is not None:
            return found if found.of else None
        name = name.rpartition("_")[0]
    return None


def unknown_algorithm(name: str) -> str:
    """Return the text about the name of an algorithm of a user that is not known."""
    found = lookup(name)
    if found is not None:
        return f'{name} is a rewrite, which loads switch on by extensions=("{name}",)'
    known = sorted(each.name for each in _registered.values() if each.of)
    listed = f"{', '.join(known) or 'none'}{near(name, known)}"
    return f"no algorithm {shown(name)} is registered (known: {listed}); {_TO_ADD}"


def with_algorithms(option: str, mentioned: Sequence[Mention], names: Iterable[str]) -> tuple[Mention, ...]:
    """Return extensions that are switched on, and the users' algorithms among these names. Plans that mention one need
    not know it.

    Raises ArgumentError for an algorithm that is not known.
    """
    made = {each.name: each for each in mentioned}
    for name in filter(is_of_user, names):
        if any(f"{name}_".startswith(f"{each}_") for each in made):
            continue
        found = algorithm_named(name)
        if found is None:
            raise ArgumentError(f"{option}: {unknown_algorithm(name)}")
        made[found.name] = found.reference
    return tuple(made.values())


def extensions_by_name(option: str, given: object) -> tuple[Mention, ...]:
    """Return the extensions that a load is given, by their names or as a plan mentions them.

    Raises ArgumentError for another value, for a name that is not known, and for one that is given twice.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ArgumentError(f"{option}: takes a list of names, not {shown(given)}")
    made = tuple(_reference(option, each) for each in given)
    if len({each.name for each in made}) != len(made):
        raise ArgumentError(f"{option}: a name is given twice: {', '.join(map(str, made))}")
    return made


def _reference(option: str, given: object) -> Mention:
    if isinstance(given, str):
        found = lookup(given)
        if found is None:
            known = ", ".join(sorted(_registered)) or "none"
            raise ArgumentError(
                f"{option}: no algorithm or rewrite {shown(given)} is registered (known: {known}"
                f"{near(given, _registered)}); {_TO_ADD}"
            )
        return found.reference
    if isinstance(given, tuple | list) and len(given) == 3 and all(isinstance(each, str) for each in given):
        return Mention(*given)
    raise ArgumentError(f"{option}: {shown(given)} is no name")


def resolved(mentioned: Sequence[Mention]) -> tuple[UserExtension, ...]:
    """Return the extensions that a plan is made with.

    Raises UnsupportedError where this process does not have one of them, or another version of it.
    """
    return tuple(map(_resolved, mentioned))


def _resolved(mentioned: Mention) -> UserExtension:
    if mentioned.name not in _registered:
        import_registering(mentioned.module)
    found = lookup(mentioned.name)
    if found is None:
        raise UnsupportedError(
            f"planning takes {mentioned.name}, which this process does not know: import the module {mentioned.module} "
            "that registers it"
        )
    if found.reference.digest != mentioned.digest:
        raise UnsupportedError(
            f"{found.kind} {mentioned.name} has changed since the plan was made (now {found.place}); compile the model "
            "again"
        )
    return found


_considered: ContextVar[tuple[UserExtension, ...]] = ContextVar("considered", default=())


@contextlib.contextmanager
def considering_named(name: str | None) -> Iterator[None]:
    """Ask the user's algorithm of a name for lowerings, too, in this context, if there is one."""
    found = None if name is None else algorithm_named(name)
    with considering(() if found is None else (found,)):
        yield


@contextlib.contextmanager
def considering(extensions: Sequence[UserExtension]) -> Iterator[None]:
    """Ask these algorithms for lowerings, too, in this context."""
    before = _considered.set(tuple(extensions))
    try:
        yield
    finally:
        _considered.reset(before)


def considered(problem: str) -> tuple[UserExtension, ...]:
    """Return the algorithms of users that are asked here for a kind of problem."""
    return tuple(each for each in _considered.get() if each.of == problem)
