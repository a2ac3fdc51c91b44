"""Kernels as text and as machine code: the builder, LLVM, the cache, the loader.

`ir(kernel)` and `assembly(kernel)` show what any kernel or kernel spec becomes:

    from cenote.kernels.layout.memcpy import MemcpySpec
    print(cenote.codegen.assembly(MemcpySpec()))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cenote.codegen import jit

if TYPE_CHECKING:
    from cenote.codegen.emission import KernelSource


def ir(kernel: KernelSource, target: str = "") -> str:
    """LLVM IR of a kernel for a target ("avx512", "avx2", "generic"; "": the host's best), before LLVM touches it."""
    return kernel.emit(jit.named_target(target)).module()


def assembly(kernel: KernelSource, target: str = "") -> str:
    """Machine code of a kernel, as text. Raises CodegenError when LLVM refuses the kernel."""
    return jit.assembly(kernel.emit(jit.named_target(target)))


__all__ = ["assembly", "ir"]
