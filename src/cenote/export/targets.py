"""Machines that models are exported for, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cenote.core.errors import ArgumentError
from cenote.core.target import Target, plain_target

_LINUX, _WEB = "{}-unknown-linux-gnu", "wasm32-unknown-unknown"


_WASM = "+simd128,+bulk-memory,+nontrapping-fptoint,+sign-ext,+mutable-globals"
_WASM32 = Target("wasm32", "", _WASM, _WEB, 16, 15, False, False, contracts=True)
_RISCV = "+m,+a,+f,+d,+c,+v"

# WebAssembly has as many locals as one likes; what counts is the machine behind it. Of 16 registers on x86-64 V8 keeps
# one for itself. The same text is compiled with and without relaxed instructions, so that both read the same weights.
TARGETS: Mapping[str, Target] = {
    "x86-64": plain_target("generic", _LINUX.format("x86_64")),
    "x86-64-v3": plain_target("avx2", _LINUX.format("x86_64")),
    "x86-64-v4": plain_target("avx512", _LINUX.format("x86_64")),
    "aarch64": plain_target("generic", _LINUX.format("aarch64")),
    "riscv64": Target("riscv64", "generic-rv64", _RISCV, _LINUX.format("riscv64"), 16, 32, True, False),
    "wasm32": _WASM32,
    "wasm32-relaxed": replace(_WASM32, features=f"{_WASM},+relaxed-simd"),
}
# What a header tells its reader about the processors that run the code.
PROCESSORS: Mapping[str, str] = {
    "x86-64": "any x86-64 processor",
    "x86-64-v3": "x86-64 processors with AVX2 and FMA (x86-64-v3: Haswell, Zen, and newer)",
    "x86-64-v4": "x86-64 processors with AVX-512 (x86-64-v4: Skylake-SP, Zen 4, and newer)",
    "aarch64": "any 64-bit Arm processor",
    "riscv64": "RISC-V processors with vectors (rv64gcv)",
    "wasm32": "WebAssembly with SIMD",
    "wasm32-relaxed": "WebAssembly with relaxed SIMD",
}


def is_wasm(target: Target) -> bool:
    """Whether the target is WebAssembly."""
    return target.triple.startswith("wasm")


def machine_of(target: Target) -> str:
    """Return the first word of the target's triple: x86_64, aarch64, riscv64 or wasm32."""
    return target.triple.partition("-")[0]


def target_named(name: str) -> Target:
    """Return a target by name. Raises ArgumentError for another name."""
    if name not in TARGETS:
        raise ArgumentError(f"target: '{name}' is none of {', '.join(TARGETS)}")
    return TARGETS[name]
