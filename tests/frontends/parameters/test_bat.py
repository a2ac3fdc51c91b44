"""Pairs of files with one value per line: read, written, and each trap of the format."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.core.types import Array
from cenote.frontends.formats import import_model
from cenote.graph.interpreter import evaluate
from tests.frontends.fuzzing import share

EXAMPLE = np.arange(48, dtype=np.float32).reshape(1, 3, 4, 4)
MEANS = EXAMPLE.reshape(1, 3, 2, 2, 2, 2).mean((3, 5))


def write(folder: Path, *layers: tuple[Sequence[object], Any]) -> Path:
    """A pair for each layer, numbered from 1; values None: no such file."""
    folder.mkdir(exist_ok=True)
    for number, (config, values) in enumerate(layers, 1):
        (folder / f"{number}_config.bat").write_text("".join(f"{row}\n" for row in config))
        if values is not None:
            rows = "".join(f"{value!r}\n" for value in np.asarray(values).reshape(-1).tolist())
            (folder / f"{number}_values.bat").write_text(rows)
    return folder


def pool(
    *window: int, padding: str = "VALID", strides: Sequence[int] = (2, 2), form: str = "NCHW"
) -> list[object]:
    return ["AVG_POOL", *window, padding, *strides, form]


def average(x: Array, window: Sequence[int], strides: Sequence[int], same: bool) -> Array:
    """Means of windows over (N, C, H, W), padding not counted; the end gets the extra."""
    axes = []
    for size, taps, step in zip(x.shape[2:], window, strides, strict=True):
        count = -(-size // step) if same else (size - taps) // step + 1
        begin = max((count - 1) * step + taps - size, 0) // 2 if same else 0
        axes.append([(max(i * step - begin, 0), min(i * step - begin + taps, size)) for i in range(count)])
    rows, columns = axes
    found = [[x[:, :, a:b, c:d].astype(np.float64).mean((2, 3)) for c, d in columns] for a, b in rows]
    return np.array(found).transpose(2, 3, 0, 1)


def test_the_example(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write(folder)
    (folder / "3_config.bat").write_text("AVG_POOL\n2\n2\nVALID\n2\n2\nNCHW\n")
    (folder / "3_values.bat").write_text("")
    np.testing.assert_array_equal(cenote.load(folder)(EXAMPLE), MEANS)


def test_channels_last_is_channels_last(tmp_path: Path) -> None:
    """The format line counts (f): the same file with NHWC takes and gives maps with their channels last."""
    model = cenote.load(write(tmp_path / "m", (pool(2, 2, form="NHWC"), [])))
    np.testing.assert_array_equal(model(EXAMPLE.transpose(0, 2, 3, 1)), MEANS.transpose(0, 2, 3, 1))
    assert model.inputs[0].shape == ("n", "h", "w", "c")


@settings(max_examples=30)
@given(channels=st.sampled_from([1, 3, 4, 8, 16, 17, 33, 64, 65]), batch=st.integers(1, 3))
def test_every_channel_is_written(
    tmp_path_factory: pytest.TempPathFactory, channels: int, batch: int
) -> None:
    """(a): an unrolled loop over channels left some out; batches other than 1 were refused."""
    x = np.random.default_rng(channels).standard_normal((batch, channels, 6, 4)).astype(np.float32)
    model = cenote.load(write(tmp_path_factory.mktemp("m"), (pool(2, 2), None)))
    np.testing.assert_allclose(model(x), average(x, (2, 2), (2, 2), False), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ["NHWC", "NCHW"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(
    ("window", "strides"), [((2, 2), (1, 1)), ((3, 3), (2, 2)), ((5, 2), (3, 1)), ((1, 4), (2, 3))]
)
def test_any_window_and_padding(tmp_path: Path, form: str, padding: str, window: Any, strides: Any) -> None:
    """(b, c, d, e): padding was never used, only 2x2 computed, SAME taken for 0, rows and columns mixed up."""
    x = np.random.default_rng(0).standard_normal((2, 5, 7, 10)).astype(np.float32)
    model = cenote.load(
        write(tmp_path / "m", (pool(*window, padding=padding, strides=strides, form=form), None))
    )
    wanted = average(x, window, strides, padding == "SAME")
    got = model(x) if form == "NCHW" else model(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_sizes_above_255(tmp_path: Path) -> None:
    """(h): strides and windows were kept in 8 bits."""
    x = np.random.default_rng(0).standard_normal((1, 1, 600, 600)).astype(np.float32)
    model = cenote.load(write(tmp_path / "m", (pool(257, 300, strides=(256, 300)), None)))
    np.testing.assert_allclose(model(x), average(x, (257, 300), (256, 300), False), atol=1e-5)


POOL, CONV, DENSE = pool(2, 2), ["CONV2D", 1, 1, 1, 1, "SAME", 1, 1, "NHWC"], ["DENSE", 2, 1]
BROKEN: dict[str, tuple[Sequence[object], Any, str]] = {
    "an unknown type": (["MAX_POOL", *POOL[1:]], None, r"1_config.bat, line 1: the type .* 'MAX_POOL'"),
    "a type within another word": (["xAVG_POOLx", *POOL[1:]], None, "line 1"),
    "lower case": (["dense", 2, 1], [1, 2], "line 1"),
    "an empty file": ([], None, "line 1"),
    "no number": (["AVG_POOL", "two", *POOL[2:]], None, r"line 2: size 1 of AVG_POOL .* 'two'"),
    "zero": (["AVG_POOL", 2, 0, *POOL[3:]], None, "line 3"),
    "a negative stride": (pool(2, 2, strides=(-1, 1)), None, "line 5: the row stride"),
    "a fraction": (["AVG_POOL", 2.5, *POOL[2:]], None, "line 2"),
    "another padding": (pool(2, 2, padding="FULL"), None, "line 4: the padding"),
    "another format": (pool(2, 2, form="NCWH"), None, "line 7: the format"),
    "an end too early": (POOL[:-1], None, "line 7: the file ends"),
    "a line too many": ([*POOL, "dense"], None, "line 8: 'dense' is too much"),
    "values of a pool": (POOL, [1.0], "has 1 values, AVG_POOL takes 0"),
    "no values": (CONV, None, "1_values.bat: there is no such file"),
    "too few values": (DENSE, [1.0], "has 1 values, DENSE takes 2 or 3"),
    "too many values": (DENSE, [1.0] * 4, "has 4 values, DENSE takes 2 or 3"),
    "sizes beyond any memory": (["DENSE", 10**9, 10**9], [1.0], "more than such files are read for"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_is_named(tmp_path: Path, case: str) -> None:
    """(g, i, j, m): files were not checked, unknown types left memory as it was, checks vanished in release builds."""
    config, values, message = BROKEN[case]
    with pytest.raises(cenote.ModelError) as caught:
        cenote.load(write(tmp_path / "m", (config, values)))
    assert re.search(message, str(caught.value)), str(caught.value)


def test_values_that_are_no_numbers(tmp_path: Path) -> None:
    write(tmp_path / "m", (DENSE, [1.0, 2.0]))
    (tmp_path / "m" / "1_values.bat").write_text("1.0\n2.0x\n")
    with pytest.raises(cenote.ModelError, match=r"1_values.bat, line 2: '2.0x' is no number"):
        cenote.load(tmp_path / "m")


def test_layers_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(
        cenote.ModelError, match=r"2_config.bat: CONV2D takes 1 channels, the layer before gives 2"
    ):
        cenote.load(write(tmp_path / "a", (["CONV2D", 2, *CONV[2:]], [1.0, 2.0]), (CONV, [1.0])))
    with pytest.raises(cenote.ModelError, match=r"AVG_POOL reads a map, the layer before gives a matrix"):
        cenote.load(write(tmp_path / "b", (DENSE, [1.0, 2.0]), (POOL, None)))
    with pytest.raises(cenote.MissingFileError, match="holds no model"):
        cenote.load(write(tmp_path / "c"))
    model = cenote.load(write(tmp_path / "d", (POOL, None)))
    with pytest.raises(cenote.CenoteError):  # a window that does not fit never reads past the end
        model(np.zeros((1, 1, 1, 4), np.float32))
    with pytest.raises(cenote.InputError):
        model(np.zeros((1, 4, 4), np.float32))


def chain(path: Path, last: bool) -> Path:
    """Conv, pool, linear layer, as an exporter of a network with channels first or last writes them."""
    generator = np.random.default_rng(3)
    constants = {
        "w": generator.standard_normal((6, 3, 3, 3)).astype(np.float32),
        "b": generator.standard_normal(6).astype(np.float32),
        "d": generator.standard_normal((6 * 4 * 5, 7)).astype(np.float32),
        "e": generator.standard_normal(7).astype(np.float32),
    }
    nodes = [helper.make_node("Transpose", ["x"], ["first"], "in", perm=[0, 3, 1, 2])] if last else []
    nodes += [
        helper.make_node(
            "Conv", ["first" if last else "x", "w", "b"], ["c"], "anything", auto_pad="SAME_UPPER"
        ),
        helper.make_node(
            "AveragePool", ["c"], ["p"], "at all", kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER"
        ),
    ]
    nodes += [helper.make_node("Transpose", ["p"], ["last"], "out", perm=[0, 2, 3, 1])] if last else []
    nodes += [
        helper.make_node("Flatten", ["last" if last else "p"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "d"], ["m"], "linear"),
        helper.make_node("Add", ["m", "e"], ["y"], "bias"),
    ]
    shape = [1, 7, 9, 3] if last else [1, 3, 7, 9]
    graph = helper.make_graph(
        nodes, "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("last", [False, True])
def test_written_and_read_again(tmp_path: Path, last: bool) -> None:
    """(l): nodes are found by what they are, not by a name that is known beforehand."""
    path = chain(tmp_path / "chain.onnx", last)
    first = cenote.extract(path, tmp_path / "pairs", values="bat")
    assert first.read_text().split() == ["CONV2D", *"6333", "SAME", "1", "1", "NHWC" if last else "NCHW"]
    assert (tmp_path / "pairs" / "2_config.bat").read_text().split()[0] == "AVG_POOL"
    assert (tmp_path / "pairs" / "2_values.bat").read_text() == ""
    assert (tmp_path / "pairs" / "3_config.bat").read_text().split() == ["DENSE", "120", "7"]
    model = cenote.load(path)
    x = np.random.default_rng(4).standard_normal(model.inputs[0].shape).astype(np.float32)
    np.testing.assert_allclose(cenote.load(tmp_path / "pairs")(x), model(x), rtol=1e-5, atol=1e-5)
    again = tmp_path / "again"
    cenote.extract(tmp_path / "pairs", again, values="bat")
    for file in (tmp_path / "pairs").iterdir():
        assert (again / file.name).read_text() == file.read_text()


@pytest.mark.parametrize(
    "attributes", [{"pads": [1, 0, 0, 1]}, {"dilations": [2, 2]}, {"auto_pad": "SAME_LOWER"}]
)
def test_what_the_files_cannot_say(tmp_path: Path, attributes: dict[str, Any]) -> None:
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "layer", **attributes)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones((1, 1, 2, 2), np.float32), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(cenote.UnsupportedError, match="layer"):
        cenote.extract(model, tmp_path, values="bat")


WORDS = st.sampled_from(
    ["", "0", "1", "2", "3", "-1", "7", "1e3", "nan", "inf", "1.5", "255", "256", "1" * 19, "CONV2D",
     "AVG_POOL", "DENSE", "SAME", "VALID", "NHWC", "NCHW", "é", "\x00", " ", "../x"]
)  # fmt: skip
FILES = {
    "1_config.bat": ["CONV2D", "2", "1", "2", "2", "SAME", "1", "1", "NCHW"],
    "1_values.bat": [str(number / 8) for number in range(10)],
    "2_config.bat": ["AVG_POOL", "2", "2", "VALID", "2", "2", "NCHW"],
    "3_config.bat": ["DENSE", "8", "3"],
    "3_values.bat": [str(number / 8) for number in range(24)],
}


@share(1)
@given(data=st.data())
def test_changed_lines_load_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Lines that say something else, go or come twice; files that go or hold any bytes. What loads is computed."""
    folder = tmp_path_factory.getbasetemp() / "changed_pairs"
    folder.mkdir(exist_ok=True)
    files = {name: list(lines) for name, lines in FILES.items()}
    for _ in range(data.draw(st.integers(1, 3))):
        lines = files[data.draw(st.sampled_from(sorted(files)))]
        at, kind = (
            data.draw(st.integers(0, len(lines))),
            data.draw(st.sampled_from(["word", "drop", "double"])),
        )
        if kind == "word":
            lines[at : at + 1] = [data.draw(WORDS)]
        else:
            lines[at : at + 1] = lines[at : at + 1] * 2 if kind == "double" else []
    contents = {name: "".join(f"{line}\n" for line in lines).encode() for name, lines in files.items()}
    if data.draw(st.integers(0, 9)) == 0:
        contents[data.draw(st.sampled_from(sorted(files)))] = data.draw(st.binary(max_size=40))
    missing = data.draw(st.sampled_from([*sorted(files), *[""] * 20]))
    for name, content in contents.items():
        (folder / name).unlink(missing_ok=True)
        if name != missing:
            (folder / name).write_bytes(content)
    with contextlib.suppress(cenote.CenoteError):
        graph = import_model(folder).graph
        shape = [4 if isinstance(extent, str) else extent for extent in graph.inputs[0].shape or ()]
        if np.prod(shape, dtype=float) < 10_000:
            evaluate(graph, {"input": np.ones(shape, np.float32)})
