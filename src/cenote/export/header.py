"""Header of an exported library, in C99: functions, sizes and descriptions of the arrays, documented."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cenote.core.errors import UnsupportedError
from cenote.export.program import ExportedProgram, NamedTensor, ProgramEntry
from cenote.export.runs import MISALIGNED, NULL_POINTER, Runs
from cenote.export.targets import PROCESSORS

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
}
_PARALLEL = """void (*parallel)(void *pool,
                         void (*piece)(void *job, size_t begin, size_t end, size_t thread),
                         void *job, size_t items, size_t grain)"""


def header(runs: Runs, version: str) -> str:
    """Return the text of NAME.h."""
    program = runs.program
    guard = f"CENOTE_{program.name.upper()}_H"
    lines = [
        *_head(program, runs, version),
        f"#ifndef {guard}",
        f"#define {guard}",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* Results of the functions below. */",
        f"#define {_macro(program)}_OK 0",
        f"#define {_macro(program)}_NULL_POINTER {NULL_POINTER}",
    ]
    if runs.weights:
        lines += [
            f"#define {_macro(program)}_MISALIGNED {MISALIGNED} /* the weights lie at no multiple of 64 */",
            "",
            f"/* The content of {program.name}.bin, at a multiple of 64: read or map the file, pass its address. */",
            f"#define {_macro(program)}_WEIGHTS_BYTES {program.constant_bytes}",
        ]
    for entry in program.entries:
        lines += ["", *_entry(runs, entry)]
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "#endif", ""]
    return "\n".join(lines)


def _macro(program: ExportedProgram) -> str:
    return program.name.upper()


def _head(program: ExportedProgram, runs: Runs, version: str) -> Iterator[str]:
    yield f"/* {_comment(program.model)}, made by Cenote {version} for {PROCESSORS[program.target_name]}."
    yield " *"
    yield " * The library calls nothing, allocates nothing, keeps no state: a run writes its outputs and the workspace."
    yield " * Several threads may run at once, each with a workspace of its own. Arrays are dense, row-major, at"
    yield " * addresses of their elements' alignment; outputs overlap nothing else. A workspace may lie at any address,"
    yield " * and holds nothing from one run to the next. The processor must be of the kind named above: another one"
    yield " * stops at an instruction that it does not know."
    yield " */"


def _comment(text: str) -> str:
    """Return a text that ends no comment."""
    return "".join(c if c.isprintable() else "?" for c in text.replace("*/", "* /").replace("/*", "/ *"))


def _entry(runs: Runs, entry: ProgramEntry) -> Iterator[str]:
    prefix = runs.function(entry, "").rstrip("_")
    for side, tensors in (("input", entry.inputs), ("output", entry.outputs)):
        for number, tensor in enumerate(tensors):
            yield from _described(f"{prefix.upper()}_{side.upper()}{number}", f"{side}{number}", tensor)
    yield ""
    yield "/* Bytes of a workspace. */"
    yield f"size_t {prefix}_workspace(void);"
    arguments = ", ".join(_arguments(runs, entry))
    yield ""
    yield f"/* Compute the outputs on the calling thread. Returns {_macro(runs.program)}_OK, or the error. */"
    yield f"int {prefix}_run({arguments}, void *workspace);"
    yield ""
    yield "/* The same on the caller's threads, with the same bits. `parallel` is called once for each step: it calls"
    yield " * piece(job, begin, end, thread) for parts of 0 .. items that together are all of it, each once (parts of"
    yield " * `grain` items do well), with thread < threads and no two at a time with the same, and returns when all"
    yield " * are done. It may just call piece(job, 0, items, 0). `pool` is passed on to it. */"
    yield f"size_t {prefix}_workspace_on(size_t threads);"
    yield f"int {prefix}_run_on({arguments}, void *workspace,"
    yield f"    {_PARALLEL},"
    yield "    void *pool);"


def _described(macro: str, argument: str, tensor: NamedTensor) -> Iterator[str]:
    shape = tensor.type.shape
    yield f"/* {argument}: '{_comment(tensor.name)}', {tensor.type.dtype} {'x'.join(map(str, shape)) or 'scalar'} */"
    name = "".join(
        rf"\x{byte:02x}" if byte < 32 or byte > 126 or byte in b'"\\?' else chr(byte)
        for byte in tensor.name.encode()
    )
    yield f'#define {macro}_NAME "{name}"'
    yield f'#define {macro}_TYPE "{tensor.type.dtype}"'
    yield f"#define {macro}_RANK {len(shape)}"
    yield f"#define {macro}_SHAPE {{{', '.join(map(str, shape)) or '1'}}}"
    yield f"#define {macro}_ELEMENTS {int(np.prod(shape, dtype=np.int64))}"
    yield f"#define {macro}_BYTES {tensor.type.nbytes}"


def _arguments(runs: Runs, entry: ProgramEntry) -> Iterator[str]:
    for number, tensor in enumerate(entry.inputs):
        yield f"const {_c_type(tensor)} *input{number}"
    for number, tensor in enumerate(entry.outputs):
        yield f"{_c_type(tensor)} *output{number}"
    if runs.weights:
        yield "const void *weights"


def _c_type(tensor: NamedTensor) -> str:
    """Return the type of a tensor's elements in C. Raises UnsupportedError where there is none."""
    name = tensor.type.dtype.name
    if name not in C_TYPES:
        raise UnsupportedError(f"'{tensor.name}' has elements of type {name}, for which C has no type")
    return C_TYPES[name]
