"""`cenote.quantize` from end to end: files that other engines run, options, and refusals."""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.quantization import reading
from cenote.quantization.ranges import METHODS
from tests.quantization.networks import classifier, examples, model, node, noise, onnxruntime, ops, quantized

X = examples()


def off(mine: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(mine - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_a_file_that_onnxruntime_and_cenote_run(method: str, per_channel: bool, tmp_path: Path) -> None:
    path, report = quantized(tmp_path, method=method, per_channel=per_channel)
    (wanted,) = onnxruntime(classifier(), {"x": X})
    (theirs,) = onnxruntime(path, {"x": X})
    mine = cenote.load(path, threads=1)(X)
    assert off(theirs, wanted) < 0.05
    # A number that the engines round to other sides of a half moves the answer by less than the steps do.
    assert off(mine, theirs) < 0.3 * off(theirs, wanted)
    assert 1 - report.after < 0.05 or report.metric.startswith("top-1")
    assert len(report.layers) == 8
    assert all(layer.sqnr > 20 for layer in report.layers)
    assert report.weights_after < 0.6 * report.weights_before


def test_the_form_of_the_file(tmp_path: Path) -> None:
    """Weights s8 with a scale per filter, biases int32 at the scale of the sums, activations u8."""
    path, _ = quantized(tmp_path)
    graph = onnx.load(path).graph
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    made = {each.output[0]: each for each in graph.node}
    assert ops(path).count("QuantizeLinear") == 11
    for layer in (each for each in graph.node if each.op_type in ("Conv", "Gemm")):
        x, w, *bias = (made[name] for name in layer.input)
        weights, scales = constants[w.input[0]], constants[w.input[1]]
        assert (constants[x.input[2]].dtype, weights.dtype) == (np.uint8, np.int8)
        assert scales.shape == weights.shape[:1]
        assert weights.min() >= -127
        if bias:
            numbers, own = (constants[bias[0].input[place]] for place in (0, 1))
            assert numbers.dtype == np.int32
            np.testing.assert_allclose(own, constants[x.input[1]] * scales, rtol=1e-6)
    assert not any(array.dtype == np.float32 and array.size > 16 for array in constants.values())


def test_verify_finds_nothing_wrong(tmp_path: Path) -> None:
    path, _ = quantized(tmp_path)
    assert cenote.verify(path, inputs={"x": X[:2]}, sizes=1).ok


def test_convolutions_run_on_bytes(tmp_path: Path) -> None:
    """Where the estimate says so; this network's are too small for it to hold on every machine, so a larger one."""
    nodes = [
        node("Conv", "x w b", "c"),
        node("Relu", "c", "r"),
        node("Conv", "r w b", "d"),
        node("Conv", "d v", "y"),
    ]
    weights = {"w": noise(64, 64, 1, 1, scale=0.1), "b": noise(64), "v": noise(4, 64, 1, 1)}
    x = noise(1, 64, 56, 56)
    path, _ = quantized(tmp_path, model(nodes, {"x": x.shape}, "y", weights), x)
    steps = [step.algorithm for plan in cenote.load(path).plans for step in plan.describe().steps]
    # The last one's result is floats; whether its four filters pay depends on the lanes.
    assert sum(step.startswith("quantized") for step in steps) >= 2


@pytest.mark.parametrize(
    "options",
    [{"equalization": True}, {"bias_correction": False}, {"reduce_range": True}, {"percentile": 99.9}],
    ids=str,
)
def test_options_keep_the_answers_near(options: dict[str, Any], tmp_path: Path) -> None:
    path, _ = quantized(tmp_path, method="percentile", **options)
    (wanted,) = onnxruntime(classifier(), {"x": X})
    assert off(onnxruntime(path, {"x": X})[0], wanted) < 0.05
    most = max(
        int(np.abs(numpy_helper.to_array(each).astype(int)).max())
        for each in onnx.load(path).graph.initializer
        if each.data_type == TensorProto.INT8
    )
    assert most == (63 if "reduce_range" in options else 127)


def test_correction_and_equalisation_help_where_they_should(tmp_path: Path) -> None:
    """Channels of very different ranges and one scale for all weights."""
    factors = np.geomspace(0.01, 1, 16, dtype=np.float32).reshape(-1, 1, 1, 1)
    weights = {"w": noise(16, 3, 1, 1) * factors, "v": noise(4, 16, 1, 1) / factors.reshape(1, -1, 1, 1)}
    given = model([node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Conv", "r v", "y")],
                  {"x": ["n", 3, 6, 6]}, "y", weights)  # fmt: skip
    data = noise(8, 3, 6, 6)
    plain, equal = (
        quantized(tmp_path, given, data, per_channel=False, equalization=each)[1].after
        for each in (False, True)
    )
    assert 1 - equal < 0.3 * (1 - plain)


def test_excluded_layers_stay_in_float(tmp_path: Path) -> None:
    _, report = quantized(tmp_path, exclude=["c[12]", "Gemm"])
    assert report.floats == ("c1", "c2", "y")
    _, report = quantized(tmp_path, exclude="Conv")
    assert report.floats == ("c1", "c2", "c3", "c4")
    with pytest.raises(
        cenote.ArgumentError, match=r"exclude: 'conv' fits no node and no operator; close to it: Conv"
    ):
        quantized(tmp_path, exclude="conv")
    with pytest.raises(
        cenote.UnsupportedError, match="nothing to quantise: of 5 convolutions and products 5 have"
    ):
        quantized(tmp_path, exclude=["*"])


def delicate() -> onnx.ModelProto:
    """Three layers, of which the second reads numbers with a far outlier, so that its input loses most."""
    nodes = [
        node("Conv", "x w1", "c1"),
        node("Exp", "c1", "e"),
        node("Conv", "e w2", "c2"),
        node("Sigmoid", "c2", "s"),
        node("Conv", "s w3", "y"),
    ]
    weights = {"w1": 2 * noise(4, 3, 1, 1), "w2": noise(4, 4, 1, 1, scale=0.05), "w3": noise(4, 4, 1, 1)}
    return model(nodes, {"x": ["n", 3, 12, 12]}, "y", weights)


def test_max_drop_leaves_the_delicate_layer_in_float(tmp_path: Path) -> None:
    told: list[str] = []
    _, whole = quantized(tmp_path, delicate(), method="minmax")
    _, report = quantized(
        tmp_path,
        delicate(),
        method="minmax",
        max_drop=whole.drop / 4,
        progress=lambda what, done, total: told.append(what),
    )
    assert report.floats == ("c2",)
    assert report.drop <= whole.drop / 4
    assert "ranking layers" in told
    assert "left in float for max_drop: c2" in str(report)


def test_a_metric_of_ones_own_on_other_data(tmp_path: Path) -> None:
    seen: list[dict[str, np.ndarray]] = []

    def metric(outputs: Any) -> float:
        seen.append(outputs)
        return float(outputs["y"].mean())

    _, report = quantized(tmp_path, metric=metric, evaluation=[X[:5], X[5:7]], max_drop=math.inf)
    assert report.metric == "metric"
    assert [each["y"].shape for each in seen] == [(7, 5), (7, 5)]
    assert report.before == pytest.approx(float(seen[0]["y"].mean()))
    assert report.after == pytest.approx(float(seen[1]["y"].mean()))
    for wrong in (None, math.nan, "high"):
        with pytest.raises(cenote.ArgumentError, match="not a finite number"):
            quantized(tmp_path, metric=lambda outputs, wrong=wrong: wrong)


def test_the_report_is_data_and_text(tmp_path: Path) -> None:
    report = cenote.quantize(classifier(), X, tmp_path / "q.onnx", threads=1)
    content = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert content["drop"] == report.before - report.after
    assert report.ms_before is not None
    assert report.ms_after is not None
    assert report.examples == len(X)
    text = str(report).splitlines()
    assert text[0].split() == ["layer", "operator", "weights", "own", "SQNR,", "dB", "largest", "error"]
    assert text[1].split()[:2] == ["c1", "Conv"]
    assert text[-1] == f"8 layers on bytes (mse), written to {tmp_path / 'q.onnx'}"


@pytest.mark.parametrize("opset", [9, 10, 12])
def test_earlier_opsets_are_converted(opset: int, tmp_path: Path) -> None:
    path, report = quantized(tmp_path, classifier(opset))
    assert report.notes == (f"converted from opset {opset} to 13",)
    assert onnx.load(path).opset_import[0].version == 13
    (wanted,) = onnxruntime(classifier(opset), {"x": X})
    assert off(onnxruntime(path, {"x": X})[0], wanted) < 0.05


def test_scales_take_no_names_of_the_model(tmp_path: Path) -> None:
    nodes = [
        node("Relu", "x", "r"),
        node("Conv", "r w", "c"),
        node("Mul", "c r.scale", "s"),
        node("Conv", "s v", "y"),
    ]
    constants = {"w": noise(6, 3, 3, 3), "r.scale": np.asarray(np.float32(7)), "v": noise(4, 6, 3, 3)}
    given = model(nodes, {"x": ["n", 3, 8, 8]}, "y", constants)
    path, _ = quantized(tmp_path, given, noise(4, 3, 8, 8))
    x = noise(4, 3, 8, 8)
    assert off(cenote.load(path, threads=1)(x), onnxruntime(given, {"x": x})[0]) < 0.05


@pytest.mark.parametrize("options", [{}, {"equalization": True}])
def test_new_values_take_no_names_of_the_model(options: dict[str, Any], tmp_path: Path) -> None:
    """Every name that is in the file and not in the model, given to another value of the model, or to a constant."""

    def chain(name: str, constant: bool) -> onnx.ModelProto:
        nodes = [node("Conv", "x w b", "c"), node("Relu", "c", "r"), node("Conv", "r v b", "d")]
        constants = {"w": noise(4, 4, 1, 1), "v": noise(4, 4, 1, 1), "b": noise(4)}
        if constant:
            nodes.append(node("Mul", f"d {name}", "e"))
            constants[name] = np.full(4, 1.5, np.float32)[:, None, None]
        else:
            nodes += [node("Sigmoid", "d", name), node("Mul", f"d {name}", "e")]
        nodes.append(node("Conv", "e v b", "y"))
        return model(nodes, {"x": ["n", 4, 3, 3]}, "y", constants)

    x = noise(3, 4, 3, 3)
    path, _ = quantized(tmp_path, chain("s", False), x, **options)
    graph = onnx.load(path).graph
    given = chain("s", False).graph
    made = {name for each in graph.node for name in (*each.input, *each.output)}
    made -= {name for each in given.node for name in (*each.input, *each.output)}
    assert len(made) > 30
    for place, name in enumerate(sorted(made)):
        mine = chain(name, bool(place % 2))
        path, _ = quantized(tmp_path, mine, x, **options)
        assert off(onnxruntime(path, {"x": x})[0], onnxruntime(mine, {"x": x})[0]) < 0.05


def test_inputs_with_default_values_become_constants_with_a_note(tmp_path: Path) -> None:
    given = classifier()
    names = [each.name for each in given.graph.initializer if each.name.startswith("w")]
    given.graph.input.extend(
        helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        for each in given.graph.initializer
        if each.name in names
    )
    _, report = quantized(tmp_path, given)
    (note,) = (note for note in report.notes if "default" in note)
    assert f"'{min(names)}'" in note
    assert f"and {len(names) - 3} more" in note


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = quantized(tmp_path)
    before = path.read_bytes()

    def broken(*_: object, **unused: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("cenote.core.files.os.replace", broken)
    with pytest.raises(OSError, match="no space"):
        quantized(tmp_path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_initializers_that_are_inputs_too(tmp_path: Path) -> None:
    given = classifier(9)
    given.ir_version = 3
    given.graph.input.extend(
        helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        for each in given.graph.initializer
    )
    path, _ = quantized(tmp_path, given)
    assert [each.name for each in onnx.load(path).graph.input] == ["x"]


def test_activations_that_are_all_zero(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w b", "c"), node("Relu", "c", "r"), node("Conv", "r v b", "y")]
    weights = {"w": noise(4, 4, 1, 1), "v": noise(4, 4, 1, 1), "b": -np.full(4, 100, np.float32)}
    x = noise(2, 4, 3, 3)
    path, report = quantized(tmp_path, model(nodes, {"x": ["n", 4, 3, 3]}, "y", weights), x)
    np.testing.assert_allclose(cenote.load(path, threads=1)(x), -100, rtol=1e-4)
    np.testing.assert_allclose(onnxruntime(path, {"x": x})[0], -100, rtol=1e-4)
    assert report.as_dict()["layers"][0]["own_sqnr"] is None, "infinite"


def test_values_that_are_infinite_inside_stay_in_float(tmp_path: Path) -> None:
    nodes = [node("Log", "x", "l"), node("Conv", "l w", "c"), node("Conv", "x v", "y")]
    given = model(nodes, {"x": ["n", 4, 3, 3]}, "c y", {"w": noise(4, 4, 1, 1), "v": noise(4, 4, 1, 1)})
    x = np.abs(noise(2, 4, 3, 3))
    x[0, 0, 0, 0] = 0
    _, report = quantized(tmp_path, given, x)
    assert report.floats == ("c",)
    assert report.notes == ("'l' is NaN or infinite on this data: it stays in float",)


def test_inputs_of_integers(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [node("Cast", "ids", "f", to=TensorProto.FLOAT), node("MatMul", "f w", "m"), node("Add", "m b", "y")],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(noise(6, 5), "w"), numpy_helper.from_array(noise(5), "b")],
    )
    given = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    given = onnx.shape_inference.infer_shapes(given)
    ids = np.arange(60).reshape(10, 6)
    path, report = quantized(tmp_path, given, ids)
    assert [layer.op for layer in report.layers] == ["Gemm"]
    assert off(onnxruntime(path, {"ids": ids})[0], onnxruntime(given, {"ids": ids})[0]) < 0.02


def test_large_files_have_their_constants_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = {"w": noise(64, 64, 1, 1), "v": noise(64, 64, 1, 1)}
    given = model([node("Conv", "x w", "c"), node("Conv", "c v", "y")], {"x": ["n", 64, 3, 3]}, "y", weights)
    source = tmp_path / "float.onnx"
    onnx.save_model(given, source, save_as_external_data=True, location="float.bin", size_threshold=0)
    x = noise(2, 64, 3, 3)
    whole, _ = quantized(tmp_path, source, x)
    wanted = cenote.load(whole, threads=1)(x)
    monkeypatch.setattr(reading, "LARGEST_FILE", 1000)
    # Each writes over the one before.
    for name in ("quantized.onnx.data", "quantized.onnx.data2", "quantized.onnx.data"):
        path, _ = quantized(tmp_path, source, x)
        assert path.stat().st_size < 4096 < (tmp_path / name).stat().st_size < 12_000
        np.testing.assert_array_equal(cenote.load(path, threads=1)(x), wanted)
        assert {each.name for each in tmp_path.glob("*quantized*")} == {path.name, name}


def test_a_file_that_the_old_model_does_not_read_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = model([node("Conv", "x w", "y")], {"x": ["n", 64, 3, 3]}, "y", {"w": noise(64, 64, 1, 1)})
    own = tmp_path / "quantized.onnx.data2"
    own.write_bytes(b"of another")
    monkeypatch.setattr(reading, "LARGEST_FILE", 1000)
    path, _ = quantized(tmp_path, given, noise(2, 64, 3, 3))
    assert (tmp_path / f"{path.name}.data").exists()
    assert own.read_bytes() == b"of another"


def test_large_files_are_whole_or_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {"w": noise(64, 64, 1, 1), "v": noise(64, 64, 1, 1)}
    given = model([node("Conv", "x w", "c"), node("Conv", "c v", "y")], {"x": ["n", 64, 3, 3]}, "y", weights)
    x = noise(2, 64, 3, 3)
    monkeypatch.setattr(reading, "LARGEST_FILE", 1000)
    path, _ = quantized(tmp_path, given, x)
    wanted = cenote.load(path, threads=1)(x)
    weights["w"] *= 2
    other = model([node("Conv", "x w", "c"), node("Conv", "c v", "y")], {"x": ["n", 64, 3, 3]}, "y", weights)

    def broken(*_: object, **unused: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("cenote.quantization.reading.replacing", broken)
    with pytest.raises(OSError, match="no space"):
        quantized(tmp_path, other, x)
    np.testing.assert_array_equal(cenote.load(path, threads=1)(x), wanted)


def test_what_is_no_float_model_of_onnx(tmp_path: Path) -> None:
    path, _ = quantized(tmp_path)
    with pytest.raises(
        cenote.UnsupportedError, match=r"quantised already: node 'x.quantize' is QuantizeLinear"
    ):
        quantized(tmp_path, path.read_bytes())
    lite = tmp_path / "model.tflite"
    lite.write_bytes(b"\x00\x00\x00\x00TFL3" + bytes(60))
    with pytest.raises(
        cenote.UnsupportedError, match=r"model.tflite: quantize takes models of ONNX; .* tf2onnx"
    ):
        quantized(tmp_path, lite)
    with pytest.raises(cenote.UnsupportedError, match="quantize takes models of ONNX"):
        quantized(tmp_path, tmp_path)
    with pytest.raises(cenote.MissingFileError):
        quantized(tmp_path, tmp_path / "none.onnx")
    for wrong in (b"", b"abc", 7):
        with pytest.raises(cenote.ModelError):
            quantized(tmp_path, wrong)
    with pytest.raises(cenote.UnsupportedError, match="of 0 convolutions and products"):
        quantized(tmp_path, model([node("Relu", "x", "y")], {"x": ["n", 3, 12, 12]}, "y", {}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "best"},
        {"percentile": 20},
        {"per_channel": 1},
        {"reduce_range": "no"},
        {"equalization": None},
        {"bias_correction": 0},
        {"max_drop": -1},
        {"max_drop": math.nan},
        {"max_drop": "little"},
        {"exclude": 7},
        {"threads": 0},
    ],
    ids=str,
)
def test_wrong_arguments(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(cenote.ArgumentError):
        cenote.quantize(classifier(), X, tmp_path / "q.onnx", **wrong)


def test_wrong_destinations(tmp_path: Path) -> None:
    source = tmp_path / "float.onnx"
    onnx.save(classifier(), source)
    for out in (source, tmp_path, tmp_path / "none" / "q.onnx", None):
        with pytest.raises(cenote.ArgumentError, match="out: "):
            cenote.quantize(source, X, out)  # type: ignore[arg-type]
    with pytest.raises(cenote.InputError, match="calibration: there is no example"):
        cenote.quantize(source, [], tmp_path / "q.onnx")
    assert not (tmp_path / "q.onnx").exists()


@pytest.mark.parametrize("write", [cenote.quantize, cenote.compress])
def test_a_folder_that_cannot_be_written_is_noticed_first(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **unused: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("cenote.quantization.reading.tempfile.TemporaryFile", denied)
    monkeypatch.setattr("cenote.quantization.reading.parsed", None)  # nothing is read before
    out = tmp_path / "q.onnx"
    arguments = {"calibration": X} if write is cenote.quantize else {}
    with pytest.raises(
        cenote.ArgumentError, match=r"nothing can be written in the folder .*Permission denied"
    ):
        write(classifier(), out=out, **arguments)
