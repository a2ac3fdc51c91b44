"""From a kernel to an address in this process: out of the cache, out of the package, or compiled; then loaded.

Only what is in neither needs LLVM, which is imported then. `named_target` and `host_target` say for which machine code
is generated.
"""

from __future__ import annotations

import importlib
import logging
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from cenote.codegen import bundle, loader, worker
from cenote.codegen import cache as object_cache
from cenote.core import cpuid, settings
from cenote.core.errors import CodegenError
from cenote.core.locks import LLVM, Guard, importing
from cenote.core.packages import needed
from cenote.core.target import Target, choose_target

if TYPE_CHECKING:
    from cenote.codegen.llvm import Emitted
    from cenote.codegen.worker import Source

_log = logging.getLogger(__name__)
_guard = Guard()
PERF_FOLDER = "/tmp"  # where Linux perf looks


def _llvm() -> Any:
    """LLVM, imported when it is needed."""
    if LLVM.orphaned:
        raise CodegenError(
            "this process was forked while another thread was using LLVM, which cannot go on here, and no process that "
            "compiles could be started: load models before forking"
        )
    with (
        LLVM.lock,
        importing(),
    ):  # a child forked amid dlopen hangs in the next dlsym, which any kernel's loading is
        needed("llvmlite", "compiling kernels")
        return importlib.import_module("cenote.codegen.llvm")


# ---- the machine ----------------------------------------------------------------------------------------------------


@cache
def _machine() -> tuple[frozenset[str], str]:
    """The processor's features and the system's triple. LLVM would know both, but takes 0.1 s to import."""
    if sys.platform == "linux" and cpuid.can_ask():
        return cpuid.features(), "x86_64-unknown-linux-gnu"
    _, features, triple = _llvm().host()
    return frozenset(name for name, on in features.items() if on), triple


@cache
def named_target(name: str) -> Target:
    """A target by name ("avx512", "avx2", "generic"), "" for the host's best.

    Raises ArgumentError when the host cannot run it.
    """
    features, triple = _machine()
    return choose_target(features, triple, name)


def host_target() -> Target:
    """The target code is generated for now: the host's best, or what CENOTE_TARGET forces."""
    return named_target(settings.TARGET.text())


def llvm_version() -> str:
    """LLVM's version number (imports it)."""
    version: str = _llvm().version()
    return version


# ---- looking at code ------------------------------------------------------------------------------------------------


def assembly(kernel: Emitted) -> str:
    """The machine code of a kernel as text. (Its LLVM IR is `kernel.module()`.)"""
    text: str = _llvm().assembly(kernel)
    return text


# ---- compiling and loading ------------------------------------------------------------------------------------------

_addresses: dict[tuple[str, Target], int] = {}
_objects: dict[tuple[str, Target], bytes] = {}  # some 10 KB each; plan files take them from here


Progress = Callable[[int, int], None]  # kernels compiled, kernels to compile
_watchers: list[Progress] = []


@contextmanager
def watching(progress: Progress) -> Iterator[None]:
    """While this lasts, `progress(done, total)` is called whenever a kernel has been compiled.

    It is called by the thread that wants the kernels, and may run models and functions itself; it must not wait for
    other threads that do. What it raises ends the compilation.
    """
    _watchers.append(progress)
    try:
        yield
    finally:
        _watchers.remove(progress)


def addresses(sources: Iterable[Source], target: Target, rest: Iterable[Source] = ()) -> dict[str, int]:
    """Addresses of kernels by symbol: from this process, the disk cache, the package, or built now; loaded all at once.

    Many at once are compiled by worker processes on all cores. Of `rest`, those that are to be compiled are missing in
    the answer: a thread has them compiled, and who asks for them meanwhile waits. Raises CodegenError when LLVM refuses
    a kernel or the system forbids executable memory.
    """
    wanted, others = ({source.symbol: source for source in part} for part in (sources, rest))
    with _guard.lock:
        found: dict[str, bytes] = {}
        missing, later = _sought(wanted.values(), target, found), _sought(others.values(), target, found)
        if found or missing:
            _log.debug(
                "kernels for %s: %d found compiled, %d to compile", target.name, len(found), len(missing)
            )
        if missing:
            begin = time.perf_counter()
            _compile(missing, target, found)
            _log.info(
                "compiled %d kernels for %s in %.2f s", len(missing), target.name, time.perf_counter() - begin
            )
            object_cache.prune()
        _remember(found, target)
        known = {
            symbol: _addresses[symbol, target]
            for symbol in (*wanted, *others)
            if (symbol, target) in _addresses
        }
    if later:
        _log.info("%d more kernels are compiled meanwhile", len(later))
        _begin(later, target)
    return known


def _sought(sources: Iterable[Source], target: Target, found: dict[str, bytes]) -> list[Source]:
    """Of the kernels that this process has not loaded those that are nowhere; object code of the others is `found`."""
    missing = []
    for source in sources:
        if (source.symbol, target) not in _addresses and source.symbol not in found:
            code = object_cache.read(source.symbol, target) or bundle.read(source.symbol, target)
            if code is None:
                missing.append(source)
            else:
                found[source.symbol] = code
    return missing


def _begin(sources: list[Source], target: Target) -> None:
    """Have kernels compiled by a thread. What fails there fails again, and is told, where they are asked for."""

    def work() -> None:
        try:
            addresses(sources, target)
        except Exception as error:
            _log.debug("kernels that were compiled ahead: %s", error)

    with suppress(RuntimeError, MemoryError):  # no more threads: they are compiled when they are asked for
        threading.Thread(target=work, name="cenote-compile-rest", daemon=True).start()


def _compile(missing: list[Source], target: Target, found: dict[str, bytes]) -> None:
    total = len(missing)

    def done(symbol: str, code: bytes) -> None:
        found[symbol] = code
        object_cache.write(symbol, target, code)
        for watcher in list(_watchers):
            watcher(min(total, sum(source.symbol in found for source in every)), total)

    every = list(missing)
    if worker.worth_processes(total) or LLVM.orphaned:
        missing = worker.compile_in_processes(missing, target, done)
    for source in missing:
        with worker.timed(source.symbol):
            code = _object_code(source, target)
        done(source.symbol, code)


def _object_code(source: Source, target: Target) -> bytes:
    """Compile in this process. The main thread has another do it: Ctrl-C must not wait for LLVM, which takes 3 s for a
    large kernel. Nobody waits for that thread then but the interpreter at exit, and who wants LLVM next."""
    compile_now, emitted = _llvm().object_code, source.emit(target.of_level())
    answers: SimpleQueue[bytes | Exception] = SimpleQueue()

    def work() -> None:
        try:
            answers.put(compile_now(emitted))
        except Exception as error:
            answers.put(error)

    started = False
    if threading.current_thread() is threading.main_thread():
        with suppress(RuntimeError, MemoryError):  # no more threads: it is done here
            threading.Thread(target=work, name="cenote-llvm").start()
            started = True
    if not started:
        work()
    answer = answers.get()
    if isinstance(answer, Exception):
        raise answer
    return answer


_ALWAYS = "cenote_run"  # a kernel of every program
_USUAL = (
    "cenote.kernels.conv.direct_plan",
    "cenote.kernels.conv.winograd_plan",
    "cenote.kernels.product.plan",
)


def prepare() -> None:
    """A model is going to be compiled. Where not even what every model needs is there, nothing is: a new installation
    without kernels of its own; then workers start now, and are ready when it is known what they are to compile."""
    target = host_target()
    if (_ALWAYS, target) in _addresses or LLVM.orphaned or find_spec("llvmlite") is None:
        return
    if object_cache.read(_ALWAYS, target) is None and bundle.read(_ALWAYS, target) is None:
        worker.start_early(_USUAL)


def objects(symbols: Sequence[str], target: Target) -> dict[str, bytes]:
    """Object code of kernels that this process has loaded."""
    return {symbol: _objects[symbol, target] for symbol in symbols}


def adopt(found: Mapping[str, bytes], target: Target) -> dict[str, int]:
    """Load object code that came from elsewhere (a plan file), unless the process has that kernel; addresses."""
    with _guard.lock:
        _remember(
            {symbol: code for symbol, code in found.items() if (symbol, target) not in _addresses}, target
        )
        return {symbol: _addresses[symbol, target] for symbol in found}


def _remember(objects: Mapping[str, bytes], target: Target) -> None:
    if not objects:
        return
    for symbol, address in _load(objects).items():
        _objects[symbol, target] = objects[symbol]
        _addresses[symbol, target] = address  # last: at a fork another thread may be between the two


def _load(objects: Mapping[str, bytes]) -> dict[str, int]:
    if not loader.can_load():
        linked: dict[str, int] = _llvm().link(objects)
        return linked
    placed = loader.load(objects)
    if settings.PERF_MAP.text() not in ("", "0"):
        _tell_profiler(placed)
    return {symbol: place.address for symbol, place in placed.items()}


def _tell_profiler(placed: Mapping[str, loader.Placed]) -> None:
    """Append to the map in which Linux perf looks up the names of generated code.

    Its name is known to everybody who can write to /tmp: a link, or a file of somebody else, is left alone.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError), open(os.open(f"{PERF_FOLDER}/perf-{os.getpid()}.map", flags, 0o600), "a") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_nlink != 1:
            return
        for symbol, place in placed.items():
            for name, address, nbytes in place.functions:
                file.write(f"{address:x} {nbytes:x} {name or symbol}\n")
