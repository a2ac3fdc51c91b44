"""Reading ONNX files: every way in, every way to be wrong."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import cenote
from cenote.core.errors import CenoteError, ModelError, UnsupportedError
from cenote.frontends import onnx_nodes
from cenote.frontends.onnx import load_onnx, model_of_node
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from tests.frontends.models import FLOAT, branches, model, relu_chain, tensor, value

X = np.array([[-1, 0, 1], [2, -2, 3]], np.float32)
node = helper.make_node


def run(proto: onnx.ModelProto, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    """Load, verify, run by references."""
    graph = verify(load_onnx(proto).graph)
    return evaluate(graph, inputs or {"x": X})


def refused(source: object, error: type[CenoteError], *parts: str) -> None:
    """Loading raises exactly this error, and its message has all parts."""
    with pytest.raises(error) as caught:
        load_onnx(source)  # type: ignore[arg-type]
    for part in parts:
        assert part in str(caught.value), str(caught.value)


def test_every_source_gives_the_same_graph(tmp_path: Path) -> None:
    proto = model(
        [node("Add", ["x", "w"], ["y"])], weights={"w": np.ones((2, 3), np.float32)}, producer_name="tests"
    )
    helper.set_model_props(proto, {"author": "me"})
    content = proto.SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with path.open("rb") as file:
        sources = [path, str(path), content, bytearray(content), io.BytesIO(content), file, proto]
        loaded = [load_onnx(source) for source in sources]  # type: ignore[arg-type]
    assert len({str(item.graph) for item in loaded}) == 1
    assert all(
        dict(item.metadata) == {"author": "me"} and item.about["producer_name"] == "tests" for item in loaded
    )
    np.testing.assert_array_equal(evaluate(loaded[0].graph, {"x": X})["y"], X + 1)


def test_declared_inputs_and_outputs() -> None:
    proto = model(
        [node("Relu", ["x"], ["y"]), node("Relu", ["z"], ["q"])],
        [value("x", ("N", 3, None, 4)), value("z", None, onnx.TensorProto.DOUBLE)],
        [value("y", ("N", 3, "?", 4)), onnx.ValueInfoProto(name="q")],
    )
    loaded = load_onnx(proto)
    assert [str(item) for item in loaded.graph.inputs] == ["x: float32[N,3,?,4]", "z: float64[?]"]
    assert list(map(str, loaded.outputs.values())) == ["y: float32[N,3,?,4]", "q: float64[?]"]
    assert loaded.graph.outputs == ("y", "q")


def test_initializers_listed_as_inputs_are_constants() -> None:
    proto = model([node("Add", ["x", "w"], ["y"])], ["x", value("w", ())], weights={"w": np.float32(5)})
    assert [declared.name for declared in load_onnx(proto).graph.inputs] == ["x"]


def test_outputs_may_be_inputs_and_constants() -> None:
    proto = model([node("Relu", ["x"], ["y"])], outputs=["x", "w", "y"], weights={"w": np.float32(5)})
    assert list(run(proto)) == ["x", "w", "y"]


def test_absent_inputs_and_outputs() -> None:
    proto = model([node("Clip", ["x", "", "top"], ["y"])], weights={"top": np.float32(1)})
    np.testing.assert_array_equal(run(proto)["y"], np.minimum(X, 1))
    proto = model([node("Dropout", ["x"], ["y", ""])])
    np.testing.assert_array_equal(run(proto)["y"], X)


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ({"value": tensor("", np.arange(3, dtype=np.int8))}, np.arange(3, dtype=np.int8)),
        ({"value_float": 1.5}, np.float32(1.5)),
        ({"value_floats": [1.5, 2.0]}, np.array([1.5, 2], np.float32)),
        ({"value_int": -7}, np.int64(-7)),
        ({"value_ints": [1, 2]}, np.array([1, 2])),
        ({"value_string": "ab"}, np.array("ab", object)),
        ({"value_strings": ["a", "é"]}, np.array(["a", "é"], object)),
    ],
)
def test_constant_nodes(attribute: dict[str, object], expected: np.ndarray) -> None:
    loaded = load_onnx(model([node("Constant", [], ["y"], **attribute)], inputs=[]))  # type: ignore[arg-type]
    seen = loaded.graph.constants["y"]
    assert seen.dtype == expected.dtype
    np.testing.assert_array_equal(seen, expected)


TYPES = [
    np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
    np.uint64, np.bool_, np.complex64, np.complex128, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn,
]  # fmt: skip


@pytest.mark.parametrize("size", [5, 5000])  # 5000: its bytes are split off before parsing
@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
def test_tensor_types(dtype: type, raw: bool, size: int, tmp_path: Path) -> None:
    array = (np.arange(size) % 3).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = tensor("w", array) if raw else helper.make_tensor("w", kind, [size], array.tolist())
    proto = model([node("Identity", ["w"], ["y"])], inputs=[])
    proto.graph.initializer.append(made)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    for source in (path, path.read_bytes(), proto):
        seen = load_onnx(source).graph.constants["w"]
        assert seen.dtype == array.dtype
        assert seen.flags.aligned
        assert seen.tobytes() == array.tobytes()


def test_strings_and_empty_tensors() -> None:
    proto = model([node("Identity", ["w"], ["y"])], inputs=[], weights={"w": np.array(["a", "b"], object)})
    assert load_onnx(proto).graph.constants["w"].tolist() == ["a", "b"]
    for shape in [(0,), (0, 5), ()]:
        proto = model([node("Identity", ["w"], ["y"])], inputs=[], weights={"w": np.zeros(shape, np.float32)})
        assert load_onnx(proto.SerializeToString()).graph.constants["w"].shape == shape


@pytest.mark.parametrize("align", range(4))
def test_weights_of_a_model_in_memory_are_aligned(align: int) -> None:
    proto = model([node("Add", ["x", "w"], ["y"])], weights={"w": np.arange(6000.0).reshape(2, 3000)})
    proto.doc_string = "-" * align  # moves the weights
    weights = load_onnx(proto.SerializeToString()).graph.constants["w"]
    assert weights.flags.aligned
    assert weights[1, 2999] == 5999


def external(path: Path, location: str, **entries: int) -> onnx.ModelProto:
    """A model whose weight lies in another file."""
    proto = model([node("Add", ["x", "w"], ["y"])], weights={"w": np.ones((2, 3), np.float32)})
    weight = proto.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, item in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=str(item))
    path.write_bytes(proto.SerializeToString())
    return proto


def test_external_data(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"\0" * 8 + X.tobytes() + b"\0")
    external(path, "sub/w.bin", offset=8, length=24)
    np.testing.assert_array_equal(load_onnx(path).graph.constants["w"], X)
    external(path, "sub/w.bin", offset=8)
    np.testing.assert_array_equal(load_onnx(str(path)).graph.constants["w"], X)


def test_external_data_that_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    path = folder / "m.onnx"
    (tmp_path / "secret.bin").write_bytes(X.tobytes())
    (folder / "short.bin").write_bytes(b"1234")
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    for location in ("../secret.bin", str(tmp_path / "secret.bin"), "link.bin", "a/../../secret.bin"):
        proto = external(path, location)
        refused(path, ModelError, str(path), "initializer 'w'", "leaves the model's folder")
    (folder / "hard.bin").hardlink_to(tmp_path / "secret.bin")
    external(path, "hard.bin")
    refused(path, ModelError, "initializer 'w'", "'hard.bin' is a hard link (the file has 2 names)")
    external(path, "missing.bin")
    refused(path, ModelError, "initializer 'w'", "'missing.bin' is missing")
    external(path, "short.bin")
    refused(path, ModelError, "has 4 bytes, too few")
    external(path, "short.bin", offset=-1)
    refused(path, ModelError, "too few")
    external(path, "short.bin", length="many")  # type: ignore[arg-type]
    refused(path, ModelError, "not a number")
    for location in ("", "a\0b", "x" * 5000, "."):
        external(path, location)
        refused(path, ModelError, "initializer 'w'")
    refused(proto, ModelError, "not given as a path")
    refused(proto.SerializeToString(), ModelError, "not given as a path")


def test_functions_are_inlined() -> None:
    inner = helper.make_function(
        "local", "Leaky", ["a"], ["b"],
        [helper.make_node("LeakyRelu", ["a"], ["b"], name="leak")], [helper.make_opsetid("", 17)], attributes=["slope"],
    )  # fmt: skip
    inner.node[0].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    outer = helper.make_function(
        "local", "Twice", ["x", "y"], ["p", "same"],
        [
            node("Leaky", ["x"], ["t"], domain="local", name="first", slope=0.5),
            node("Add", ["t", "t"], ["p"]), node("Identity", ["x"], ["same"]),
        ],
        [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)],
    )  # fmt: skip
    nodes = [
        node("Twice", ["x"], ["t", "s"], domain="local", name="one"),
        node("Twice", ["t", ""], ["y"], domain="local", name="two"),
    ]
    proto = model(nodes, outputs=["y", "s"], functions=[inner, outer])
    proto.opset_import.append(helper.make_opsetid("local", 1))
    leaky = np.where(X > 0, X, X / 2) * 2
    seen = run(proto)
    np.testing.assert_allclose(seen["y"], np.where(leaky > 0, leaky, leaky / 2) * 2)
    np.testing.assert_array_equal(seen["s"], X)
    assert "one/first/leak" in [item.label for item in load_onnx(proto).graph.nodes]


def test_a_reference_to_a_functions_attribute_outside_of_functions_is_refused() -> None:
    """onnxruntime takes the value beside it; a default in its place was a wrong answer."""
    leaky = node("LeakyRelu", ["x"], ["y"], name="leak", alpha=0.5)
    leaky.attribute[0].ref_attr_name = "slope"
    refused(model([leaky]), ModelError, "leak", "alpha refers to the attribute 'slope'")


def test_a_map_over_what_is_no_sequence_is_refused() -> None:
    body = helper.make_graph([node("Add", ["a", "a"], ["b"])], "body", [value("a")], [value("b")])
    mapped = node("SequenceMap", ["x"], ["y"], name="map", body=body)
    with pytest.raises(ModelError, match=r"'map'.*must be a sequence, got a tensor"):
        cenote.load(model([mapped]), threads=1).run({"x": X})


def test_function_that_hands_on_its_input() -> None:
    passes = helper.make_function("f", "Pass", ["a"], ["a"], [], [helper.make_opsetid("", 17)])
    proto = model([node("Pass", ["x"], ["y"], domain="f")], functions=[passes])
    np.testing.assert_array_equal(run(proto)["y"], X)


def test_functions_that_call_themselves_or_explode(monkeypatch: pytest.MonkeyPatch) -> None:
    # They are refused before anything is inlined.
    monkeypatch.setattr(onnx_nodes.OnnxImporter, "_inline", None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    loop = helper.make_function("f", "Loop", ["a"], ["b"], [node("Loop", ["a"], ["b"], domain="f")], opsets)
    refused(model([node("Loop", ["x"], ["y"], domain="f")], functions=[loop]), ModelError, "nested more than")
    tower = [helper.make_function("f", "F0", ["a"], ["b"], [node("Relu", ["a"], ["b"])], opsets)]
    for level in range(1, 30):  # 2^29 nodes
        calls = [
            node(f"F{level - 1}", ["a"], ["t"], domain="f"),
            node(f"F{level - 1}", ["t"], ["b"], domain="f"),
        ]
        tower.append(helper.make_function("f", f"F{level}", ["a"], ["b"], calls, opsets))
    refused(model([node("F29", ["x"], ["y"], domain="f")], functions=tower), UnsupportedError, "nodes")


def test_nodes_out_of_order_are_sorted() -> None:
    proto = model([node("Relu", ["b"], ["y"]), node("Neg", ["a"], ["b"]), node("Neg", ["x"], ["a"])])
    np.testing.assert_array_equal(run(proto)["y"], np.maximum(X, 0))


def test_operator_with_an_onnx_definition_only() -> None:
    proto = model([node("Relu", ["x"], ["r"]), node("Celu", ["r"], ["y"], alpha=2.0, name="celu")])
    np.testing.assert_allclose(run(proto)["y"], np.maximum(X, 0))


def test_long_chain_does_not_recurse() -> None:
    assert len(load_onnx(relu_chain(5000)).graph.nodes) == 5000


def test_files_that_are_no_models(tmp_path: Path) -> None:
    good = relu_chain().SerializeToString()
    for name, content in {
        "text.onnx": b"hello, this is text\n" * 20,
        "random.onnx": np.random.default_rng(0).bytes(5000),
        "cut.onnx": good[: len(good) // 2],
        "zeros.onnx": b"\0" * 100,
        "picture.onnx": b"\x89PNG\r\n\x1a\n" + b"\0" * 50,
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        refused(path, ModelError, str(path))
        refused(content, ModelError)
    (tmp_path / "empty.onnx").write_bytes(b"")
    refused(tmp_path / "empty.onnx", ModelError, "empty.onnx", "empty")
    refused(tmp_path / "none.onnx", ModelError, "none.onnx", "no such file")
    refused(tmp_path, ModelError, "cannot be read")
    refused("a\0b", ModelError, "cannot be read")
    refused(io.StringIO("text"), ModelError, "binary mode")
    refused(17, ModelError, "int")
    refused(onnx.ModelProto(), ModelError, "no graph")


RELU = node("Relu", ["x"], ["y"], name="relu")
BAD_GRAPHS = [
    (model([node("Neg", ["b"], ["a"], name="n1"), node("Neg", ["a"], ["b"], name="n2")], outputs=["a"]),
     ModelError, ["cycle", "'n1'", "'n2'"]),
    (model([node("Relu", ["y"], ["y"], name="self")]), ModelError, ["cycle", "'self'"]),
    (model([node("Relu", ["v17"], ["y"], name="relu"), node("Relu", ["x"], ["v1"])]),
     ModelError, ["'relu' (Relu)", "reads 'v17'", "did you mean 'v1'"]),
    (model([RELU, node("Neg", ["x"], ["y"], name="neg")]), ModelError, ["'neg'", "'y'", "already made by node 'relu'"]),
    (model([node("Relu", ["x"], ["x"])], outputs=["x"]), ModelError, ["already made"]),
    (model([RELU], outputs=["z"]), ModelError, ["output 'z'", "made by no node"]),
    (model([RELU], outputs=["y", "y"]), ModelError, ["listed twice"]),
    (model([RELU], outputs=[]), ModelError, ["no outputs"]),
    (model([RELU], inputs=["x", "x"]), ModelError, ["declared twice"]),
    (model([node("Relu", ["x", "x"], ["y"], name="relu")]), ModelError, ["'relu'", "2 inputs", "takes 1"]),
    (model([node("Relu", [""], ["y"], name="relu")]), ModelError, ["'relu'", "input 0 ('X') is missing"]),
    (model([node("Relu", ["x"], ["y"], name="relu", alpha=1)]), ModelError, ["'alpha'", "does not belong"]),
    (model([node("LeakyRelu", ["x"], ["y"], alpha="high")]), ModelError, ["'alpha' must be FLOAT, not STRING"]),
    (model([node("Cast", ["x"], ["y"])]), ModelError, ["to is required"]),
    (model([node("Rleu", ["x"], ["y"], name="relu")]), UnsupportedError, ["'relu'", "Rleu", "nearest", "Relu"]),
    (model([node("Foo", ["x"], ["y"], domain="my.domain")]), ModelError, ["my.domain", "opset_import"]),
    (model([RELU], opset=5), UnsupportedError, ["opset 5", "6 and later"]),
    (model([RELU], opset=1000), UnsupportedError, ["opset 1000", "upgrade the onnx package"]),
    (model([node("Upsample", ["x", "x"], ["y"])], opset=13), UnsupportedError, ["deprecated"]),
    (model([node("Loop", ["", "c"], ["y"], body=branches()[1])], weights={"c": np.array(True)}), ModelError,
     ["Loop", "has 0 inputs"]),
    (model([node("If", ["x"], ["y", "z"], then_branch=branches()[0], else_branch=branches()[1])]), ModelError,
     ["then_branch has 1 outputs, the node 2"]),
    (model([RELU], [value("x", (2,), 0)]), ModelError, ["input 'x'", "UNDEFINED"]),
    (model([RELU], [value("x", (2,), 99)]), UnsupportedError, ["input 'x'", "99"]),
    (model([RELU], [helper.make_sparse_tensor_value_info("x", FLOAT, None)]), UnsupportedError, ["sparse"]),
    (model([node("Constant", [], ["y"], name="c")]), ModelError, ["'c'", "exactly one"]),
]  # fmt: skip


@pytest.mark.parametrize(("proto", "error", "parts"), BAD_GRAPHS, ids=[item[2][0] for item in BAD_GRAPHS])
def test_bad_graphs(proto: onnx.ModelProto, error: type[CenoteError], parts: list[str]) -> None:
    refused(proto, error, *parts)
    refused(proto.SerializeToString(), error, *parts)


def test_bad_initializers() -> None:
    def changed(**fields: object) -> onnx.ModelProto:
        proto = model([node("Add", ["x", "w"], ["y"])], weights={"w": np.ones((2, 3), np.float32)})
        for name, item in fields.items():
            field = getattr(proto.graph.initializer[0], name)
            if isinstance(item, list):
                del field[:]
                field.extend(item)
            else:
                setattr(proto.graph.initializer[0], name, item)
        return proto

    refused(changed(dims=[2, 4]), ModelError, "initializer 'w'", "takes 32 bytes, not 24")
    refused(changed(dims=[-2, -3]), ModelError, "initializer 'w'", "negative")
    refused(changed(dims=[1 << 62, 1 << 62]), ModelError, "initializer 'w'")
    refused(changed(dims=[0, 1 << 62, 1 << 62], raw_data=b""), ModelError, "initializer 'w'")
    refused(changed(dims=[1] * 100), UnsupportedError, "100 axes")
    refused(changed(data_type=0), ModelError, "UNDEFINED")
    refused(changed(data_type=77), UnsupportedError, "77")
    refused(changed(data_type=onnx.TensorProto.INT4, dims=[1 << 50]), ModelError, "initializer 'w'")
    refused(
        changed(data_type=onnx.TensorProto.STRING, dims=[1 << 50], raw_data=b""),
        ModelError,
        "initializer 'w'",
    )
    refused(changed(name=""), ModelError, "no name")
    proto = changed()
    proto.graph.initializer.append(proto.graph.initializer[0])
    refused(proto, ModelError, "'w' is defined twice")
    proto = changed()
    proto.graph.sparse_initializer.add()
    refused(proto, UnsupportedError, "sparse")
    proto = changed()
    proto.ir_version = 10_000
    refused(proto, UnsupportedError, "IR version 10000")


def test_names_that_are_not_text() -> None:
    content = relu_chain().SerializeToString().replace(b"relu_y", b"relu\xff\xfe")
    refused(content, ModelError)


def test_model_of_node() -> None:
    proto = model_of_node(node("Add", ["a", "b"], ["c"], name="sum"), [X, X], None)
    assert proto.opset_import[0].version == onnx.defs.onnx_opset_version()
    np.testing.assert_array_equal(run(proto, a=X, b=X)["c"], 2 * X)
    with pytest.raises(CenoteError, match=re.escape("node 'sum' (Add): takes 2 inputs")):
        model_of_node(node("Add", ["a", "b"], ["c"], name="sum"), [X], None)


def test_importing_cenote_does_not_import_onnx() -> None:
    code = "import sys, cenote; sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("Gemm", {"transA": 2}),
        ("Gemm", {"transB": -1}),
        ("ArgMax", {"keepdims": 2}),
        ("MaxPool", {"ceil_mode": 2, "kernel_shape": [1, 1]}),
        ("AveragePool", {"count_include_pad": 3, "kernel_shape": [1, 1]}),
        ("Mod", {"fmod": 1 << 32}),
    ],
)
def test_truth_values_other_than_0_and_1_are_refused(
    operator: str, attributes: dict[str, int | list[int]]
) -> None:
    """onnxruntime takes them for false, others for true."""
    inputs = ["x", "x"] if operator in ("Gemm", "Mod") else ["x"]
    name = next(iter(attributes))
    proto = model([node(operator, inputs, ["y"], name="odd", **attributes)])
    refused(proto, ModelError, "'odd'", f"'{name}' must be 0 or 1, got {attributes[name]}")


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        (None, "y: float32[N,8,?,15]"),
        ((None, None, None, None), "y: float32[N,8,?,15]"),
        (("M", 8, "rows", "columns"), "y: float32[M,8,rows,15]"),
        (("N", 8, "N", 15), "y: float32[N,8,N,15]"),  # nothing is open: nothing is inferred
        (("N", 9, "rows", 15), "y: float32[N,9,rows,15]"),  # wrong: what is declared stays
    ],
)
def test_what_outputs_leave_open_is_inferred(
    declared: tuple[int | str | None, ...] | None, found: str
) -> None:
    weights = {"w": np.zeros((8, 40, 3, 3), np.float32)}  # large: its content is not at hand then
    proto = model(
        [node("Conv", ["x", "w"], ["y"], strides=[2, 2])],
        [value("x", ("N", 40, "H", 32))],
        [value("y", declared)],
        weights,
    )
    for source in (proto, proto.SerializeToString()):
        assert str(load_onnx(source).outputs["y"]) == found


def test_a_file_says_what_it_is() -> None:
    proto = model(
        [node("Relu", ["x"], ["y"])], producer_name="tests", producer_version="3", model_version=7, domain="d"
    )
    proto.doc_string, proto.graph.doc_string = "a model", "a graph"
    assert dict(load_onnx(proto).about) == {
        "producer_name": "tests", "producer_version": "3", "graph_name": proto.graph.name, "domain": "d",
        "description": "a model", "graph_description": "a graph", "version": "7",
    }  # fmt: skip
