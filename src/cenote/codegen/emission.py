"""Emission of kernels: from a spec to LLVM IR, with errors that name the spec and the line at fault.

Specs from outside the package say where they come from (`KernelOrigin`). They are emitted in the process that has their
module; what compiles them, another process perhaps, gets their text (`EmittedKernel`) and needs nothing of the user's.
"""

from __future__ import annotations

import os
import traceback
from typing import Protocol

from cenote.core.deferred import dataclass
from cenote.core.errors import CodegenError, shown
from cenote.core.target import Target

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Emitted(Protocol):
    """Protocol of things that can be compiled: a kernel, or anything else with a symbol, a target and a module text."""

    @property
    def symbol(self) -> str: ...

    @property
    def target(self) -> Target: ...

    def module(self) -> str: ...


class KernelSource(Protocol):
    """Protocol of things that a worker can turn into a kernel: picklable, with a symbol."""

    @property
    def symbol(self) -> str: ...

    def emit(self, target: Target) -> Emitted: ...


@dataclass(frozen=True)
class KernelOrigin:
    """Source of a kernel from outside the package: its digest, and what keeps other processes from telling whether they
    have the same ("" for nothing); code of such a kernel is stored nowhere."""

    digest: str
    untold: str = ""


@dataclass(frozen=True)
class EmittedKernel:
    """Kernel from outside the package as LLVM IR. `place` names its spec, with file and line.

    It is compiled in a process of its own wherever one can be started: some text that is no kernel ends LLVM's process
    by an assertion instead of being refused (an operand of inline assembly, an instruction that the target lacks).
    """

    symbol: str
    target: Target
    text: str
    place: str
    is_kept: bool

    def module(self) -> str:
        return self.text

    def emit(self, target: Target) -> EmittedKernel:
        return self


def origin_of(source: KernelSource | Emitted) -> KernelOrigin | None:
    """Return where a kernel from outside the package comes from; None for Cenote's own."""
    origin: KernelOrigin | None = getattr(source, "origin", None)
    return origin


def is_stored(source: KernelSource) -> bool:
    """Whether object code of the kernel may be kept for other processes."""
    if isinstance(source, EmittedKernel):
        return source.is_kept
    origin = origin_of(source)
    return origin is None or not origin.untold


def emitted(source: KernelSource, target: Target) -> Emitted:
    """Return the kernel of a spec for the target's level. Raises CodegenError that names the spec, the file and the
    line where `emit` fails, or returns something else than the kernel."""
    if isinstance(source, EmittedKernel):
        return source
    try:
        kernel: object = source.emit(target.of_level())
    except Exception as error:  # whatever code of users raises
        raise CodegenError(f"{_described(source)}: emit failed: {told(error)}") from error
    if origin_of(source) is None:
        return kernel  # type: ignore[return-value]  # it has what the protocol asks for
    symbol, declared = getattr(kernel, "symbol", None), getattr(source, "words", None)
    if symbol is None or not hasattr(kernel, "module"):
        raise CodegenError(
            f"{place_of(source)}: emit returned {shown(kernel)}, not the kernel: end it with `return k`"
        )
    if symbol != source.symbol or declared not in (None, getattr(kernel, "parameters", None)):
        raise CodegenError(
            f"{place_of(source)}: emit returned a kernel of another name or with other words; begin it with "
            "`k = self.kernel(target)`"
        )
    return kernel  # type: ignore[return-value]


def portable(source: KernelSource, target: Target) -> KernelSource:
    """Return what another process can compile: the text of a kernel from outside the package, others as they are.
    Raises CodegenError as `emitted` does."""
    origin = origin_of(source)
    if origin is None:
        return source
    kernel = emitted(source, target)
    try:
        text = kernel.module()
    except Exception as error:
        raise CodegenError(f"{place_of(source)}: {told(error)}") from error
    return EmittedKernel(source.symbol, kernel.target, text, place_of(source), not origin.untold)


def place_of(source: KernelSource | Emitted) -> str:
    """Return a kernel's spec, with the file and line of its `emit`, if it comes from outside the package."""
    if isinstance(source, EmittedKernel):
        return source.place
    code = getattr(getattr(type(source), "emit", None), "__code__", None)
    if origin_of(source) is None or code is None:
        return _described(source)
    return f"{_described(source)} ({code.co_filename}:{code.co_firstlineno})"


def _described(source: KernelSource | Emitted) -> str:
    text = shown(source)
    return f"kernel {source.symbol if text.startswith('<') else text}"


def told(error: BaseException) -> str:
    """Return an error's text with the file and line of the code outside the package that raised it, if there is any,
    else of its own."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not os.path.abspath(frame.filename).startswith(_PACKAGE)]
    last = (outside or frames)[-1:]
    where = "".join(f" ({frame.filename}:{frame.lineno})" for frame in last)
    return f"{type(error).__name__}: {error}{where}"
