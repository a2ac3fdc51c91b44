"""LLVM, through llvmlite: from a kernel's text to object code. It is imported only when something must be compiled.

The pipeline is SROA, instcombine, simplifycfg: the builder's text is already what we want, and the O2 pipeline adds
70-130 ms per kernel and buys nothing (measured on the convolution kernels, LLVM 22).

Loop strength reduction, which is no pass of the pipeline but a part of code generation, is off for kernels that say
that they move their addresses themselves (`Kernel.moves_addresses`). Its search grows with the square of an unrolled
loop's addresses: 1.1 of 1.25 s for a large Winograd kernel, and past 200 addresses it gives up. Limits of the search
(-lsr-complexity-limit) save nothing. Other kernels keep it: without it, those that multiply a counter by a stride for
every load take longer (a global pool of blocked channels 20 %).

So is the machine combiner on x86, for kernels that say that they add in order (`Kernel.adds_in_order`): it makes trees
of sums of integer products, whose parts it then spills (72 vectors in the innermost loop of a Winograd kernel of bytes
for AVX2, 4 without it), and takes VPDPWSSD apart into a product and an addition.

So is the scheduler of machine instructions, for kernels that write several independent vectors side by side
(`Kernel.keeps_order`): to save registers it puts the chain of one vector behind that of another, too far apart for a
processor to run them at the same time (erf of four vectors at once: 1.02 ns an element, 0.86 without it). Without it,
or without its care for registers, networks take 1.02 to 1.12 of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from cenote.codegen import cache as object_cache
from cenote.codegen.builder import ADDS_IN_ORDER, KEEPS_ORDER, MOVES_ADDRESSES
from cenote.codegen.emission import Emitted, place_of
from cenote.codegen.loader import keep_for_good
from cenote.core.errors import CodegenError
from cenote.core.locks import LLVM
from cenote.core.target import Target

try:
    from llvmlite import binding as llvm
except OSError as error:
    raise CodegenError(
        "LLVM cannot be loaded: a limit of address space (ulimit -v) is below its 200 MB, or the installation of "
        f"llvmlite is damaged ({error})"
    ) from error

# LLVM's plain tuning keeps more in registers than the level's own: the AVX-512 kernels of five networks spill 744
# vectors against 1147 (tuned for Sapphire Rapids 1085, for Zen 4 2396). Those for AVX2 spill 1096 with the level's
# tuning, 1189 with the plain one.
_TUNED_FOR = {"x86-64-v4": "generic"}


def tuned_for(target: Target) -> str:
    """Return the processor that LLVM tunes code of the target for."""
    return _TUNED_FOR.get(target.cpu, target.cpu)


MachineOf = Callable[[Target], Any]
"""Function from a target to LLVM's description of it."""


@cache
def initialize() -> None:
    """Initialise LLVM's code generation for this machine."""
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
    """Return LLVM's description of the target, for code that this process loads."""
    initialize()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=tuned_for(target),
        features=target.features,
        opt=3,
        jit=True,
        reloc="pic",
        codemodel="small",
    )


@contextmanager
def switched_as_wanted(text: str, target: Target) -> Iterator[None]:
    """Switch parts of code generation off while one kernel is compiled, if it asks for that: the switches are global to
    the process, and others (Numba) may use LLVM in it. An LLVM without code for x86 does not know the second one."""
    switches = [("-disable-lsr=true", "-disable-lsr=false")] if MOVES_ADDRESSES in text else []
    if KEEPS_ORDER in text:
        switches.append(("-enable-misched=false", "-enable-misched=true"))
    if ADDS_IN_ORDER in text and target.triple.startswith("x86"):
        switches.append(("-x86-machine-combiner=false", "-x86-machine-combiner=true"))
    for off, _ in switches:
        llvm.set_option("cenote", off)
    try:
        yield
    finally:
        for _, on in switches:
            llvm.set_option("cenote", on)


def optimized_module(
    text: str, target: Target, place: str = "kernel", machine_of: MachineOf | None = None
) -> Any:
    """Parse, verify and run the light pipeline. Errors begin with the `place` that the text comes from. `machine_of`
    describes a target that may be of another architecture; without it the code is for this process."""
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"{place}: LLVM refuses a generated kernel: {error}") from error
    module.triple = target.triple
    machine = (machine_of or target_machine)(target)
    if machine_of is not None:
        module.data_layout = str(machine.target_data)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    passes.run(module, llvm.create_pass_builder(machine, options))
    return module


def assembly(kernel: Emitted) -> str:
    """Machine code of a kernel as text."""
    text = kernel.module()
    with LLVM.lock, switched_as_wanted(text, kernel.target):
        module = optimized_module(text, kernel.target, place_of(kernel))
        code: str = target_machine(kernel.target).emit_assembly(module)
    return code


def object_code(kernel: Emitted, is_stored: bool = True) -> bytes:
    """Object file of a kernel; one that was compiled from the same text before is taken from the cache, if it
    `is_stored` there."""
    text = kernel.module()
    key = object_cache.key_of_text(text, kernel.target)
    if is_stored and (stored := object_cache.read_code(key)):
        return stored
    with LLVM.lock, switched_as_wanted(text, kernel.target):
        module = optimized_module(text, kernel.target, place_of(kernel))
        code: bytes = target_machine(kernel.target).emit_object(module)
    if is_stored:
        object_cache.write_code(key, code)
    return code


@cache
def _linker() -> Any:
    initialize()
    llvm.check_jit_execution()
    return llvm.create_lljit_compiler()


_libraries: list[Any] = []  # linked code lives as long as the process: addresses stay in use


def link(objects: Mapping[str, bytes]) -> dict[str, int]:
    """Load object files by LLVM's own linker (where `cenote.codegen.loader` cannot), and return the addresses."""
    with LLVM.lock:
        builder = llvm.JITLibraryBuilder()
        for symbol, code in objects.items():
            builder.add_object_img(code).export_symbol(symbol)
        builder.add_current_process()
        library = builder.link(_linker(), f"cenote.{len(_libraries)}")
        _libraries.append(library)
        keep_for_good(library)
        return {symbol: int(library[symbol]) for symbol in objects}
