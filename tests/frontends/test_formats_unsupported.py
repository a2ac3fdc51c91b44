"""`cenote inspect --check` lists all that is not supported, whatever the format."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
from onnx import helper
from typer.testing import CliRunner

import cenote
from cenote.cli.app import app
from tests.frontends.models import model
from tests.frontends.tensorflow_archive import ARCHIVE, NEEDS_H5PY


def test_onnx(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("StringConcat", ["x", "x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Nonsense", ["b"], ["y"], name="second"),
    ]
    path = tmp_path / "model.onnx"
    path.write_bytes(model(nodes).SerializeToString())
    problems = cenote.unsupported(path)
    assert ["first" in problems[0], "second" in problems[1], len(problems)] == [True, True, 2]
    result = CliRunner().invoke(app, ["inspect", "--check", str(path)])
    assert result.exit_code == 1
    assert "first" in result.output


def test_supported(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model([helper.make_node("Relu", ["x"], ["y"])]).SerializeToString())
    assert CliRunner().invoke(app, ["inspect", "--check", str(path)]).exit_code == 0


def test_graph_and_lite() -> None:
    with zipfile.ZipFile(ARCHIVE) as archive:
        graph, lite = archive.read("mobilenet.pb"), archive.read("lite_lrn.tflite")
    assert cenote.unsupported(graph) == []
    assert cenote.unsupported(lite) == []
    renamed = graph.replace(b"\x12\x07BiasAdd", b"\x12\x07BiasOdd").replace(
        b"\x12\x05Relu6", b"\x12\x05Rolu6"
    )
    assert any("BiasOdd" in problem or "Rolu6" in problem for problem in cenote.unsupported(renamed))


@NEEDS_H5PY
def test_keras() -> None:
    with (
        zipfile.ZipFile(ARCHIVE) as archive,
        zipfile.ZipFile(io.BytesIO(archive.read("unet.keras"))) as inner,
    ):
        config, weights = json.loads(inner.read("config.json")), inner.read("model.weights.h5")
    layers = config["config"]["layers"]
    for layer in layers:
        if layer["class_name"] in ("UpSampling2D", "MaxPooling2D"):
            layer["class_name"] = f"Odd{layer['class_name']}"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as changed:
        changed.writestr("config.json", json.dumps(config))
        changed.writestr("model.weights.h5", weights)
    problems = cenote.unsupported(buffer.getvalue())
    assert problems
    assert all("Odd" in problem for problem in problems)


@pytest.mark.parametrize(
    "names",
    [
        ("model/data.pkl", "model/data/0"), ("j/data/0", "j/data.pkl"), ("e/data/weights/weight_0",),
        ("m/version",), ("archive/.format_version",),
    ],
    ids=["saved", "scripted", "exported", "versioned", "numbered"],
)  # fmt: skip
@pytest.mark.parametrize("as_bytes", [False, True])
def test_files_of_pytorch_are_named(names: tuple[str, ...], as_bytes: bool, tmp_path: Path) -> None:
    path = tmp_path / "network.pt"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"content")
    with pytest.raises(cenote.UnsupportedError, match=r"a file of PyTorch.*torch\.onnx\.export"):
        cenote.load(path.read_bytes() if as_bytes else path)


def test_older_files_of_pytorch_and_its_modules_are_named(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Linear(2, 1)
    torch.save(network.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    torch.save(network, tmp_path / "new.pt")
    for name in ("old.pt", "new.pt"):
        with pytest.raises(cenote.UnsupportedError, match=r"a file of PyTorch.*torch\.onnx\.export"):
            cenote.load(tmp_path / name)
    with pytest.raises(cenote.ModelError, match=r"export it with torch\.onnx\.export"):
        cenote.load(network)
