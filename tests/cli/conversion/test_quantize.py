"""`cenote quantize`: data from files and folders, options, what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

import cenote
from tests.cli.conftest import Command
from tests.quantization.networks import classifier, examples, model, node, noise

X = examples(16)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "float.onnx"
    onnx.save(classifier(), path)
    return path


def test_arrays_options_and_text(network: Path, tmp_path: Path, cenote_command: Command) -> None:
    np.save(tmp_path / "x.npy", X)
    options = [
        "--method",
        "percentile",
        "--percentile",
        "99.9",
        "--per-tensor",
        "--equalize",
        "--keep-bias",
    ]
    ended = cenote_command(
        "quantize",
        network,
        tmp_path / "x.npy",
        "-o",
        tmp_path / "q.onnx",
        *options,
        "--exclude",
        "c[12]",
        "--html",
        tmp_path / "page.html",
    )
    assert ended.code == 0, ended.err
    assert ended.out.startswith("layer")
    picture = (tmp_path / "page.html").read_text()
    assert picture.count("<rect") == picture.count("<tr>") - 1 > 3
    assert "in float32: c1\nin float32: c2\n" in ended.out
    assert "top-1 agreement with float: 1 before" in ended.out
    assert "layers on bytes (percentile)" in ended.out
    assert cenote.load(tmp_path / "q.onnx")(X).shape == (16, 5)


@pytest.mark.parametrize("command", ["quantize", "compress"])
def test_the_data_is_not_written_over(
    command: str, network: Path, tmp_path: Path, cenote_command: Command
) -> None:
    np.save(tmp_path / "x.npy", X)
    ended = cenote_command(command, network, tmp_path, "-o", tmp_path / "x.npy")
    assert ended.code == 1
    assert "is one of the inputs" in ended.err
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X)


def test_labels_and_json(network: Path, tmp_path: Path, cenote_command: Command) -> None:
    np.savez(tmp_path / "x.npz", X)
    classes = cenote.load(network)(X).argmax(axis=1)
    classes[:4] = (classes[:4] + 1) % 5
    (tmp_path / "labels.txt").write_text("\n".join(map(str, classes)))
    given = ("quantize", network, tmp_path / "x.npz", "-o", tmp_path / "q.onnx", "--json")
    ended = cenote_command(*given, "--labels", tmp_path / "labels.txt", "--max-drop", "1")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert (found["file"], found["metric"], found["before"]) == (str(network), "metric", 0.75)
    assert len(found["layers"]) == 8
    np.save(tmp_path / "few.npy", classes[:3])
    ended = cenote_command(*given, "--labels", tmp_path / "few.npy")
    assert ended.code == 2
    assert "(3,) classes for scores of (16, 5)" in " ".join(ended.err.replace("│", " ").split())


def test_a_folder_of_pictures(network: Path, tmp_path: Path, cenote_command: Command) -> None:
    folder = tmp_path / "pictures"
    (folder / "inner").mkdir(parents=True)
    for place in range(3):
        pixels = np.random.default_rng(place).integers(0, 256, (20, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / ("inner" if place else ".") / f"{place}.png")
    ended = cenote_command("quantize", network, folder, "-o", tmp_path / "q.onnx", "--size", "12", "--json")
    assert ended.code == 0, ended.err
    # Pixels are in 0..1: so is the input's range.
    constants = {
        each.name: onnx.numpy_helper.to_array(each)
        for each in onnx.load(tmp_path / "q.onnx").graph.initializer
    }
    assert constants["x.scale"] <= 1 / 255 + 1e-7
    assert constants["x.zero_point"] == 0


def test_several_inputs(tmp_path: Path, cenote_command: Command) -> None:
    nodes = [
        node("Conv", "a w", "c"),
        node("Conv", "b w", "d"),
        node("Add", "c d", "s"),
        node("Conv", "s w", "y"),
    ]
    shape = ["n", 4, 3, 3]
    onnx.save(model(nodes, {"a": shape, "b": shape}, "y", {"w": noise(4, 4, 1, 1)}), tmp_path / "two.onnx")
    folder = tmp_path / "data"
    folder.mkdir()
    for place in range(2):
        np.savez(folder / f"{place}.npz", a=noise(3, 4, 3, 3), b=noise(3, 4, 3, 3, scale=2))
    ended = cenote_command("quantize", tmp_path / "two.onnx", folder, "-o", tmp_path / "q.onnx", "--json")
    assert ended.code == 0, ended.err
    assert [layer["op"] for layer in json.loads(ended.out)["layers"]] == ["Conv", "Conv", "Add", "Conv"]


def test_refusals(network: Path, tmp_path: Path, cenote_command: Command) -> None:
    np.save(tmp_path / "x.npy", np.full_like(X, np.nan))
    out = ("-o", tmp_path / "q.onnx")
    ended = cenote_command("quantize", network, tmp_path / "x.npy", *out)
    assert ended.code == 1
    assert "'x' has 6912 numbers that are NaN or infinite" in ended.err
    (tmp_path / "empty").mkdir()
    ended = cenote_command("quantize", network, tmp_path / "empty", *out)
    assert ended.code == 1
    assert "there is no example" in ended.err
    assert cenote_command("quantize", network, tmp_path / "none.npy", *out).code == 1
    assert cenote_command("quantize", network, *out).code == 2


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "labels.npy"])
@pytest.mark.parametrize("content", ["junk", "objects", "empty"])
def test_arrays_that_are_none(
    content: str, name: str, network: Path, tmp_path: Path, cenote_command: Command
) -> None:
    """NumPy advises to unpickle such files, which would run what is in them."""
    path = tmp_path / name
    objects = np.array([{}, "text"], object)
    if content == "objects" and path.suffix == ".npz":
        np.savez(path, x=objects)
    elif content == "objects":
        np.save(path, objects, allow_pickle=True)
    else:
        path.write_bytes(b"" if content == "empty" else b"no array at all")
    np.save(tmp_path / "good.npy", X)
    data, options = (path, []) if name.startswith("x") else (tmp_path / "good.npy", ["--labels", str(path)])
    ended = cenote_command("quantize", network, data, "-o", tmp_path / "q.onnx", *options)
    assert ended.code != 0
    said = " ".join(ended.err.replace("│", " ").split())
    assert "of arrays of numbers" in said or "of an array of numbers" in said
    assert "pickle" not in said
