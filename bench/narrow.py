"""Engines as on a CPU with AVX2 and without AVX-512, VNNI and AMX, at native speed, on one that has them.

Cenote has CENOTE_TARGET for that; its peers ask the CPU. The process that measures gets copies of their libraries in
which CPUID is another instruction, which faults, and a handler that answers as the narrower CPU would (`narrow.c`).
Times are those of this CPU with its wide units left alone: its clock, caches and AVX2 units, not those of an older one.

Limits: Linux on x86-64, a C compiler (`cc`) and capstone; the peers of `PACKAGES`, which take what they know of
instructions from CPUID alone (`python -m bench.narrow` shows it); NumPy and the C library stay as they are: no engine
computes with them.
"""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

ISAS = ("avx2",)
PACKAGES = {"onnxruntime": "onnxruntime", "openvino": "openvino", "litert": "ai_edge_litert"}  # by engine
_CPUID, _RSM = b"\x0f\xa2", b"\x0f\xaa"
# Bytes that equal CPUID's may lie within other instructions. Read from 48 places before, which soon fall into step
# with the code, a true one began an instruction in 19 to 48 of these readings, another in at most 1: 244 places in five
# libraries, of which a disassembly from the start (objdump) names the same 168.
_BEFORE = range(16, 64)
_ENOUGH = len(_BEFORE) // 4
_EXECUTABLE, _PROGBITS = 4, 1


def executable(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the sections of code lie in a library of 64-bit ELF: first byte, and the one behind the last."""
    sections, count = struct.unpack_from("<Q", content, 40)[0], struct.unpack_from("<H", content, 60)[0]
    for place in range(count):
        _, kind, flags, _, start, size = struct.unpack_from("<IIQQQQ", content, sections + 64 * place)
        if flags & _EXECUTABLE and kind == _PROGBITS:
            yield start, start + size


def cpuids(content: bytes) -> list[int]:
    """Return where the instruction CPUID lies in a library."""
    import capstone

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)

    def begins(place: int, start: int) -> bool:
        return any(at == place for at, *_ in decoder.disasm_lite(content[start : place + 2], start))

    found = []
    for start, end in executable(content):
        place = content.find(_CPUID, start, end)
        while place >= 0:
            if sum(begins(place, max(start, place - back)) for back in _BEFORE) >= _ENOUGH:
                found.append(place)
            place = content.find(_CPUID, place + 1, end)
    return found


def copy_package(source: Path, target: Path) -> int:
    """Copy a package, its libraries without CPUID; return how many of that were replaced."""
    replaced = 0
    shutil.copytree(source, target)
    for library in target.rglob("*.so*"):
        content = library.read_bytes()
        places = cpuids(content) if content[:4] == b"\x7fELF" else []
        changed = bytearray(content)
        for place in places:
            changed[place : place + 2] = _RSM
        if places:
            library.write_bytes(changed)
        replaced += len(places)
    return replaced


@contextmanager
def narrowed(isa: str) -> Iterator[None]:
    """Let processes that start meanwhile find the copies and take the CPU for one with `isa`; "" changes nothing.

    Raises OSError where there is no C compiler, ValueError for an ISA that is not of `ISAS`.
    """
    if not isa:
        yield
        return
    if isa not in ISAS:
        raise ValueError(f"no such instruction set: {isa!r}; there are {', '.join(ISAS)}")
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="bench-narrow-") as name:
        try:
            os.environ.update(variables(Path(name), isa))
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def variables(folder: Path, isa: str) -> Mapping[str, str]:
    """Make the copies and the handler in a folder; return the environment of processes that use them."""
    for package in PACKAGES.values():
        found = find_spec(package)
        for place in found.submodule_search_locations or () if found else ():
            if not copy_package(Path(place), folder / package):
                raise OSError(
                    f"no CPUID in the libraries of {package}: bench.narrow cannot narrow this version"
                )
    handler = compile_handler(folder)
    preloaded = os.environ.get("LD_PRELOAD", "")
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    return {
        "CENOTE_TARGET": isa,
        "LD_PRELOAD": " ".join(filter(None, (str(handler), preloaded))),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def compile_handler(folder: Path) -> Path:
    """Compile what answers in the place of CPUID; return the library, which is to be preloaded."""
    handler = folder / "narrow.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", handler, source], check=True)
    return handler


def say() -> None:
    """Print what the engines show of the CPU in this process."""
    import numpy as np
    import onnx
    import openvino

    from bench.engines.onnxruntime import session_of

    node = onnx.helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    a = onnx.helper.make_tensor_value_info("a", onnx.TensorProto.UINT8, [1, 64])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [1, 16])
    weights = onnx.numpy_helper.from_array(np.full((64, 16), 127, np.int8), "b")
    graph = onnx.helper.make_graph([node], "sum", [a], [y], [weights])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    (found,) = session_of(model.SerializeToString(), 1).run(None, {"a": np.full((1, 64), 255, np.uint8)})
    print(f"  onnxruntime: 64 times 255 * 127 is {found[0, 0]} ({64 * 255 * 127} without saturation)")
    print(f"  openvino: {openvino.Core().get_property('CPU', 'OPTIMIZATION_CAPABILITIES')}")
    preloaded = os.environ.get("LD_PRELOAD", "").split()
    if preloaded:
        print(f"  CPUID answered {ctypes.CDLL(preloaded[0]).narrowed_answers()} times")


def main() -> None:
    """Print what engines show of the CPU, as it is and narrowed."""
    for isa in ("", *ISAS):
        with narrowed(isa):
            print(isa or "as it is", flush=True)
            subprocess.run([sys.executable, "-c", "from bench.narrow import say; say()"], check=True)


if __name__ == "__main__":
    main()
