"""Shared libraries: what a loader, tools and emulators make of them, and refusals of damaged objects."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import cenote
from cenote.core.errors import CodegenError
from cenote.export.elf.linker import DataBlock, shared_object
from cenote.export.elf.reader import read_object
from tests.export.libraries import assert_same_bits, exported, needs_cc
from tests.small_network import X, small

_MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
int main(void) {
    static float x[NET_INPUT0_ELEMENTS], y[NET_OUTPUT0_ELEMENTS];
    void *workspace = malloc(net_workspace());
    if (fread(x, 1, sizeof x, stdin) != sizeof x || net_run(x, y, workspace) != NET_OK) return 2;
    free(workspace);
    return fwrite(y, 1, sizeof y, stdout) == sizeof y ? 0 : 3;
}
"""
_RISCV = ("qemu-riscv64-static", "-cpu", "rv64,v=true,vlen=128", "-L", "/usr/riscv64-linux-gnu")
_MACHINES = {
    "x86-64": ("cc", ()),
    "aarch64": ("aarch64-linux-gnu-gcc", ("qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu")),
    "riscv64": ("riscv64-linux-gnu-gcc", _RISCV),
}


def loaded(path: Path, inputs: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The output of a run of a library, by the system's loader."""
    native = ctypes.CDLL(str(path))
    native.net_workspace.restype = ctypes.c_size_t
    workspace = np.empty(native.net_workspace(), np.uint8)
    y = np.full(shape, np.nan, np.float32)
    x = np.ascontiguousarray(inputs)
    assert native.net_run(*(ctypes.c_void_p(each.ctypes.data) for each in (x, y, workspace))) == 0
    return y


@needs_cc
def test_the_loader_takes_it_and_runs_what_the_systems_linker_made(tmp_path: Path) -> None:
    source = small(tmp_path / "m.onnx")
    model = cenote.load(source, threads=1, tune="off")
    by_system = exported(source, tmp_path, "x86-64", model)
    expected = by_system.run(X)[0]
    assert_same_bits([loaded(tmp_path / "libnet.so", X, expected.shape)], expected)
    # Several threads at once, on the one copy of the library.
    found: dict[int, np.ndarray] = {}

    def work(number: int) -> None:
        for _ in range(10):
            found[number] = loaded(tmp_path / "libnet.so", X, expected.shape)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for y in found.values():
        assert_same_bits([y], expected)


@pytest.mark.parametrize("target", _MACHINES)
def test_a_program_is_linked_against_it(target: str, tmp_path: Path) -> None:
    compiler, emulator = _MACHINES[target]
    for tool in (compiler, *emulator[:1]):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")
    source = small(tmp_path / "m.onnx")
    cenote.export_model(source, tmp_path, target=target, name="net")
    (tmp_path / "main.c").write_text(_MAIN)
    command = [compiler, "-std=c99", "-O1", "main.c", "-L.", "-l:libnet.so", "-Wl,-rpath,.", "-o", "main"]
    subprocess.run(command, check=True, cwd=tmp_path)
    done = subprocess.run(
        [*emulator, "./main"], input=X.tobytes(), stdout=subprocess.PIPE, check=True, cwd=tmp_path
    )
    expected = cenote.load(source)(X)
    found = np.frombuffer(done.stdout, np.float32).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", _MACHINES)
def test_tools_have_nothing_to_say_about_it(target: str, tmp_path: Path) -> None:
    if shutil.which("readelf") is None:
        pytest.skip("no readelf")
    cenote.export_model(small(tmp_path / "m.onnx"), tmp_path, target=target, name="net")
    for name in ("libnet.so", "libnet.a"):
        done = subprocess.run(["readelf", "-aW", str(tmp_path / name)], capture_output=True, check=True)
        assert not done.stderr
    shown = subprocess.run(
        ["readelf", "-dW", "--dyn-syms", str(tmp_path / "libnet.so")],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert "[libnet.so]" in shown
    assert "NEEDED" not in shown
    assert "TEXTREL" not in shown
    functions = {line.split()[-1] for line in shown.splitlines() if " FUNC " in line}
    assert functions == {f"net_{what}" for what in ("run", "run_on", "workspace", "workspace_on")}
    if shutil.which("eu-elflint"):
        subprocess.run(["eu-elflint", str(tmp_path / "libnet.so")], check=True, stdout=subprocess.DEVNULL)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    source = small(tmp_path / "m.onnx")
    for folder in ("a", "b"):
        cenote.export_model(source, tmp_path / folder, target="aarch64", name="net")
    assert (tmp_path / "a" / "libnet.so").read_bytes() == (tmp_path / "b" / "libnet.so").read_bytes()


# ---- objects ------------------------------------------------------------------------------------------------------


def made(machine: int = 62, kind: int = 2, addend: int = -4, flags: int = 6, name: bytes = b"other") -> bytes:
    """An object file by hand: a function `f` of 16 bytes with one relocation, at 4, to the symbol `name`."""
    strings = b"\0f\0" + name + b"\0"
    symbols = (
        bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0, 16) + struct.pack("<IBBHQQ", 3, 0x10, 0, 0, 0, 0)
    )
    relocation = struct.pack("<QQq", 4, 2 << 32 | kind, addend)
    names = b"\0.text\0.symtab\0.strtab\0.rela\0.shstrtab\0"
    parts = [bytes(16), symbols, strings, relocation, names]
    places = [64 + sum(map(len, parts[:i])) for i in range(6)]
    rows = [
        (1, 1, flags, 0, 0, 0),
        (7, 2, 0, 3, 1, 24),
        (15, 3, 0, 0, 0, 0),
        (23, 4, 0, 2, 1, 24),
        (29, 3, 0, 0, 0, 0),
    ]
    headers = bytes(64) + b"".join(
        struct.pack("<IIQQQQIIQQ", at, what, flag, 0, place, len(part), link, info, 1, entry)
        for (at, what, flag, link, info, entry), place, part in zip(rows, places, parts, strict=False)
    )
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack("<HHIQQQIHHHHHH", 1, machine, 1, 0, 0, places[5], 0, 64, 0, 0, 64, 6, 5)
    return ident + head + b"".join(parts) + headers


def joined(content: bytes, nbytes: int = 8) -> bytes:
    block = DataBlock("other", [bytes(min(nbytes, 8))], nbytes)
    return b"".join(shared_object({"x.o": content}, ["f"], "libx.so", "x86_64", block))


def test_a_distance_is_filled_in() -> None:
    library = joined(made())
    # The sections behind the first: .hash, .dynsym, .dynstr, .text, .dynamic, .rodata.
    (table,) = struct.unpack_from("<Q", library, 40)
    headers = [struct.unpack_from("<IIQQQQ", library, table + 64 * i) for i in range(7)]
    text, rodata = headers[4], headers[6]
    (distance,) = struct.unpack_from("<i", library, text[4] + 4)
    assert text[3] + 4 + distance == rodata[3] - 4
    assert text[3] % 4096 == text[4] % 4096


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(made(kind=99), "x.o: other at 0x4: .*unknown type 99", id="unknown"),
        pytest.param(made(kind=1), "an absolute address", id="absolute"),
        pytest.param(made(kind=42), "by a table", id="table"),
        pytest.param(made(addend=1 << 31), "weights='beside'", id="far"),
        pytest.param(made(name=b"memcpy"), "memcpy at 0x4: no object defines it", id="undefined"),
        pytest.param(made(flags=7), "x.o: section .text .*code and constants only", id="written"),
        pytest.param(made(machine=183), "x.o: no object file for x86_64", id="machine"),
        pytest.param(b"", "x.o: no ELF file", id="empty"),
    ],
)
def test_what_cannot_be_linked_is_named(content: bytes, message: str) -> None:
    with pytest.raises(CodegenError, match=message):
        joined(content)


def test_a_library_defines_what_it_offers_once() -> None:
    with pytest.raises(CodegenError, match=r"y.o: f is defined in x.o too"):
        [*shared_object({"x.o": made(), "y.o": made()}, ["f"], "libx.so", "x86_64")]
    with pytest.raises(CodegenError, match="no object defines g"):
        [*shared_object({"x.o": made()}, ["g"], "libx.so", "x86_64")]


def test_objects_that_are_cut_off_or_disturbed_are_errors_or_read() -> None:
    whole = made()
    for end in range(len(whole)):
        with pytest.raises(CodegenError):
            read_object("x.o", whole[:end], "x86_64")
    rng = np.random.default_rng(0)
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[int(rng.integers(len(whole)))] = int(rng.integers(256))
        with suppress(CodegenError):  # nothing else is raised
            joined(bytes(damaged))


def test_large_constants_need_only_their_start_near_the_code() -> None:
    pieces = shared_object({"x.o": made()}, ["f"], "libx.so", "x86_64", DataBlock("other", [], 5 << 30))
    assert sum(map(len, pieces)) < 1 << 20, "the pieces of the block are not copied"
