"""From a kernel's text to an address in this process: LLVM's light pipeline, object code, linking.

The pipeline is SROA, instcombine, simplifycfg: the builder's text is already what we want, and the O2 pipeline adds
70-130 ms per kernel and buys nothing (measured on the convolution kernels, LLVM 22).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

from llvmlite import binding as llvm

from cenote.codegen import cache as object_cache
from cenote.core import settings
from cenote.core.errors import CodegenError
from cenote.core.target import Target, choose_target

_lock = threading.RLock()  # llvmlite serialises every call anyway


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # the driver pauses with one inline instruction


@cache
def _target(force: str) -> Target:
    _initialize()
    features = dict(llvm.get_host_cpu_features())
    return choose_target(llvm.get_host_cpu_name(), features, llvm.get_process_triple(), force)


def host_target() -> Target:
    """The target code is generated for now: the host's best, or what CENOTE_TARGET forces."""
    return _target(settings.TARGET.text())


@cache
def target_machine(target: Target) -> Any:
    """LLVM's description of the target."""
    _initialize()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, jit=True, reloc="pic", codemodel="jitdefault"
    )


def optimized_module(text: str, target: Target) -> Any:
    """Parse, verify and run the light pipeline."""
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"LLVM refuses a generated kernel: {error}") from error
    module.triple = target.triple
    machine = target_machine(target)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    passes.run(module, llvm.create_pass_builder(machine, options))
    return module


class Emitted(Protocol):
    """What can be compiled: a kernel, or anything else that knows its symbol, target and module text."""

    @property
    def symbol(self) -> str: ...

    @property
    def target(self) -> Target: ...

    def module(self) -> str: ...


def assembly(kernel: Emitted) -> str:
    """The machine code of a kernel as text."""
    with _lock:
        text: str = target_machine(kernel.target).emit_assembly(optimized_module(kernel.module(), kernel.target))
    return text


def object_code(kernel: Emitted) -> bytes:
    """The kernel as an object file."""
    with _lock:
        code: bytes = target_machine(kernel.target).emit_object(optimized_module(kernel.module(), kernel.target))
    return code


@cache
def _linker() -> Any:
    _initialize()
    llvm.check_jit_execution()
    return llvm.create_lljit_compiler()


_libraries: list[Any] = []  # linked code lives as long as the process: addresses are handed out for good


def link(objects: Mapping[str, bytes]) -> dict[str, int]:
    """Load object files, one per symbol, and give the symbols' addresses."""
    with _lock:
        builder = llvm.JITLibraryBuilder()
        for symbol, code in objects.items():
            builder.add_object_img(code).export_symbol(symbol)
        builder.add_current_process()
        library = builder.link(_linker(), f"cenote.{len(_libraries)}")
        _libraries.append(library)
        return {symbol: int(library[symbol]) for symbol in objects}


_addresses: dict[tuple[str, Target], int] = {}


def _object_for(symbol: str, emit: Callable[[], Emitted], target: Target) -> bytes:
    code = object_cache.read(symbol, target)
    if code is None:
        code = object_code(emit())
        object_cache.write(symbol, target, code)
    return code


def addresses(wanted: Mapping[str, Callable[[], Emitted]], target: Target) -> dict[str, int]:
    """Addresses of kernels by symbol: from this process, from the disk cache, or built now; linked all at once."""
    with _lock:
        missing = {symbol: emit for symbol, emit in wanted.items() if (symbol, target) not in _addresses}
        if missing:
            objects = {symbol: _object_for(symbol, emit, target) for symbol, emit in missing.items()}
            for symbol, address in link(objects).items():
                _addresses[symbol, target] = address
        return {symbol: _addresses[symbol, target] for symbol in wanted}
