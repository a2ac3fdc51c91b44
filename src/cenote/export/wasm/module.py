"""Files of a WebAssembly export: modules, weights, the JavaScript that loads them, its types, and an npm package."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cenote.core.version import __version__
from cenote.export.c_library import compiled, write_files
from cenote.export.program import ExportedProgram, NamedTensor, ProgramEntry
from cenote.export.runs import Runs
from cenote.export.targets import TARGETS
from cenote.export.wasm.linker import Module, RawData
from cenote.export.wasm.objects import WasmObject
from cenote.export.wasm.types import declarations

LOADER = Path(__file__).parent / "loader.mjs"
RELAXED, PLAIN = "wasm32-relaxed", "wasm32"
MOST_THREADS = 64


def write_module(program: ExportedProgram, folder: Path, weights_beside: bool, threads: int) -> list[Path]:
    """Write the WebAssembly export of a program into a folder and return the files.

    With weights beside, the target wasm32 has two modules that read them: with relaxed instructions and without. With
    `threads` above 1 each has another one, for so many threads at most. Raises CapacityError for more than 4 GB.
    """
    name = program.name
    files: dict[str, Iterable[bytes]] = {}
    described = description(program, weights_beside)
    variants = [program.target_name]
    if weights_beside and program.target_name == PLAIN:
        variants.append(RELAXED)
    for variant in variants:
        made = replace(program, target=TARGETS[variant], target_name=variant)
        ending = ".relaxed" if variant == RELAXED else ""
        files[f"{name}{ending}.wasm"] = [encoded_module(made, weights_beside, 0)[0]]
        described["modules"][variant] = f"{name}{ending}.wasm"
        if threads > 1:
            content, pages = encoded_module(made, True, threads)
            files[f"{name}{ending}.threads.wasm"] = [content]
            described["threaded"][variant] = f"{name}{ending}.threads.wasm"
            described["pages"], described["threads"] = pages, threads
    if weights_beside:
        files[f"{name}.bin"] = program.content()
    files[f"{name}.mjs"] = [loader(described).encode()]
    files[f"{name}.d.mts"] = [declarations(program).encode()]
    files["package.json"] = [_package(program, [*files, "README.md"]).encode()]
    files["README.md"] = [_readme(program).encode()]
    return write_files(folder, files)


def loader(described: Mapping[str, Any]) -> str:
    """Return the JavaScript module of a model."""
    text = LOADER.read_text(encoding="utf-8")
    return text.replace("const MODEL = null;", f"const MODEL = {json.dumps(described)};", 1)


def description(program: ExportedProgram, weights_beside: bool) -> dict[str, Any]:
    """Return what the JavaScript has to know of a model."""
    return {
        "name": program.model,
        "weights": f"{program.name}.bin" if weights_beside else None,
        "weightsBytes": program.constant_bytes,
        "place": f"{program.name}_weights",
        "preparable": program.preparable,
        "modules": {},
        "threaded": {},
        "about": dict(program.about),
        "entries": [_entry(entry) for entry in program.entries],
    }


def _entry(entry: ProgramEntry) -> dict[str, Any]:
    return {
        "inputs": [_tensor(each) for each in entry.inputs],
        "outputs": [_tensor(each) for each in entry.outputs],
        "steps": [[step.items, max(1, step.grain)] for step in entry.steps],
    }


def _tensor(tensor: NamedTensor) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.type.dtype.name, "shape": [*tensor.type.shape]}


def encoded_module(program: ExportedProgram, weights_beside: bool, threads: int) -> tuple[bytes, int]:
    """Return a module, and the pages of its memory."""
    runs = Runs(program)
    text = runs.by_steps() if threads else runs.in_place()
    objects = [WasmObject.parsed(code) for code in compiled(program, text, "runs").values()]
    weights = program.constant_bytes if weights_beside else b"".join(program.content())
    data = [
        RawData(runs.symbol_of_weights, weights),
        RawData(runs.symbol_of_prepared, program.prepared_bytes),
    ]
    places = runs.places(max(1, threads))
    data += [RawData(name, nbytes) for name, nbytes in places]
    module = Module(objects, data, threads)
    exported = [name for name, _ in places[:-1]] + [runs.symbol_of_weights] * weights_beside
    return module.encoded(runs.placed_functions(bool(threads)), exported), module.pages


def _package(program: ExportedProgram, files: Iterable[str]) -> str:
    name = re.sub(r"[^a-z0-9-]+", "-", program.model.lower()).strip("-") or "model"
    main = f"./{program.name}.mjs"
    return (
        json.dumps(
            {
                "name": name,
                "version": "0.1.0",
                "description": f"The neural network {program.model} as WebAssembly, compiled by Cenote {__version__}",
                "type": "module",
                "main": main,
                "types": f"./{program.name}.d.mts",
                "exports": {".": {"types": f"./{program.name}.d.mts", "default": main}, "./*": "./*"},
                "files": sorted({*files} - {"package.json"}),
                "private": False,
            },
            indent=2,
        )
        + "\n"
    )


_README = """# {model}

A neural network as WebAssembly, compiled by Cenote {version}. It runs in browsers, Node and Deno, needs no package, and
asks for nothing but its own files.

```js
import {{ load }} from "./{name}.mjs";

const model = await load();
const outputs = await model.run({{ {arguments} }});
```

{inputs}

{outputs}

`load(folder, options)`: the folder of the files, by default that of the module. `options.threads`: of those that the
export has; in a page they need cross-origin isolation (the headers COOP and COEP). `options.onProgress(loaded, total)`:
bytes of weights.
"""


def _readme(program: ExportedProgram) -> str:
    entry = program.entries[0]
    arguments = ", ".join(json.dumps(each.name) + f": {_array(each)}" for each in entry.inputs)
    return _README.format(
        model=program.model,
        version=__version__,
        name=program.name,
        arguments=arguments,
        inputs=_listed("Inputs", [each for entry in program.entries for each in entry.inputs]),
        outputs=_listed("Outputs", [each for entry in program.entries for each in entry.outputs]),
    )


def _array(tensor: NamedTensor) -> str:
    return f"/* {tensor.type.dtype} {'x'.join(map(str, tensor.type.shape))} */ array"


def _listed(title: str, tensors: Iterable[NamedTensor]) -> str:
    lines = [
        f"- `{each.name}`: {each.type.dtype} {'x'.join(map(str, each.type.shape)) or 'scalar'}"
        for each in tensors
    ]
    return "\n".join([f"{title}:", "", *lines])
