"""Features of an x86-64 processor, read by its own instruction, CPUID: 0.2 ms, without LLVM and without /proc.

Features have LLVM's names, but for `HALVED`. Those whose registers the system does not save (XGETBV) do not count, nor
do tiles where it does not let this process use them.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from cenote.core.errors import CapacityError

# void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t answer[4]) and uint64_t xgetbv(), by the System V ABI
_CPUID = bytes.fromhex("53 89f8 89f1 4989d0 0fa2 418900 41895804 41894808 4189500c 5b c3")
_XGETBV = bytes.fromhex("31c9 0f01d0 c3")
_XGETBV_AT = 64
_READ_EXECUTE = mmap.PROT_READ | 4 if hasattr(mmap, "PROT_READ") else 0

_EAX, _EBX, _ECX, _EDX = 0, 1, 2, 3  # places in the answer
SEVEN_ONE = 7 | 1 << 32  # leaf 7, subleaf 1
# name: leaf, register, bit; the answers' layout is in Intel's and AMD's manuals
_BITS = {
    "sse3": (1, _ECX, 0), "ssse3": (1, _ECX, 9), "fma": (1, _ECX, 12), "cx16": (1, _ECX, 13),
    "sse4.1": (1, _ECX, 19), "sse4.2": (1, _ECX, 20), "movbe": (1, _ECX, 22), "popcnt": (1, _ECX, 23),
    "avx": (1, _ECX, 28), "f16c": (1, _ECX, 29),
    "bmi": (7, _EBX, 3), "avx2": (7, _EBX, 5), "bmi2": (7, _EBX, 8),
    "avx512f": (7, _EBX, 16), "avx512dq": (7, _EBX, 17), "avx512cd": (7, _EBX, 28),
    "avx512bw": (7, _EBX, 30), "avx512vl": (7, _EBX, 31), "avx512vbmi": (7, _ECX, 1), "avx512vnni": (7, _ECX, 11),
    "amx-bf16": (7, _EDX, 22), "amx-tile": (7, _EDX, 24), "amx-int8": (7, _EDX, 25),
    "avxvnni": (SEVEN_ONE, _EAX, 4), "avx512bf16": (SEVEN_ONE, _EAX, 5), "amx-fp16": (SEVEN_ONE, _EAX, 21),
    "sahf": (0x80000001, _ECX, 0), "lzcnt": (0x80000001, _ECX, 5),
}  # fmt: skip
_SAVES = (1, _ECX, 27)  # OSXSAVE: the system saves the registers that XGETBV lists
# Bits of XGETBV's answer: halves of the vector registers, mask registers, tiles.
_YMM, _ZMM, _TILES = 0x6, 0xE6, 0x60000
# Linux saves tiles only for processes that ask (Documentation/arch/x86/xstate.rst): arch_prctl, ARCH_REQ_XCOMP_PERM and
# the number of the tiles' state. All threads, and forked processes, have the permission then.
_ARCH_PRCTL, _REQUEST, _TILE_STATE = 158, 0x1023, 18
_IN_YMM = ("avx", "avx2", "fma", "f16c", "avxvnni")
# Vectors of 512 bits pass the multiply-add units in two halves: AVX-512 has no more multiply-adds per cycle than AVX2.
# Zen 4's do (118 GFLOP/s at 3.69 GHz either way); family 25 is AMD's Zen 3, which has no AVX-512, and Zen 4.
HALVED, _ZEN_4_FAMILY = "halved-512", 25


def can_ask() -> bool:
    """Whether `features` works on this processor and system."""
    return os.name == "posix" and platform.machine().lower() in {"x86_64", "amd64"}


@cache
def features() -> frozenset[str]:
    """Return the features out of those above that this processor has and the system supports.

    The set is empty where memory cannot be made executable: no kernel runs there either. Raises CapacityError where
    there is no memory for the query: a lower level would be slower, and give other last bits, for the rest of the
    process.
    """
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:  # not cached: next time there may be memory
        raise CapacityError(f"no memory to ask what the processor can do ({error})") from error
    code[: len(_CPUID)] = _CPUID
    code[_XGETBV_AT : _XGETBV_AT + len(_XGETBV)] = _XGETBV
    held = ctypes.c_char.from_buffer(code)
    try:
        address = ctypes.addressof(held)
        if ctypes.CDLL(None).mprotect(
            ctypes.c_void_p(address), ctypes.c_size_t(len(code)), ctypes.c_int(_READ_EXECUTE)
        ):
            return frozenset()
        return _permitted(_features(address))
    finally:
        del held
        code.close()


def _permitted(found: frozenset[str]) -> frozenset[str]:
    """Return the features without those of tiles, unless the system lets this process use tiles, for good."""
    tiles = frozenset(name for name in found if name.startswith("amx"))
    if not tiles:
        return found
    words = (ctypes.c_long(each) for each in (_ARCH_PRCTL, _REQUEST, _TILE_STATE))
    return found if ctypes.CDLL(None).syscall(*words) == 0 else found - tiles


def _features(address: int) -> frozenset[str]:
    ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(address)
    saved = ctypes.CFUNCTYPE(ctypes.c_uint64)(address + _XGETBV_AT)

    def answer(leaf: int) -> list[int]:
        words = (ctypes.c_uint32 * 4)()
        ask(leaf & 0xFFFFFFFF, leaf >> 32, ctypes.addressof(words))
        return list(words)

    # 0 and 0x80000000 give the last leaf that exists: a leaf beyond it gets the answer of another.
    answers = {leaf: answer(leaf) for leaf in (1, 7, 0x80000001) if leaf <= answer(leaf & 0x80000000)[0]}
    if 7 in answers and answers[7][_EAX] >= 1:  # its last subleaf
        answers[SEVEN_ONE] = answer(SEVEN_ONE)
    return supported(answers, saved)


def supported(answers: Mapping[int, Sequence[int]], saved: Callable[[], int]) -> frozenset[str]:
    """Return the features that the answers to CPUID name; `saved` runs XGETBV, which faults where OSXSAVE
    is not set."""

    def has(leaf: int, register: int, bit: int) -> bool:
        return bool(leaf in answers and answers[leaf][register] >> bit & 1)

    state = saved() if has(*_SAVES) else 0
    found = frozenset(
        name
        for name, place in _BITS.items()
        if has(*place)
        and (name not in _IN_YMM or state & _YMM == _YMM)
        and (not name.startswith("avx512") or state & _ZMM == _ZMM)
        and (not name.startswith("amx") or state & _TILES == _TILES)
    )
    return found | {HALVED} if "avx512f" in found and _family(answers[1][_EAX]) == _ZEN_4_FAMILY else found


def _family(signature: int) -> int:
    """Return the processor's family: a field of four bits, and another one that counts where the first is full."""
    family = signature >> 8 & 0xF
    return family + (signature >> 20 & 0xFF) if family == 0xF else family
