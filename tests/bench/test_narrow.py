"""CPUID is found where it is an instruction, copies answer as a narrower CPU, and nothing else changes."""

import os
import platform
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("capstone")

from bench import narrow

CPUID = b"\x0f\xa2"
# Two CPUIDs, between them a number of the same bytes (mov eax, 0xa20f), behind code: imul eax, edx, 3; mov rcx, rax.
CODE = b"\x6b\xc2\x03" * 30 + CPUID + b"\xb8\x0f\xa2\0\0" + b"\x48\x89\xc1" * 30 + CPUID + b"\xc3"


@pytest.fixture
def library() -> bytes:
    """An ELF file of one section of code, and one of data that has the bytes too."""
    header = bytearray(b"\x7fELF".ljust(64, b"\0"))
    struct.pack_into("<Q", header, 40, 64)  # where the sections' headers are
    struct.pack_into("<H", header, 60, 2)
    start = 64 + 2 * 64
    code = struct.pack("<IIQQQQ", 0, 1, 6, 0, start, len(CODE)).ljust(64, b"\0")
    data = struct.pack("<IIQQQQ", 0, 1, 2, 0, start + len(CODE), 2).ljust(64, b"\0")
    return bytes(header) + code + data + CODE + CPUID


def test_cpuid_is_found_among_equal_bytes(library: bytes):
    places = narrow.cpuids(library)
    every = [place for place in range(len(library)) if library[place : place + 2] == CPUID]
    assert len(every) == 4
    assert places == [every[0], every[2]]


def test_a_copy_differs_in_these_instructions_alone(library: bytes, tmp_path: Path):
    source = tmp_path / "package"
    (source / "libs").mkdir(parents=True)
    (source / "libs" / "some.so.1").write_bytes(library)
    (source / "code.py").write_bytes(CPUID)
    assert narrow.copy_package(source, tmp_path / "copy") == 2
    copied = (tmp_path / "copy" / "libs" / "some.so.1").read_bytes()
    wrong = [place for place, (old, new) in enumerate(zip(library, copied, strict=True)) if old != new]
    assert wrong == [place + 1 for place in narrow.cpuids(library)]
    assert (tmp_path / "copy" / "code.py").read_bytes() == CPUID


def test_the_environment_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(narrow, "variables", lambda folder, isa: {"CENOTE_TARGET": isa})
    before = dict(os.environ)
    with narrow.narrowed("avx2"):
        assert os.environ["CENOTE_TARGET"] == "avx2"
    with narrow.narrowed(""):
        assert dict(os.environ) == before
    assert dict(os.environ) == before
    with pytest.raises(ValueError, match="sse9"), narrow.narrowed("sse9"):
        pass


# RBX holds what a call must keep. The address of four numbers is in RDI, leaf and subleaf in ESI and EDX.
ASK = bytes.fromhex("53 4989f8 89f0 89d1 0faa 418900 41895804 41894808 4189500c 5b c3")
RUN = """
import ctypes, mmap, sys
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex(sys.argv[1]))
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
ask = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)(address)
found = (ctypes.c_uint * 4)()
for leaf in (0, 7):
    ask(found, leaf, 0)
    print(*found)
print(ctypes.CDLL(sys.argv[2]).narrowed_answers())
"""


@pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux" or not shutil.which("cc"), reason="needs cc"
)
def test_the_handler_answers_as_a_narrower_cpu(tmp_path: Path):
    handler = narrow.compile_handler(tmp_path)

    def run(code: bytes) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", RUN, code.hex(), str(handler)],
            env={**os.environ, "LD_PRELOAD": str(handler)}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    answered = run(ASK)
    maker, features, answers = answered.stdout.splitlines()
    assert int(maker.split()[0]) >= 7  # the highest leaf: the CPU's own answer
    _, b, c, _ = map(int, features.split())
    assert b & 1 << 16 == 0  # AVX-512F
    assert c & 1 << 11 == 0  # AVX512-VNNI
    assert answers == "2"
    trap = run(ASK.replace(b"\x0f\xaa", b"\x0f\x0b"))  # another undefined instruction is none of its business
    assert trap.returncode == -4
