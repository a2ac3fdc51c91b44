"""Loader of object code without LLVM: places the sections, applies the relocations, makes the result executable.

A process whose kernels are all in the cache then never imports LLVM (60 MB of memory and 0.1 s). Reads what LLVM writes
for Linux on x86-64 and aarch64: ELF64 relocatable files, position independent. Memory is writable while it is filled
and executable afterwards, never both. The format is the System V ABI's; `relocations` has what the machines differ in.

An Arm core fetches instructions through a cache that does not see stores: what was written has to leave the data cache,
and old content the instruction cache, before it runs. The compiler's library has the instructions for that
(`__clear_cache`). The change to executable memory comes after it: a return from the system, after which a core fetches
anew. Other threads learn of addresses later, and have never fetched from them.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from cenote.codegen.relocations import MACHINES, CodeMachine
from cenote.core.deferred import dataclass
from cenote.core.errors import CapacityError, CodegenError

_ALLOCATED, _NO_BITS = 0x2, 8  # section flag and type
_SYMBOL_TABLE, _RELOCATIONS = 2, 4  # section types
_FUNCTION = 2  # symbol type
_UNWINDING = (b".eh_frame",)  # kernels throw nothing
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Placed:
    """An object file in memory: the address of its symbol, and (name, address, bytes) of each function."""

    address: int
    functions: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class _Section:
    name: bytes
    kind: int
    flags: int
    offset: int
    nbytes: int
    link: int
    info: int
    alignment: int


@dataclass(frozen=True)
class _Symbol:
    name: bytes
    kind: int
    section: int
    value: int
    nbytes: int


@cache
def _host() -> CodeMachine | None:
    """The machine that this process runs on, None where this module cannot load its object files."""
    machine = MACHINES.get(platform.machine()) if sys.platform == "linux" else None
    return None if machine and machine.clears_caches and _cache_clearing() is None else machine


def can_load() -> bool:
    """Whether this module can read this machine's object files."""
    return _host() is not None


@cache
def _cache_clearing() -> Callable[[Any, Any], None] | None:
    """Return the function that makes the code from an address to another one visible to instruction fetches; None where
    there is no such library."""
    try:
        function = ctypes.CDLL("libgcc_s.so.1").__clear_cache
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    cleared: Callable[[Any, Any], None] = function
    return cleared


class _Object:
    """One object file, parsed."""

    def __init__(self, code: bytes, machine: CodeMachine) -> None:
        self.code = code
        if code[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", code, 16) != (1, machine.number):
            raise CodegenError(f"the object code is not an ELF object file for {machine.name}")
        (table,) = struct.unpack_from("<Q", code, 40)
        size, count, names = struct.unpack_from("<HHH", code, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", code, table + i * size) for i in range(count)]
        strings = headers[names][4]
        self.sections = [
            _Section(self._text(strings + h[0]), h[1], h[2], h[4], h[5], h[6], h[7], max(1, h[8]))
            for h in headers
        ]
        self.symbols: list[_Symbol] = []
        for section in self.sections:
            if section.kind == _SYMBOL_TABLE:
                self._read_symbols(section)

    def _text(self, start: int) -> bytes:
        return self.code[start : self.code.index(b"\0", start)]

    def _read_symbols(self, section: _Section) -> None:
        strings = self.sections[section.link].offset
        for at in range(section.offset, section.offset + section.nbytes, 24):
            name, info, _, index, value, nbytes = struct.unpack_from("<IBBHQQ", self.code, at)
            self.symbols.append(_Symbol(self._text(strings + name), info & 15, index, value, nbytes))

    def is_placed(self, section: _Section) -> bool:
        return (
            bool(section.flags & _ALLOCATED)
            and section.nbytes > 0
            and not section.name.startswith(_UNWINDING)
        )


class _Region:
    """Memory being filled: sections first, then stubs and table entries for addresses that are too far away."""

    def __init__(self, nbytes: int, machine: CodeMachine) -> None:
        self.machine = machine
        try:
            self.map = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            raise CapacityError(f"kernels need {nbytes} bytes, which cannot be mapped ({error})") from error
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.used = 0
        self._stubs: dict[int, int] = {}
        self._entries: dict[int, int] = {}

    def put(self, content: bytes, alignment: int) -> int:
        """Append bytes; return their address."""
        start = -(-self.used // alignment) * alignment
        self.map[start : start + len(content)] = content
        self.used = start + len(content)
        return self.base + start

    def stub(self, address: int) -> int:
        """Return the address of a jump to an address."""
        if address not in self._stubs:
            self._stubs[address] = self.put(self.machine.jump + struct.pack("<Q", address), 16)
        return self._stubs[address]

    def entry(self, address: int) -> int:
        """Return the address of a word that holds an address."""
        if address not in self._entries:
            self._entries[address] = self.put(struct.pack("<Q", address), 8)
        return self._entries[address]

    def read(self, place: int) -> int:
        """Return the instruction or number of 32 bits at a place."""
        word: int = struct.unpack_from("<I", self.map, place - self.base)[0]
        return word

    def write(self, place: int, form: str, value: int) -> None:
        """Write a number, in a form of `struct`."""
        struct.pack_into(form, self.map, place - self.base, value)

    def seal(self) -> None:
        """Make the memory executable and read-only. It is never freed: addresses have been handed out."""
        if self.machine.clears_caches and (clear := _cache_clearing()) is not None:
            clear(self.base, self.base + self.used)
        wanted = mmap.PROT_READ | 4  # PROT_EXEC
        if _libc.mprotect(ctypes.c_void_p(self.base), ctypes.c_size_t(len(self.map)), wanted):
            raise CodegenError(
                "the system forbids executable memory (an SELinux or seccomp rule?): kernels cannot run"
            )


def keep_for_good(owner: object) -> None:
    """Never free this object, not even when the interpreter exits: threads may still be running its code."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


def load(objects: Mapping[str, bytes]) -> dict[str, Placed]:
    """Place object files, one per symbol, and return their addresses.

    Raises CodegenError for what it cannot read, and when the system forbids executable memory, CapacityError when it
    has no memory for them.
    """
    try:
        return _load(objects)
    except MemoryError as error:
        raise CapacityError(f"there is no memory to load kernels ({error})") from error
    except (struct.error, LookupError, ValueError) as error:
        raise CodegenError(f"the object code is damaged ({error!r:.100})") from error


def _load(objects: Mapping[str, bytes]) -> dict[str, Placed]:
    machine = _host()
    if machine is None:
        raise CodegenError("object code of this machine can be loaded by LLVM only")
    parsed = {symbol: _Object(code, machine) for symbol, code in objects.items()}
    room = sum(
        section.nbytes + section.alignment + 32 for each in parsed.values() for section in each.sections
    ) + 32 * sum(len(each.symbols) for each in parsed.values())
    region = _Region(-(-room // mmap.PAGESIZE) * mmap.PAGESIZE + mmap.PAGESIZE, machine)
    placed = {symbol: _place(each, symbol.encode(), region) for symbol, each in parsed.items()}
    region.seal()
    keep_for_good(region.map)
    return placed


def _place(each: _Object, wanted: bytes, region: _Region) -> Placed:
    starts: dict[int, int] = {}
    for index, section in enumerate(each.sections):
        if each.is_placed(section):
            body = each.code[section.offset : section.offset + section.nbytes]
            content = b"\0" * section.nbytes if section.kind == _NO_BITS else body
            starts[index] = region.put(content, max(16, section.alignment))
    for section in each.sections:
        if section.kind == _RELOCATIONS and section.info in starts:
            _relocate(each, section, starts, region)
    functions = {
        symbol.name: (symbol.name.decode(), starts[symbol.section] + symbol.value, symbol.nbytes)
        for symbol in each.symbols
        if symbol.kind == _FUNCTION and symbol.section in starts
    }
    if wanted in functions:
        return Placed(functions[wanted][1], tuple(functions.values()))
    raise CodegenError(f"the object code does not define {wanted.decode()}")


def _relocate(each: _Object, section: _Section, starts: Mapping[int, int], region: _Region) -> None:
    for at in range(section.offset, section.offset + section.nbytes, 24):
        offset, info, addend = struct.unpack_from("<QQq", each.code, at)
        kind, symbol = info & 0xFFFFFFFF, each.symbols[info >> 32]
        place = starts[section.info] + offset
        inside = symbol.section in starts
        target = starts[symbol.section] + symbol.value if inside else outside(symbol.name)
        region.machine.relocate(region, kind, place, target, addend, inside)


def outside(name: bytes) -> int:
    """Return the address of a function of the C library."""
    try:
        address = ctypes.cast(getattr(_libc, name.decode()), ctypes.c_void_p).value
    except AttributeError:
        address = None
    if not address:
        raise CodegenError(
            f"the object code calls {name.decode()}, which this system's C library does not have"
        )
    return address
