"""WebAssembly modules and the JavaScript that loads them, in Node: results, choices, errors, threads, memory."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import cenote
from cenote.codegen.objects import object_code
from cenote.core.errors import CapacityError, CodegenError
from cenote.core.load_options import LoadOptions
from cenote.export.c_library import compiled
from cenote.export.planning import Exporter
from cenote.export.program import ExportedProgram
from cenote.export.runs import Runs
from cenote.export.targets import TARGETS
from cenote.export.wasm import binary
from cenote.export.wasm.linker import Module, RawData
from cenote.export.wasm.objects import WasmObject
from cenote.frontends.onnx import load_onnx
from tests.small_network import X, small

EMBEDDED = Path(cenote.__file__).parent / "data" / "fashion.onnx"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="no Node (node)")

# Reads x.bin, writes what `body` returns as results.
_SCRIPT = """
import { readFileSync, writeFileSync } from "node:fs";
import { load } from "./out/net.mjs";
const bytes = readFileSync("x.bin");
const x = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
const tell = (call) => call().then(() => "nothing", (error) => `${error.name}: ${error.message}`);
const main = async () => { BODY };
const found = await main();
writeFileSync("found.json", JSON.stringify(found, (_, value) => (ArrayBuffer.isView(value) ? [...value] : value)));
"""


def in_node(folder: Path, x: np.ndarray, body: str) -> object:
    """What an async function of JavaScript returns; typed arrays are lists."""
    assert NODE is not None
    (folder / "x.bin").write_bytes(np.ascontiguousarray(x).tobytes())
    (folder / "script.mjs").write_text(_SCRIPT.replace("BODY", body))
    subprocess.run([NODE, "script.mjs"], cwd=folder, check=True, timeout=120)
    return json.loads((folder / "found.json").read_text())


def array(values: object, like: np.ndarray) -> np.ndarray:
    return np.array(values, like.dtype).reshape(like.shape)


@needs_node
@pytest.mark.parametrize("place", ["beside", "inside"])
@pytest.mark.parametrize("target", ["wasm32", "wasm32-relaxed"])
def test_a_module_computes_what_the_model_does(target: str, place: str, tmp_path: Path) -> None:
    if target == "wasm32-relaxed" and in_node_relaxed(tmp_path) is False:
        pytest.skip("this Node has no relaxed SIMD")
    x = np.random.default_rng(3).random((1, 1, 28, 28), np.float32)
    expected = cenote.load(EMBEDDED)(x)
    cenote.export_model(EMBEDDED, tmp_path / "out", target=target, name="net", weights=place)  # type: ignore[arg-type]
    first, again = in_node(
        tmp_path,
        x,
        "const m = await load(); const name = m.outputs[0].name;"
        "const a = (await m.run({ picture: x }))[name]; await m.run({ picture: x.map((v) => 1 - v) });"
        "return [a, (await m.run({ picture: x }))[name]];",
    )  # type: ignore[misc]
    np.testing.assert_allclose(array(first, expected), expected, rtol=1e-4, atol=1e-4)
    assert first == again, "a run left something behind, or an output was overwritten"


@needs_node
@pytest.mark.parametrize("place", ["beside", "inside"])
def test_weights_are_stored_as_they_were_and_transformed_at_the_start(place: str, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    x = random.standard_normal((1, 32, 28, 28)).astype(np.float32)
    w = (random.standard_normal((64, 32, 3, 3)) / 17).astype(np.float32)
    graph = parser.parse_graph(
        "g (float[1,32,28,28] x) => (float[1,64,28,28] y) { c = Conv<pads=[1,1,1,1]>(x, w) y = Relu(c) }"
    )
    graph.initializer.append(numpy_helper.from_array(w, "w"))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    expected = cenote.load(model)(x)
    cenote.export_model(
        model,
        tmp_path / "out",
        target="wasm32",
        name="net",
        weights=place,
        threads=2 if place == "beside" else None,
    )
    if place == "beside":
        assert w.nbytes <= (tmp_path / "out" / "net.bin").stat().st_size < 1.5 * w.nbytes
    one, two = in_node(
        tmp_path,
        x,
        "const m = await load(), n = await load(undefined, { threads: 2 });"
        "const found = [(await m.run({ x })).y, (await n.run({ x })).y]; n.close(); return found;",
    )  # type: ignore[misc]
    np.testing.assert_allclose(array(one, expected), expected, rtol=1e-4, atol=1e-4)
    assert one == two


def in_node_relaxed(folder: Path) -> object:
    cenote.export_model(small(folder / "probe.onnx"), folder / "out", target="wasm32", name="net")
    return in_node(folder, X, 'return (await import("./out/net.mjs")).hasRelaxed();')


@needs_node
def test_threads_give_the_same_bits(tmp_path: Path) -> None:
    x = np.random.default_rng(3).random((1, 1, 28, 28), np.float32)
    cenote.export_model(EMBEDDED, tmp_path / "out", target="wasm32", name="net", threads=3)
    one, three, threads, most = in_node(
        tmp_path,
        x,
        "const alone = await load(), m = await load(undefined, { threads: 3 }), name = m.outputs[0].name;"
        "const a = (await alone.run({ picture: x }))[name]; let b;"
        "for (let i = 0; i < 50; i++) b = (await m.run({ picture: x }))[name];"
        "const many = await load(undefined, { threads: 9 });"
        "const found = [a, b, m.threads, many.threads]; m.close(); many.close(); return found;",
    )  # type: ignore[misc]
    assert one == three
    assert (threads, most) == (3, 3), "an export has threads up to a number"


@needs_node
def test_two_models_and_calls_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    source = small(tmp_path / "m.onnx")
    model = cenote.load(source)
    cenote.export_model(source, tmp_path / "out", target="wasm32", name="net")
    found = in_node(
        tmp_path,
        X,
        "const a = await load(), b = await load(); const one = x.map((v) => v + 1);"
        "const made = await Promise.all([a.run({ x }), b.run({ x: one }), a.run({ x: one }), b.run({ x })]);"
        "return made.map(({ y }) => y);",
    )
    first, second = model(X), model(X + np.float32(1))
    for values, expected in zip(found, (first, second, second, first), strict=True):  # type: ignore[call-overload]
        np.testing.assert_allclose(array(values, expected), expected, rtol=1e-5, atol=1e-5)


@needs_node
def test_lengths_choose_the_entry(tmp_path: Path) -> None:
    source = small(tmp_path / "m.onnx", batch="n")
    model = cenote.load(source)
    shapes = [{"x": (1, 8, 9, 9)}, {"x": (2, 8, 9, 9)}]
    cenote.export_model(source, tmp_path / "out", target="wasm32", name="net", shapes=shapes, threads=2)
    two = np.concatenate([X, X * 2])
    for threads in (1, 2):
        both, one = in_node(
            tmp_path,
            two,
            f"const m = await load(undefined, {{ threads: {threads} }});"
            "const found = [(await m.run({ x })).y, (await m.run({ x: x.slice(0, x.length / 2) })).y];"
            "m.close(); return found;",
        )  # type: ignore[misc]
        np.testing.assert_allclose(array(both, model(two)), model(two), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(array(one, model(X)), model(X), rtol=1e-5, atol=1e-5)


@needs_node
def test_shapes_choose_among_entries_of_one_length(tmp_path: Path) -> None:
    source = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[a, b] x) => (float[b, a] y) { y = Transpose(x) }'
    )
    shapes = [{"x": (2, 3)}, {"x": (3, 2)}]
    cenote.export_model(source, tmp_path / "out", target="wasm32", name="net", shapes=shapes)
    x = np.arange(6, dtype=np.float32)
    wide, high, unsaid, wrong = in_node(
        tmp_path,
        x,
        "const m = await load(); const of = async (shape) => (await m.run({ x: { data: x, shape } })).y;"
        "return [await of([2, 3]), await of([3, 2]), await tell(() => m.run({ x })), await tell(() => of([6, 1]))];",
    )  # type: ignore[misc]
    np.testing.assert_array_equal(wide, x.reshape(2, 3).T.ravel())
    np.testing.assert_array_equal(high, x.reshape(3, 2).T.ravel())
    both = "the model takes 'x': float32 2x3 or 'x': float32 3x2"
    assert unsaid == f"RangeError: 'x' has 6 elements; {both}; say which by {{ data, shape }}"
    assert wrong == f"RangeError: 'x' has the shape 6x1 and 6 elements; {both}"


def test_a_name_that_two_objects_define_is_refused(tmp_path: Path) -> None:
    objects, _, _ = _objects(small(tmp_path / "m.onnx"))
    with pytest.raises(CodegenError, match="two WebAssembly objects define"):
        Module([*objects, objects[0]], [])


@needs_node
def test_errors_say_what_was_seen_and_what_to_do(tmp_path: Path) -> None:
    source = small(tmp_path / "m.onnx")
    cenote.export_model(source, tmp_path / "out", target="wasm32", name="net")
    found = in_node(
        tmp_path,
        X,
        "const m = await load(); const found = [];"
        "for (const given of [{}, { z: x }, { x: [1, 2] }, { x: new Float64Array(x) }, { x: x.slice(1) }, null])"
        "  found.push(await tell(async () => m.run(given)));"
        "found.push(await tell(() => load(undefined, { threads: 0 })));"
        "const { y } = await m.run({ x }); found.push(y.length);"
        "m.close(); found.push(await tell(() => m.run({ x })));"
        'const { truncateSync } = await import("node:fs"); truncateSync("out/net.bin", 100);'
        "found.push(await tell(() => load())); return found;",
    )
    assert found == [
        "TypeError: input 'x' is missing; the model's inputs: 'x': float32 1x8x9x9",
        "TypeError: 'z' is no input of the model; its inputs: 'x': float32 1x8x9x9",
        "TypeError: 'x' is a Array, where the model takes a Float32Array",
        "TypeError: 'x' is a Float64Array, where the model takes a Float32Array",
        "RangeError: 'x' has 647 elements; the model takes 'x': float32 1x8x9x9",
        "TypeError: run takes an object of typed arrays by input name",
        "RangeError: threads: 0 is no whole number from 1 on",
        16 * 4 * 4,
        "Error: the model has been closed",
        f"Error: net.bin has 100 bytes, where this model needs {_constant_bytes(tmp_path / 'out' / 'net.mjs')}",
    ]


def _constant_bytes(loader: Path) -> int:
    line = next(line for line in loader.read_text().splitlines() if line.startswith("const MODEL = "))
    described = json.loads(line.removeprefix("const MODEL = ").removesuffix(";"))
    return int(described["weightsBytes"])


@needs_node
def test_memory_beyond_two_gigabytes_is_addressed(tmp_path: Path) -> None:
    source = small(tmp_path / "m.onnx")
    cenote.export_model(source, tmp_path / "out", target="wasm32", name="net")
    objects, runs, program = _objects(source)
    padding = RawData("padding", 9 << 28)
    data = [RawData(runs.symbol_of_weights, b"".join(program.content())), padding]
    data += [RawData(name, nbytes) for name, nbytes in runs.places()]
    module = Module(objects, data)
    assert module.addresses["input0"] > 1 << 31
    exported = [name for name, _ in runs.places()[:-1]] + [runs.symbol_of_weights]
    (tmp_path / "out" / "net.wasm").write_bytes(module.encoded(runs.placed_functions(False), exported))
    loader = tmp_path / "out" / "net.mjs"
    loader.write_text(loader.read_text().replace('"wasm32-relaxed": "net.relaxed.wasm"', '"other": ""'))
    expected = cenote.load(source)(X)
    values = in_node(tmp_path, X, "const m = await load(); return (await m.run({ x })).y;")
    np.testing.assert_allclose(array(values, expected), expected, rtol=1e-5, atol=1e-5)


def _codes(source: Path) -> tuple[dict[str, bytes], Runs, ExportedProgram]:
    program = Exporter(load_onnx(source).graph, LoadOptions(tune="off"), "wasm32").program("net", {}, ())
    runs = Runs(program)
    return compiled(program, runs.in_place(), "runs"), runs, program


def _objects(source: Path) -> tuple[list[WasmObject], Runs, ExportedProgram]:
    codes, runs, program = _codes(source)
    return [WasmObject.parsed(code) for code in codes.values()], runs, program


def test_more_memory_than_can_be_addressed_is_refused() -> None:
    with pytest.raises(CapacityError, match="addresses 4 GB"):
        Module([], [RawData("weights", 1 << 32)])


def test_objects_that_are_cut_off_or_damaged_are_refused_cleanly(tmp_path: Path) -> None:
    codes, runs, _ = _codes(small(tmp_path / "m.onnx"))
    code = codes["runs"]
    refused = 0
    for end in range(0, len(code), 7):
        try:
            WasmObject.parsed(code[:end])
        except CodegenError:
            refused += 1
    assert refused > len(code) // 7 * 0.9
    with pytest.raises(CodegenError, match="no WebAssembly"):
        WasmObject.parsed(b"\x7fELF" + bytes(60))
    with pytest.raises(CodegenError, match=r"calls or reads net_k0"):
        Module(
            [WasmObject.parsed(code)],
            [RawData(name, 64) for name, _ in runs.places()] + [RawData("net_weights", 64)],
        ).encoded(["run"], [])


@pytest.mark.parametrize(("nbytes", "is_refused"), [(1000, False), (40_000, True)])
def test_a_frame_that_could_overflow_the_stack_is_refused(nbytes: int, is_refused: bool) -> None:
    text = (
        f"define hidden void @deep(ptr %p) nounwind {{\n  %a = alloca [{nbytes} x i8]\n"
        "  store volatile ptr %a, ptr %p\n  ret void\n}\n"
    )
    deep = WasmObject.parsed(object_code(text, TARGETS["wasm32"], "deep"))
    assert [*deep.frames()] == [-(-nbytes // 16) * 16]
    if is_refused:
        with pytest.raises(CodegenError, match=r"deep: a frame of 40,000 bytes on a stack of 65,536"):
            Module([deep], [])
    else:
        Module([deep], [])


def test_damaged_bytes_are_refused_cleanly(tmp_path: Path) -> None:
    objects, _, _ = _codes(small(tmp_path / "m.onnx"))
    code, random = objects["runs"], np.random.default_rng(0)
    for _ in range(2000):
        damaged = bytearray(code)
        damaged[random.integers(8, len(code))] ^= 1 << random.integers(8)
        with contextlib.suppress(CodegenError):
            WasmObject.parsed(bytes(damaged))


@pytest.mark.parametrize("value", [0, 1, 63, 64, 127, 128, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
def test_numbers_are_encoded_as_they_are_read(value: int) -> None:
    assert binary.Reader(binary.unsigned(value)).unsigned() == value
    assert binary.Reader(binary.address(value)).signed() % (1 << 32) == value


def test_npm_packs_the_folder(tmp_path: Path) -> None:
    files = cenote.export_model(small(tmp_path / "A model.onnx"), tmp_path / "out", target="wasm32")
    package = json.loads((tmp_path / "out" / "package.json").read_text())
    assert package["name"] == "a-model"
    assert {*package["files"], "package.json"} == {path.name for path in files}
    if shutil.which("npm") is None:
        pytest.skip("no npm")
    done = subprocess.run(
        ["npm", "pack", "--json", "--offline"],
        cwd=tmp_path / "out",
        capture_output=True,
        text=True,
        check=True,
    )
    (packed,) = json.loads(done.stdout)
    assert {each["path"] for each in packed["files"]} == {path.name for path in files}


def test_threads_that_cannot_be_had_are_refused(tmp_path: Path) -> None:
    with pytest.raises(cenote.ArgumentError, match="threads: 65"):
        cenote.export_model(small(tmp_path / "m.onnx"), tmp_path, target="wasm32", threads=65)
    with pytest.raises(cenote.ArgumentError, match="read from beside"):
        cenote.export_model(
            small(tmp_path / "m.onnx"), tmp_path, target="wasm32", threads=2, weights="inside"
        )
    with pytest.raises(cenote.ArgumentError, match="of WebAssembly"):
        cenote.export_model(small(tmp_path / "m.onnx"), tmp_path, target="x86-64", threads=2)
