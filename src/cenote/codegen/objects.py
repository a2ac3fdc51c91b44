"""Object files for other machines: a kernel's text as relocatable code that a linker takes. Nothing of it is loaded."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import binding as llvm

from cenote.codegen import cache as object_cache
from cenote.codegen.llvm import optimized_module, switched_as_wanted, tuned_for
from cenote.core.errors import UnsupportedError
from cenote.core.locks import LLVM
from cenote.core.target import Target


def object_code(text: str, target: Target, place: str = "kernel") -> bytes:
    """Return the object file of a module for the target: position-independent ELF, or WebAssembly; out of the cache if
    it was compiled before.

    Errors begin with the `place` that the text comes from. Raises CodegenError where LLVM refuses the text,
    UnsupportedError where this LLVM has no code for the target.
    """
    key = object_cache.key_of_text(text, target)
    if stored := object_cache.read_code(key):
        return stored
    with LLVM.lock, switched_as_wanted(text, target):
        module = optimized_module(text, target, place, _machine)
        code: bytes = _machine(target).emit_object(module)
    object_cache.write_code(key, code)
    return code


def assembly(text: str, target: Target) -> str:
    """Return the machine code of a module for the target as text. Raises as `object_code`."""
    with LLVM.lock, switched_as_wanted(text, target):
        module = optimized_module(text, target, machine_of=_machine)
        code: str = _machine(target).emit_assembly(module)
    return code


@cache
def _machine(target: Target) -> Any:
    """Return LLVM's description of a target whose code is written to files."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    try:
        described = llvm.Target.from_triple(target.triple)
    except RuntimeError as error:
        raise UnsupportedError(f"LLVM has no code for {target.name} ({target.triple}): {error}") from error
    return described.create_target_machine(
        cpu=tuned_for(target),
        features=target.features,
        opt=3,
        reloc="static" if target.triple.startswith("wasm") else "pic",
        codemodel="small",
    )
