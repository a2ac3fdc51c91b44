"""Splitting a file into skeleton and weights loses nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from cenote.frontends.onnx_wire import SplitModel, split
from cenote.frontends.wire import BytesSource, FileSource
from tests.frontends.models import model


def big(*sizes: int) -> onnx.ModelProto:
    """A model with weights of these sizes in bytes."""
    weights = {f"w{i}": np.arange(size, dtype=np.uint8) for i, size in enumerate(sizes)}
    return model([helper.make_node("Relu", ["x"], ["y"])], weights=weights)


def joined(source: FileSource | BytesSource, parts: SplitModel) -> onnx.ModelProto:
    """The whole model again."""
    proto = onnx.ModelProto.FromString(parts.skeleton)
    for index, span in parts.weights.items():
        proto.graph.initializer[index].raw_data = source.array(span.offset, span.length).tobytes()
    return proto


@pytest.mark.parametrize("sizes", [(), (10,), (4096,), (5000, 3, 100_000), (3, 5_000_000, 4095, 4096, 1)])
def test_split_and_join(sizes: tuple[int, ...], tmp_path: Path) -> None:
    proto, path = big(*sizes), tmp_path / "model.onnx"
    content = proto.SerializeToString()
    path.write_bytes(content)
    with path.open("rb") as file:
        for source in (BytesSource(content), FileSource(file)):
            parts = split(source)
            assert list(parts.weights) == [i for i, size in enumerate(sizes) if size >= 4096]
            assert len(parts.skeleton) <= len(content) - sum(size for size in sizes if size >= 4096)
            assert joined(source, parts) == proto
            arrays = source.arrays([*parts.weights.values()])
            assert [array.size for array in arrays] == [size for size in sizes if size >= 4096]


def test_a_file_that_becomes_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(big(5000).SerializeToString())
    with path.open("r+b") as file:
        source = FileSource(file)
        (span,) = split(source).weights.values()
        file.truncate(1000)
        with pytest.raises(OSError, match="shorter"):
            source.array(span.offset, span.length)


def test_fields_after_the_graph_and_unknown_fields_are_kept() -> None:
    proto = big(5000)
    # 4 wire types.
    extra = b"\x9a\x3f\x03abc" + b"\x9d\x3f\0\0\0\0" + b"\x99\x3f" + b"\0" * 8 + b"\x98\x3f\x05"
    content = proto.SerializeToString() + extra
    source = BytesSource(content)
    parts = split(source)
    assert parts.weights
    assert (
        joined(source, parts).SerializeToString() == onnx.ModelProto.FromString(content).SerializeToString()
    )


def test_irregular_files_are_left_whole() -> None:
    good = big(5000).SerializeToString()
    twice = good + b"\x3a\x00"  # a second graph: protobuf merges the two
    for content in (twice, good[:-3], b"", b"\xff" * 40, good + b"\x0b", good + b"\x3a\x7f"):
        assert split(BytesSource(content)) == SplitModel(content, {})
    group = b"\x3b" + good  # the old group wire type
    assert split(BytesSource(group)) == SplitModel(group, {})


@settings(max_examples=200)
@given(st.data())
def test_mutated_files_split_or_are_left_whole(data: st.DataObject) -> None:
    content = bytearray(big(5000, 4, 6000).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    source = BytesSource(bytes(content))
    parts = split(source)
    try:
        whole = onnx.ModelProto.FromString(bytes(content))
    # The skeleton must not parse better than the file, but may: its weights are not looked at.
    except Exception:
        return
    assert joined(source, parts).SerializeToString() == whole.SerializeToString()
