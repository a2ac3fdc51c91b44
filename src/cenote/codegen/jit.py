"""Machine code of kernels, loaded into this process: from the cache, from the package, or compiled.

Only kernels that are in neither need LLVM, which is imported then. `named_target` and `host_target` give the target
for which machine code is generated.
"""

from __future__ import annotations

import importlib
import logging
import os
import platform
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

from cenote.codegen import bundle, emission, loader, worker
from cenote.codegen import cache as object_cache
from cenote.codegen.emission import EmittedKernel
from cenote.core import settings
from cenote.core.errors import CodegenError, needed
from cenote.core.locks import LLVM, Guard, importing
from cenote.core.machine import cpuid
from cenote.core.target import Target, choose_target

if TYPE_CHECKING:
    from cenote.codegen.emission import Emitted, KernelSource

_log = logging.getLogger(__name__)
_guard = Guard()
PERF_FOLDER = "/tmp"  # folder in which Linux perf looks


def _llvm() -> Any:
    """Import LLVM when it is needed."""
    if LLVM.orphaned:
        raise CodegenError(
            "this process was forked while another thread was using LLVM, which cannot go on here, and no process that "
            "compiles could be started: load models before forking"
        )
    # A child forked during dlopen hangs in the next dlsym, which loading any kernel needs.
    with LLVM.lock, importing():
        needed("llvmlite", "compiling kernels")
        return importlib.import_module("cenote.codegen.llvm")


# ---- the machine ----------------------------------------------------------------------------------------------------


@cache
def _machine() -> tuple[frozenset[str], str]:
    """The processor's features and the system's triple. LLVM would know both, but takes 0.1 s to import."""
    if sys.platform == "linux" and cpuid.can_ask():
        return cpuid.features(), "x86_64-unknown-linux-gnu"
    if sys.platform == "linux" and platform.machine() == "aarch64":  # code is for the baseline
        return frozenset(), "aarch64-unknown-linux-gnu"
    _, features, triple = _llvm().host()
    # Tiles are used on Linux alone, which gives permission to them.
    return frozenset(name for name, on in features.items() if on and not name.startswith("amx")), triple


@cache
def named_target(name: str) -> Target:
    """Return a target by name ("avx512", "avx2", "generic"), "" for the host's best.

    Raises ArgumentError when the host cannot run it.
    """
    features, triple = _machine()
    return choose_target(features, triple, name)


def host_target() -> Target:
    """Return the target for which code is generated now: the host's best, or the one that CENOTE_TARGET forces."""
    return named_target(settings.TARGET.text())


def llvm_version() -> str:
    """LLVM's version number (this imports LLVM)."""
    version: str = _llvm().version()
    return version


# ---- looking at code ------------------------------------------------------------------------------------------------


def assembly(kernel: Emitted) -> str:
    """Machine code of a kernel as text. (Its LLVM IR is `kernel.module()`.)"""
    text: str = _llvm().assembly(kernel)
    return text


# ---- compiling and loading ------------------------------------------------------------------------------------------

_addresses: dict[tuple[str, Target], int] = {}
_objects: dict[tuple[str, Target], bytes] = {}  # some 10 KB each; plan files take them from here


Progress = Callable[[int, int], None]  # kernels compiled, kernels to compile
_watchers: list[Progress] = []
_told: list[Progress] = []  # the one that is being called


@contextmanager
def watching(progress: Progress) -> Iterator[None]:
    """Call `progress(done, total)` whenever a kernel has been compiled, as long as this context lasts.

    The thread that needs the kernels makes the call. `progress` may run models and functions itself, whose kernels it
    is not told of; it must not wait for other threads that do. An exception from it ends the compilation.
    """
    _watchers.append(progress)
    try:
        yield
    finally:
        _watchers.remove(progress)


def addresses(
    sources: Iterable[KernelSource], target: Target, rest: Iterable[KernelSource] = ()
) -> dict[str, int]:
    """Return addresses of kernels by symbol: from this process, the disk cache, the package, or built now; all are
    loaded at once.

    Many at once are compiled by worker processes on all cores. Kernels of `rest` that have to be compiled are missing
    in the result: a thread compiles them, and whoever requests them meanwhile waits. Raises CodegenError when LLVM
    refuses a kernel or the system forbids executable memory.
    """
    wanted, others = ({source.symbol: source for source in part} for part in (sources, rest))
    every = (*wanted, *others)
    # Without the lock: a thread that compiles the rest of a model holds it for seconds.
    if len(known := _known(every, target)) == len(every):
        return known
    with _guard.lock:
        code_of: dict[str, bytes] = {}
        missing, later = _sought(wanted.values(), target, code_of), _sought(others.values(), target, code_of)
        if code_of or missing:
            _log.debug(
                "kernels for %s: %d found compiled, %d to compile", target.name, len(code_of), len(missing)
            )
        if missing:
            begin = time.perf_counter()
            _compile(missing, target, code_of, bool(later))
            _log.info(
                "compiled %d kernels for %s in %.2f s", len(missing), target.name, time.perf_counter() - begin
            )
            object_cache.prune()
        _remember(code_of, target)
        known = _known(every, target)
    if later:
        _log.info("%d more kernels are compiled meanwhile", len(later))
        _begin(later, target)
    return known


def _known(symbols: Iterable[str], target: Target) -> dict[str, int]:
    """Return the addresses of those kernels that this process has loaded."""
    return {symbol: _addresses[symbol, target] for symbol in symbols if (symbol, target) in _addresses}


def _sought(sources: Iterable[KernelSource], target: Target, code_of: dict[str, bytes]) -> list[KernelSource]:
    """Return the kernels that this process has not loaded and that are stored nowhere; the others' object code is put
    into `code_of`, by symbol."""
    missing = []
    for source in sources:
        if (source.symbol, target) not in _addresses and source.symbol not in code_of:
            code = _stored(source, target)
            if code is None:
                missing.append(source)
            else:
                code_of[source.symbol] = code
    return missing


def _stored(source: KernelSource, target: Target) -> bytes | None:
    """Return the object code of a kernel that is kept in the cache or the package."""
    if not emission.is_stored(source):
        return None
    return object_cache.read(source.symbol, target) or bundle.read(source.symbol, target)


def _begin(sources: list[KernelSource], target: Target) -> None:
    """Compile kernels in a thread. A failure there occurs again, and is reported, where the kernels are requested."""

    def work() -> None:
        try:
            addresses(sources, target)
        except Exception as error:
            _log.debug("kernels that were compiled ahead: %s", error)

    with suppress(RuntimeError, MemoryError):  # no more threads: they are compiled when they are requested
        threading.Thread(target=work, name="cenote-compile-rest", daemon=True).start()


def _compile(
    missing: list[KernelSource], target: Target, code_of: dict[str, bytes], more: bool = False
) -> None:
    """Compile kernels, and add their object code to `code_of`; `more` will be compiled soon."""
    total, writer = len(missing), object_cache.KernelWriter(target)
    kept = {source.symbol for source in missing if emission.is_stored(source)}
    every = missing = [emission.portable(source, target) for source in missing]

    def done(symbol: str, code: bytes) -> None:
        code_of[symbol] = code
        if symbol in kept:
            writer.add(symbol, code)
        _tell(min(total, sum(source.symbol in code_of for source in every)), total)

    waits = worker.waits_for(target) or LLVM.orphaned
    foreign = any(isinstance(source, EmittedKernel) for source in every)
    try:
        if waits or foreign or worker.worth_processes(total):
            missing = worker.compile_in_processes(missing, target, done, more or foreign)
        for source in missing:
            with worker.timed(source.symbol):
                code = _object_code(source, target)
            done(source.symbol, code)
    finally:
        writer.finish()


def _tell(count: int, total: int) -> None:
    """Tell the watchers how many kernels have been compiled; the caller holds the lock."""
    for watcher in () if _told else tuple(_watchers):
        _told.append(watcher)
        try:
            watcher(count, total)
        finally:
            _told.remove(watcher)


def _object_code(source: KernelSource, target: Target) -> bytes:
    """Compile in this process. The main thread leaves it to another thread: Ctrl-C must not wait for LLVM, which
    takes 3 s for a large kernel. Then only the interpreter at exit, and the next user of LLVM, wait for that thread."""
    compile_now, emitted = _llvm().object_code, emission.emitted(source, target)
    kept = emission.is_stored(source)
    answers: SimpleQueue[bytes | Exception] = SimpleQueue()

    def work() -> None:
        try:
            answers.put(compile_now(emitted, kept))
        except Exception as error:
            answers.put(error)

    started = False
    if threading.current_thread() is threading.main_thread():
        with suppress(RuntimeError, MemoryError):  # no more threads: compiled here
            threading.Thread(target=work, name="cenote-llvm").start()
            started = True
    if not started:
        work()
    answer = answers.get()
    if isinstance(answer, Exception):
        raise answer
    return answer


_USUAL = (
    "cenote.kernels.conv.direct_calls",
    "cenote.kernels.winograd.calls",
    "cenote.kernels.product.calls",
)


def prepare(always: Sequence[KernelSource]) -> None:
    """Prepare for the compilation of a model. If not even the first of the kernels that every model needs is stored,
    none is (a new installation without kernels of its own): then workers start now, with these."""
    target, first = host_target(), always[0].symbol
    if (first, target) in _addresses or LLVM.orphaned or find_spec("llvmlite") is None:
        return
    if object_cache.read(first, target) is None and bundle.read(first, target) is None:
        worker.start_early(target, _USUAL, always)


def expect(source: KernelSource, target: Target) -> None:
    """Let workers that wait compile a kernel that will be requested soon, while the model is still being planned."""
    is_own = emission.origin_of(source) is None
    if is_own and worker.waits_for(target) and (source.symbol, target) not in _addresses:
        worker.ask_early(source, target)


def objects(symbols: Sequence[str], target: Target) -> dict[str, bytes]:
    """Return the object code of kernels that this process has loaded."""
    return {symbol: _objects[symbol, target] for symbol in symbols}


_of_host_steps: set[str] = set()


def note_of_host_steps(symbols: Iterable[str]) -> None:
    """Note kernels that steps on the host call as they run: no plan names them, but its file holds them."""
    _of_host_steps.update(symbols)


def of_host_steps(target: Target) -> set[str]:
    """Return the symbols of the kernels that steps on the host have called in this process. Others may note some
    meanwhile."""
    return {symbol for symbol in _of_host_steps.copy() if (symbol, target) in _objects}


def adopt(code_of: Mapping[str, bytes], target: Target) -> dict[str, int]:
    """Load object code from elsewhere (a plan file), unless the process has that kernel; return addresses."""
    with _guard.lock:
        _remember(
            {symbol: code for symbol, code in code_of.items() if (symbol, target) not in _addresses}, target
        )
        return {symbol: _addresses[symbol, target] for symbol in code_of}


def _remember(objects: Mapping[str, bytes], target: Target) -> None:
    if not objects:
        return
    for symbol, address in _load(objects).items():
        _objects[symbol, target] = objects[symbol]
        _addresses[symbol, target] = address  # last: another thread may be between the two at a fork


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

    Every user can create a file of that name in /tmp, so a link or a file of another user is not touched.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError), open(os.open(f"{PERF_FOLDER}/perf-{os.getpid()}.map", flags, 0o600), "a") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_nlink != 1:
            return
        for symbol, place in placed.items():
            for name, address, nbytes in place.functions:
                file.write(f"{address:x} {nbytes:x} {name or symbol}\n")
