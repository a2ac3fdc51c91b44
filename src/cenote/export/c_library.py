"""Libraries for C: NAME.h, libNAME.a, libNAME.so, and what CMake and pkg-config read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from cenote.codegen.objects import object_code
from cenote.core.errors import CodegenError
from cenote.core.files import replacing
from cenote.core.version import __version__
from cenote.export.copying import copy_module, without_memcpy
from cenote.export.elf.archive import Member, archive
from cenote.export.elf.linker import DataBlock, shared_object
from cenote.export.elf.objects import data_object, undefined_symbols
from cenote.export.header import header
from cenote.export.program import ExportedProgram
from cenote.export.runs import Runs
from cenote.export.targets import machine_of

# From so many bytes on the weights are a file of their own: code reaches 2 GB, and tools handle less with ease.
LARGEST_INSIDE = 512 << 20

_CMAKE = """# add_subdirectory(this folder), then target_link_libraries(program {name}), or {name}_shared
add_library({name} STATIC IMPORTED GLOBAL)
set_target_properties({name} PROPERTIES
  IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.a"
  INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}")
add_library({name}_shared SHARED IMPORTED GLOBAL)
set_target_properties({name}_shared PROPERTIES
  IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.so"
  INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}")
"""
_PKG_CONFIG = """prefix=${{pcfiledir}}
Name: {name}
Description: {model}, a neural network compiled by Cenote
Version: {version}
Cflags: -I${{prefix}}
Libs: ${{prefix}}/lib{name}.a
"""


def write_library(program: ExportedProgram, folder: Path, weights_beside: bool) -> list[Path]:
    """Write the library of a program into a folder and return the files.

    Raises CodegenError where the code would call functions that the library does not have.
    """
    runs = Runs(program, weights_beside)
    objects = compiled(program, runs.c_module(), "runs")
    _check_closed(program, objects, runs)
    weights = () if weights_beside else (_weights(program, runs.symbol_of_weights),)
    exported = [
        runs.function(entry, what)
        for entry in program.entries
        for what in ("run", "run_on", "workspace", "workspace_on")
    ]
    members = [
        Member(f"{name}.o", [code], len(code), exported if name == "runs" else [name])
        for name, code in objects.items()
    ]
    name, machine = program.name, machine_of(program.target)
    block = (
        None
        if weights_beside
        else DataBlock(runs.symbol_of_weights, program.content(), program.constant_bytes)
    )
    files: dict[str, Iterable[bytes]] = {
        f"{name}.h": [header(runs, __version__).encode()],
        f"lib{name}.a": archive([*members, *weights]),
        f"lib{name}.so": shared_object(objects, exported, f"lib{name}.so", machine, block),
        "CMakeLists.txt": [_CMAKE.format(name=name).encode()],
        f"{name}.pc": [_PKG_CONFIG.format(name=name, model=program.model, version=__version__).encode()],
    }
    if weights_beside:
        files[f"{name}.bin"] = program.content()
    return write_files(folder, files)


def compiled(program: ExportedProgram, text: str, name: str) -> dict[str, bytes]:
    """Return object files by name: each kernel's, and that of the functions that run them."""
    copy, target = f"{program.name}_copy", program.target
    texts = {
        function: (without_memcpy(program.kernels[symbol].body_module(function), copy), symbol)
        for symbol, function in program.functions.items()
    }
    if any(copy in text for text, _ in texts.values()):
        texts[copy] = copy_module(copy), copy
    texts[name] = text, name
    return {each: object_code(module, target, place) for each, (module, place) in texts.items()}


def _weights(program: ExportedProgram, symbol: str) -> Member:
    """Return the object file of the constants."""
    pieces = [*data_object(symbol, program.content(), program.constant_bytes, machine_of(program.target))]
    return Member("weights.o", pieces, sum(map(len, pieces)), [symbol])


def _check_closed(program: ExportedProgram, objects: Mapping[str, bytes], runs: Runs) -> None:
    """Raise CodegenError where an object calls what no other defines: a function of a C library, say."""
    defined = {*objects, runs.symbol_of_weights}
    for name, code in objects.items():
        if missing := sorted(undefined_symbols(code) - defined):
            source = next(
                (symbol for symbol, function in program.functions.items() if function == name), name
            )
            raise CodegenError(
                f"{source} for {program.target_name} calls {', '.join(missing)}, which the library does not have"
            )


def write_files(folder: Path, files: Mapping[str, Iterable[bytes]]) -> list[Path]:
    """Write files, each whole or not at all. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, content in files.items():
        with replacing(folder / name, 0o666) as file:
            for piece in content:
                file.write(piece)
        paths.append(folder / name)
    return paths
