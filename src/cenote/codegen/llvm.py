"""LLVM, through llvmlite: from a kernel's text to object code. Imported only when something must be compiled.

The pipeline is SROA, instcombine, simplifycfg: the builder's text is already what we want, and the O2 pipeline adds
70-130 ms per kernel and buys nothing (measured on the convolution kernels, LLVM 22).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

from llvmlite import binding as llvm

from cenote.codegen.loader import keep_for_good
from cenote.core.errors import CodegenError
from cenote.core.locks import LLVM
from cenote.core.target import Target


class Emitted(Protocol):
    """What can be compiled: a kernel, or anything else that knows its symbol, target and module text."""

    @property
    def symbol(self) -> str: ...

    @property
    def target(self) -> Target: ...

    def module(self) -> str: ...


@cache
def initialize() -> None:
    """Make LLVM ready to generate code for this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # the driver pauses with one inline instruction


def host() -> tuple[str, dict[str, bool], str]:
    """This machine's CPU name, features and triple."""
    with LLVM.lock:
        initialize()
        return llvm.get_host_cpu_name(), dict(llvm.get_host_cpu_features()), llvm.get_process_triple()


def version() -> str:
    """LLVM's version number."""
    return ".".join(map(str, llvm.llvm_version_info))


@cache
def target_machine(target: Target) -> Any:
    """LLVM's description of the target."""
    initialize()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, jit=True, reloc="pic", codemodel="small"
    )


def optimized_module(text: str, target: Target) -> Any:
    """Parse, verify and run the light pipeline."""
    machine = target_machine(target)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"LLVM refuses a generated kernel: {error}") from error
    module.triple = target.triple
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    passes.run(module, llvm.create_pass_builder(machine, options))
    return module


def assembly(kernel: Emitted) -> str:
    """The machine code of a kernel as text."""
    with LLVM.lock:
        text: str = target_machine(kernel.target).emit_assembly(
            optimized_module(kernel.module(), kernel.target)
        )
    return text


def object_code(kernel: Emitted) -> bytes:
    """The kernel as an object file."""
    with LLVM.lock:
        code: bytes = target_machine(kernel.target).emit_object(
            optimized_module(kernel.module(), kernel.target)
        )
    return code


@cache
def _linker() -> Any:
    initialize()
    llvm.check_jit_execution()
    return llvm.create_lljit_compiler()


_libraries: list[Any] = []  # linked code lives as long as the process: addresses are handed out for good


def link(objects: Mapping[str, bytes]) -> dict[str, int]:
    """Load object files by LLVM's own linker (where `cenote.codegen.loader` cannot), and give the addresses."""
    with LLVM.lock:
        builder = llvm.JITLibraryBuilder()
        for symbol, code in objects.items():
            builder.add_object_img(code).export_symbol(symbol)
        builder.add_current_process()
        library = builder.link(_linker(), f"cenote.{len(_libraries)}")
        _libraries.append(library)
        keep_for_good(library)
        return {symbol: int(library[symbol]) for symbol in objects}
