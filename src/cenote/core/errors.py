"""Every error that Cenote raises on purpose.

    CenoteError
    ├── ModelError         the file or graph is not a valid model (also a ValueError)
    │   └── MissingFileError   there is no such file (also a FileNotFoundError)
    ├── UnsupportedError   a valid model or call that Cenote cannot run (also a NotImplementedError)
    │   └── MissingPackageError   a package that is needed is not installed (also an ImportError)
    ├── ShapeError         shapes or ranks do not fit (also a ValueError)
    ├── DTypeError         element types do not fit (also a TypeError)
    ├── ArgumentError      an attribute or argument is out of range (also a ValueError)
    ├── InputError         an argument passed to a model does not fit it (also a ValueError)
    ├── CapacityError      more memory is needed than there is (also a MemoryError)
    ├── OperatorError      a user's function (operator, algorithm, rewrite) failed (also a RuntimeError)
    ├── CodegenError       a generated kernel could not be built or loaded (also a RuntimeError)
    └── UnavailableError   a server has no room for a request, or is closing (also a RuntimeError)

A message says which operator or argument, what was seen, and what to do. A front end adds the node and the file
once, at its boundary, with `CenoteError.located`.
"""

from __future__ import annotations

import errno
import importlib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Self


class CenoteError(Exception):
    """Base of every error raised on purpose."""

    def located(self, where: str) -> Self:
        """Return the same error, its message preceded by the place where it happened (a node, a file)."""
        return type(self)(f"{where}: {self}")


class ModelError(CenoteError, ValueError):
    """The file or graph is not a valid model."""


class MissingFileError(ModelError, FileNotFoundError):
    """Error for a model's file that does not exist. `filename` and `errno` are those of a FileNotFoundError."""

    def __init__(self, message: str, filename: str | None = None) -> None:
        super().__init__(message)
        self.errno, self.filename = errno.ENOENT, filename

    def located(self, where: str) -> Self:
        return type(self)(f"{where}: {self}", self.filename)

    def __str__(self) -> str:
        return str(self.args[0])  # an OSError with a file name would print its own sentence

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None]]:
        return type(self), (str(self), self.filename)


class UnsupportedError(CenoteError, NotImplementedError):
    """A model or call is valid, but Cenote cannot run it."""


class MissingPackageError(UnsupportedError, ImportError):
    """A package that is required is not installed."""


class ShapeError(CenoteError, ValueError):
    """Shapes or ranks do not fit."""


class DTypeError(CenoteError, TypeError):
    """Element types do not fit."""


class ArgumentError(CenoteError, ValueError):
    """An attribute or argument is out of range."""


class InputError(CenoteError, ValueError):
    """An argument passed to a model does not fit it."""


class CapacityError(CenoteError, MemoryError):
    """More memory is needed than there is."""


class OperatorError(CenoteError, RuntimeError):
    """A function of a user, which is an operator, an algorithm or a rewrite, raised an exception or returned something
    that it must not return."""


class CodegenError(CenoteError, RuntimeError):
    """A generated kernel could not be built or loaded."""


class UnavailableError(CenoteError, RuntimeError):
    """A server has no room for a request, or is closing: try again later, or elsewhere."""


def error_of_user(error: Exception, what: str, purpose: str = "") -> OperatorError:
    """Return the error for an exception in code of a user (`what`, called for a `purpose`), with the file and line that
    raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return OperatorError(
        f"{what} raised {type(error).__name__}{purpose}: {error} ({last.filename}:{last.lineno})"
    )


def shown(value: object) -> str:
    """Return the text of a value that a caller gave, for an error: cut where it is long, and described where Python
    cannot print it (a whole number of more than 4,300 digits)."""
    try:
        text = repr(value)
    except Exception:
        if isinstance(value, int):
            return f"an integer of {value.bit_length()} bits"
        return f"a {type(value).__name__} that cannot be printed"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_LONGEST = 120  # characters


def near(name: str, known: Iterable[str]) -> str:
    """Return the end of an error's text about an unknown name: names that may have been meant, if any."""
    import difflib

    names = sorted(known)
    close = difflib.get_close_matches(name, names[:_LOOKED_THROUGH], 3, 0.5)
    close += [each for each in names if name and name.lower() in each.lower() and each not in close][:3]
    return f"; close to it: {', '.join(close)}" if close else ""


_LOOKED_THROUGH = 10_000  # names that are searched: some 10 us each

FAULTS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, NotImplementedError)
"""Errors that an operator raises when a model has something unexpected."""


class errors_at:  # noqa: N801  (used as `contextmanager`s are, at a fifth of their time: some 1 us, twice per node)
    """Context in which errors are located; errors that are not Cenote's become CapacityError or ModelError."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CenoteError):
            raise error.located(self.where) from error
        if isinstance(error, MemoryError):
            raise CapacityError(f"{self.where}: there is not enough memory ({error})") from error
        if isinstance(error, FAULTS):
            text = f"{self.where}: cannot work on inputs of these sizes and types ({error})"
            raise ModelError(text) from error


# Messages of RuntimeErrors for limits of the system, and codes of OSErrors for memory and descriptors, which imports
# need too.
_REFUSED = ("can't start new thread", "can't allocate lock")
_NO_ROOM = (errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def raise_refusal(what: str, error: Exception) -> NoReturn:
    """Raise CapacityError naming `what` where the system refuses memory, a thread, a lock or a descriptor; else the
    error itself."""
    refused = (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno in _NO_ROOM)
        or str(error).startswith(_REFUSED)
    )
    if isinstance(error, CenoteError) or not refused:
        raise error
    raise CapacityError(
        f"{what}: there is not enough memory, or a limit of the system is reached ({error})"
    ) from error


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Raise CapacityError that names `what` for refusals of the system in this context; other errors pass."""
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        raise_refusal(what, error)


_REMEDY = "pip install cenote (instead of cenote-runtime, which runs plan files only)"


def needed(package: str, purpose: str, remedy: str = _REMEDY) -> Any:
    """Import a package that not every installation has. Raises MissingPackageError, which names the purpose."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError:
        raise MissingPackageError(
            f"{purpose} takes the package {package}, which is not installed: {remedy}"
        ) from None


def left_out(module: str) -> MissingPackageError:
    """Return the error for the import of a part that `cenote-runtime` does not have."""
    return MissingPackageError(f"{module} is not installed, nor what it needs: {_REMEDY}")
