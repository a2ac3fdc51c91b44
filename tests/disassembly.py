"""How the instructions of generated x86-64 code are encoded: that tells which CPUs can run it."""

from __future__ import annotations

import capstone
from llvmlite import binding as llvm

# First byte of an instruction in 64-bit mode. EVEX: AVX-512, AVX10, APX; REX2: APX; VEX: AVX to AVX2, FMA, BMI.
ENCODINGS = {0x62: "EVEX", 0xD5: "REX2", 0xC4: "VEX", 0xC5: "VEX"}
LEGACY_PREFIXES = b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3"  # may stand before any of them


def encodings(code: bytes) -> set[str]:
    """The encodings in an object file's text sections: "EVEX", "REX2", "VEX", and "legacy" for all others."""
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    found = set()
    for section in llvm.ObjectFileRef.from_data(code).sections():
        if not section.is_text():
            continue
        body, end = section.data(), 0
        for end, nbytes, _, _ in decoder.disasm_lite(body, 0):
            start = body[end : end + nbytes].lstrip(LEGACY_PREFIXES)[:1]
            found.add(ENCODINGS.get(start[0], "legacy") if start else "legacy")
            end += nbytes
        # What the decoder does not know must not pass for harmless. It knows few instructions newer than AVX-512.
        if end < len(body):
            found.add(ENCODINGS.get(body[end], f"unknown: {body[end : end + 15].hex(' ')}"))
    return found
