"""Blocks of other sizes: kernels cut their work for caches of half or twice the size, and compute the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

import cenote
from cenote.codegen import jit
from cenote.compiler.compile import Compilation

SIZE = 56


def convolutions(seed: int = 0) -> bytes:
    """A 1x1 and a 3x3 convolution of 64 channels."""
    rng = np.random.default_rng(seed)
    weights = {
        "a": rng.standard_normal((64, 64, 1, 1), np.float32) / 8,
        "b": rng.standard_normal((64, 64, 3, 3), np.float32) / 24,
    }
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["h"]),
        helper.make_node("Conv", ["h", "b"], ["y"], pads=[1] * 4),
    ]
    ends = [helper.make_tensor_value_info(name, 1, (1, 64, SIZE, SIZE)) for name in "xy"]
    graph = helper.make_graph(
        nodes, "two", ends[:1], ends[1:], [numpy_helper.from_array(w, n) for n, w in weights.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


@pytest.mark.parametrize(("blocks", "scale"), [("usual", 1), ("smaller", 0.5), ("larger", 2)])
def test_choices_are_made_for_caches_of_another_size(blocks: str, scale: float) -> None:
    how = Compilation(cenote.LoadOptions(blocks=blocks, threads=3))  # type: ignore[arg-type]  # words of a table
    host = jit.host_target()
    sizes = {"l1_bytes": int(scale * host.l1_bytes), "l2_bytes": int(scale * host.l2_bytes)}
    assert how.target == replace(host, **sizes, threads=3)
    assert how.target.of_level() == host.of_level()  # so that code is the same, and kept once


def test_results_are_those_of_the_usual_blocks() -> None:
    x = np.random.default_rng(1).standard_normal((1, 64, SIZE, SIZE), np.float32)
    right = None
    for blocks in ("usual", "smaller", "larger"):
        model = cenote.load(convolutions(), blocks=blocks, threads=1, algorithms={"conv": "direct"})  # type: ignore[arg-type]
        y = model(x)
        right = y if right is None else right
        np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-4)


def test_a_plan_file_keeps_its_blocks(tmp_path: Path) -> None:
    model = cenote.load(convolutions(), blocks="smaller")
    x = np.ones((1, 64, SIZE, SIZE), np.float32)
    y = model(x)
    model.save(tmp_path / "two.cenote")
    assert np.array_equal(cenote.load(tmp_path / "two.cenote")(x), y)
    with pytest.raises(cenote.UnsupportedError, match=r"blocks='larger'.*'smaller'"):
        cenote.load(tmp_path / "two.cenote", blocks="larger")


def test_other_words_are_refused() -> None:
    with pytest.raises(cenote.ArgumentError, match=r"blocks: 'huge' is not known \(usual, smaller, larger\)"):
        cenote.LoadOptions(blocks="huge")  # type: ignore[arg-type]
