"""Kernels on a CPU that this machine does not have: Bochs runs them on copies of this process's memory.

A copy lies at the addresses that it has here, so that code, which `cenote.codegen.loader` has placed, and records of
pointers mean the same there. `boot.s` is all that Bochs boots: it calls one function, and writes what has changed.
What the function touches beyond the pages that it was given ends it with a `Fault`.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from llvmlite import binding as llvm

from cenote.codegen import jit
from cenote.codegen import llvm as compiler
from cenote.codegen.emission import KernelSource
from cenote.core.target import EMULATED, NO_TILES, TILE_EXTENSIONS, Target
from cenote.core.types import Array
from cenote.kernels.base import KernelSpec
from cenote.ops.base import Lowering, Op
from tests.harness import native_call, run_lowering
from tests.targets import anywhere

PATH = os.environ.get("CENOTE_TEST_BOCHS", "")  # of the executable; CONTRIBUTING.md says how to build it
ABSENT = "CENOTE_TEST_BOCHS does not name an executable of Bochs 3"

_PAGE = 4096
_IMAGE = 8 << 20  # bytes that Bochs keeps together, and loads from one file
_IMAGES = 4
_CONTROL = 0xFFFF800000000000  # where programs have no memory: block, table of exceptions, stack
_BLOCK, _EXCEPTIONS, _STACK = _CONTROL + _PAGE, _CONTROL + 2 * _PAGE, _CONTROL + 16 * _PAGE
_STACK_PAGES = 256
_ROM = 0xFFFFF000
_PRESENT, _WRITABLE, _NO_CODE = 1, 2, 1 << 63
_WITH_CODE = (8, 10, 11, 12, 13, 14, 17, 21, 29, 30)  # exceptions that push an error code
_NAMES = {
    6: "invalid opcode",
    7: "no device",
    13: "general protection",
    14: "page fault",
    19: "SIMD exception",
}
_SETTINGS = """
cpu: model=sapphire_rapids, count=1, ips=100000000, reset_on_triple_fault=0, add_features=amx_fp16
memory: guest=64, host=64, block_size=8192
romimage: file="{folder}/rom", address=0xfffff000
vgaromimage: file="{folder}/rom"
display_library: nogui
vga: extension=none, update_freq=1
port_e9_hack: enabled=1
log: "{folder}/log"
panic: action=fatal
error: action=ignore
info: action=ignore
debug: action=ignore
"""


class Fault(Exception):
    """Exception of the emulated CPU: its number, the address of the instruction, and the address it was about."""

    def __init__(self, number: int, instruction: int, address: int) -> None:
        about = f", which accessed {address:#x}" if number == 14 else ""
        super().__init__(f"{_NAMES.get(number, 'exception')} ({number}) at {instruction:#x}{about}")
        self.number, self.instruction, self.address = number, instruction, address


def run(
    source: KernelSource,
    target: Target,
    words: Sequence[Array | float],
    items: int = 1,
    scratch: int = 0,
) -> None:
    """Run a kernel on items 0 to `items`, with `scratch` bytes of scratch memory. Arrays are changed where they lie."""
    address = jit.addresses([source], target)[source.symbol]
    record = np.zeros(max(1, len(words)), np.int64)
    arrays = [word for word in words if isinstance(word, np.ndarray)]
    for place, word in enumerate(words):
        if isinstance(word, np.ndarray):
            record[place] = word.ctypes.data
        elif isinstance(word, float):
            record[place : place + 1].view(np.float64)[0] = word
        else:
            record[place] = word
    memory = np.zeros(scratch + 64, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :][:scratch]
    call(address, (record.ctypes.data, 0, items, memory.ctypes.data), [record, memory, *arrays])


def call(address: int, arguments: Sequence[int], arrays: Sequence[Array], seconds: float = 300) -> None:
    """Call the function at this address with up to six integers. Arrays are all the memory that it may access."""
    code = _mapping(address)
    regions = [(each.ctypes.data, each.nbytes, each.flags.writeable) for each in arrays if each.nbytes]
    memory = _Memory()
    memory.copy(code.start, len(code), _PRESENT)
    for start, nbytes, writable in regions:
        memory.copy(start, nbytes, _PRESENT | _NO_CODE | (_WRITABLE if writable else 0))
    written = [(start, nbytes) for start, nbytes, writable in regions if writable]
    if len(written) * 16 + 80 > _PAGE:
        raise ValueError(f"{len(written)} arrays are more than the block of arguments has room for")
    ends = [number for each in written for number in each]
    padded = [*arguments, *[0] * (6 - len(arguments))]
    top = _STACK + _STACK_PAGES * _PAGE
    memory.put(_BLOCK, struct.pack(f"<{len(ends) + 10}Q", *padded, address, top, *ends, 0, 0))
    output = _boot(memory, seconds)
    for start, nbytes in written:
        ctypes.memmove(start, output, nbytes)
        output = output[nbytes:]


def amx_call(spec: KernelSpec, address: int, arguments: Sequence[int], memory: Sequence[Array]) -> None:
    """Call a kernel, as `run_lowering` asks for: those that multiply on tiles in Bochs, others here."""
    if any(each.startswith("amx") for each in spec.emit(anywhere("avx512")).extensions):
        call(address, arguments, memory)
    else:
        native_call(spec, address, arguments, memory)


def check_bits(op: Op, kind: str, found: Callable[[Target], tuple[Lowering, Sequence[Array]]]) -> None:
    """Check that a lowering by emulated products and by AMX's has the same bits. `kind`: a field of `Target.tiles`;
    `found`: the lowering for a target, and the arrays that it takes."""
    results = []
    for way, native in ((EMULATED, native_call), (getattr(TILE_EXTENSIONS["avx512"], kind), amx_call)):
        target = replace(anywhere("avx512"), bfloat=EMULATED, tiles=NO_TILES._replace(**{kind: way}))
        lowering, arrays = found(target)
        results += run_lowering(op, lowering, arrays, target, native=native)
    np.testing.assert_array_equal(results[0], results[1])


class _Memory:
    """Physical memory of the emulated machine, from `boot.s`'s TABLES on: page tables first, then pages by address."""

    def __init__(self) -> None:
        self.bytes = bytearray(_PAGE)
        self.pages: dict[int, int] = {}  # offsets by address
        self.tables: dict[tuple[int, int], int] = {}  # offsets by the bits of addresses that lead to them
        self.map(_ROM, _PRESENT, _ROM)
        gates = (_ROM + 0x800 + 16 * vector for vector in range(32))
        table = b"".join(
            struct.pack("<HHHHQ", each & 0xFFFF, 8, 0x8E00, each >> 16 & 0xFFFF, each >> 32) for each in gates
        )
        self.put(_EXCEPTIONS, table)
        for page in range(_STACK_PAGES):
            self.put(_STACK + page * _PAGE, b"")

    def put(self, address: int, content: bytes) -> None:
        """Make a page that may be written, with this at its beginning."""
        self.map(address, _PRESENT | _WRITABLE | _NO_CODE)
        place = self.pages[address]
        self.bytes[place : place + len(content)] = content

    def copy(self, start: int, nbytes: int, flags: int) -> None:
        """Copy all pages with some of these bytes from this process."""
        for page in range(start // _PAGE * _PAGE, start + nbytes, _PAGE):
            self.map(page, flags)
            place = self.pages[page]
            self.bytes[place : place + _PAGE] = ctypes.string_at(page, _PAGE)

    def map(self, address: int, flags: int, physical: int | None = None) -> None:
        """Make a page, at a place of its own unless it has a physical address."""
        table = 0
        for shift in (39, 30, 21):
            key = shift, address >> shift
            if key not in self.tables:
                self.tables[key] = self.room()
                self.enter(table, address >> shift, _IMAGE + self.tables[key], _PRESENT | _WRITABLE)
            table = self.tables[key]
        if physical is None:
            if address not in self.pages:
                self.pages[address] = self.room()
            physical = _IMAGE + self.pages[address]
        self.enter(table, address >> 12, physical, flags)

    def enter(self, table: int, index: int, physical: int, flags: int) -> None:
        """Fill an entry of a table. A page that several arrays share may be written if one of them may."""
        at = table + index % 512 * 8
        (before,) = struct.unpack_from("<Q", self.bytes, at)
        struct.pack_into("<Q", self.bytes, at, physical | flags | before & _WRITABLE)

    def room(self) -> int:
        """Append a page of zeros, and return its offset."""
        self.bytes += bytes(_PAGE)
        return len(self.bytes) - _PAGE


def _boot(memory: _Memory, seconds: float) -> bytes:
    """Let Bochs run, and return what it wrote of the regions."""
    if len(memory.bytes) > _IMAGE * _IMAGES:
        raise ValueError(
            f"{len(memory.bytes)} bytes are more than the {_IMAGES * _IMAGE} of the emulated machine"
        )
    with tempfile.TemporaryDirectory() as folder:
        settings = _SETTINGS.format(folder=folder)
        for image in range(-(-len(memory.bytes) // _IMAGE)):
            path = Path(folder, f"memory{image}")
            path.write_bytes(memory.bytes[image * _IMAGE : (image + 1) * _IMAGE])
            settings += f'optramimage{image + 1}: file="{path}", address={(image + 1) * _IMAGE:#x}\n'
        Path(folder, "rom").write_bytes(_rom())
        Path(folder, "settings").write_text(settings)
        command = [PATH, "-q", "-f", f"{folder}/settings"]
        done = subprocess.run(
            command, capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL, check=False
        )
        before, mark, output = done.stdout.partition(b"CENOTE+")
        if mark:
            return output
        _, mark, stack = before.partition(b"CENOTE!")
        if mark:
            address, number, *rest = struct.unpack("<5Q", stack[:40])
            raise Fault(number, rest[number in _WITH_CODE], address)
        log = Path(folder, "log")
        told = log.read_text(errors="replace")[-2000:] if log.exists() else ""
        raise RuntimeError(f"Bochs gave no answer: {done.stdout[-500:]!r} {done.stderr[-500:]!r}\n{told}")


def _mapping(address: int) -> range:
    """Return the mapping of this process that an address lies in."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, _, end = line.split()[0].partition("-")
        if int(begin, 16) <= address < int(end, 16):
            return range(int(begin, 16), int(end, 16))
    raise ValueError(f"nothing is mapped at {address:#x}")


@cache
def _rom() -> bytes:
    """Assemble `boot.s`."""
    text = (Path(__file__).parent / "boot.s").read_text()
    escaped = text.replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A")
    target = jit.named_target("generic")
    machine = compiler.target_machine(target)
    module = llvm.parse_assembly(f'module asm "{escaped}"\n')
    module.triple = target.triple
    sections = llvm.ObjectFileRef.from_data(machine.emit_object(module)).sections()
    return next(bytes(section.data()) for section in sections if section.name() == b".text")
