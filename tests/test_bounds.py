"""Bounds that are said at load: memory for the largest sizes, taken once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cenote
from cenote.core.types import Array
from cenote.runtime.memory import address_of
from tests.onnx_texts import parsed

NETWORK = """g (float[N,3,H,W] x) => (float[N,8,A,B] y) {
    a = Conv<pads = [1, 1, 1, 1]>(x, w)  b = Relu(a)  c = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(b)
    d = Conv<pads = [1, 1, 1, 1]>(c, v)  e = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(d)
    y = Add(d, e) }"""


def model_of() -> onnx.ModelProto:
    model = parsed(NETWORK)
    rng = np.random.default_rng(0)
    for name, shape in {"w": (8, 3, 3, 3), "v": (8, 8, 3, 3)}.items():
        weights = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    return model


def noise(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def arena_of(model: cenote.Model) -> Array:
    (place,) = model._shared.workplaces._free
    return place.arena.array


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch", ["n<=4", "n"])
def test_memory_is_taken_once(threads: int, batch: str) -> None:
    source = model_of()
    model = cenote.load(source, threads=threads, shapes={"x": (batch, 3, "h<=160", "w<=96")})
    free = cenote.load(source, threads=threads)
    before = arena_of(model)
    address, nbytes = address_of(before), before.nbytes
    assert nbytes > 0
    rng = np.random.default_rng(1)
    most = 4 if batch == "n<=4" else 1
    sizes = [(int(rng.integers(1, most + 1)), *map(int, rng.integers(3, (161, 97)))) for _ in range(25)]
    for n, h, w in [*sizes, (most, 160, 96), (1, 3, 3)]:
        x = noise(n, 3, h, w)
        np.testing.assert_array_equal(model(x), free(x))
        arena = arena_of(model)
        assert (address_of(arena), arena.nbytes) == (address, nbytes), (n, h, w)


def test_runs_at_once_have_memory_for_the_largest_each() -> None:
    model = cenote.load(model_of(), threads=1, shapes={"x": (2, 3, "h<=64", "w<=64")})
    places = model._shared.workplaces
    small = model.plan_for({"x": (2, 3, 8, 8)}).program
    first, second = places.take(small), places.take(small)
    assert first.arena.array.nbytes == second.arena.array.nbytes > small.arena_bytes


def test_what_is_beyond_a_bound_is_refused() -> None:
    model = cenote.load(model_of(), threads=1, shapes={"x": (None, 3, "h<=160", "w<=96")})
    with pytest.raises(cenote.ShapeError, match="input 'x': axis 3 is 97, and at most 96 was said"):
        model(noise(1, 3, 8, 97))
    with pytest.raises(cenote.ShapeError, match="axis 2 is 161, and at most 160"):
        model.plan_for({"x": (1, 3, 161, 8)})
    model(noise(1, 3, 160, 96))


def test_sizes_can_be_fixed() -> None:
    model = cenote.load(model_of(), threads=1, shapes={"x": (2, 3, 16, 24)})
    assert model.inputs[0].shape == (2, 3, 16, 24)
    assert model.plan, "compiled at load, as a model with fixed shapes is"
    with pytest.raises(cenote.InputError, match="the model takes"):
        model(noise(1, 3, 16, 24))


def test_bounds_of_a_name_hold_for_all_dimensions_of_that_name() -> None:
    source = parsed("g (float[N,4] a, float[N,4] b) => (float[N,4] c) { c = Add(a, b) }")
    model = cenote.load(source, threads=1, shapes={"a": ("rows<=8", 4)})
    with pytest.raises(cenote.ShapeError, match="input 'b': axis 0 is 9"):
        model(noise(1, 4), noise(9, 4))
    with pytest.raises(cenote.ArgumentError, match="at most 7, and at most 8"):
        cenote.load(source, threads=1, shapes={"a": ("N<=8", 4), "b": ("N<=7", 4)})


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"x": ("n", 3, "h=<640", "w")}, "input 'x', axis 2: 'h=<640' is no dimension"),
        ({"x": ("n", 3, "h<=-1", "w")}, "axis 2: 'h<=-1' is no dimension"),
        ({"x": ("n", 3, "h<640", "w")}, "axis 2: 'h<640' is no dimension"),
        ({"x": ("n", 3, "", "w")}, "axis 2: '' is no dimension"),
        ({"x": ("n", 3, "640", "w")}, "axis 2: '640' is no dimension"),
        ({"x": ("n", 3, "h<=0", "w")}, "axis 2: 'h<=0' is no dimension"),
        ({"x": ("n", 3, 2.5, "w")}, "axis 2: 2.5 is no dimension"),
        ({"x": ("n", 3, True, "w")}, "axis 2: True is no dimension"),
        ({"x": ("n", 3, -4, "w")}, "axis 2: -4 is no dimension"),
        ({"x": ("n", 4, "h", "w")}, "axis 1: 4, but the model's size there is 3"),
        ({"x": ("n", "c<=2", "h", "w")}, "axis 1: 'c<=2', but the model's size there is 3"),
        ({"x": ("n", 3, "h")}, "has 3 axes, the model takes x"),
        ({"x": "n,3,h,w"}, "'n,3,h,w' is no shape"),
        ({"x": 5}, "5 is no shape"),
        ({"y": (1, 2)}, "'y' is no input of the model"),
        ([("x", (1, 2))], "is no dict of shapes"),
    ],
)
def test_bad_shapes_are_named(shapes: Any, words: str, tmp_path: Path) -> None:
    source = model_of()
    onnx.save(source, tmp_path / "model.onnx")
    for given in (source, tmp_path / "model.onnx"):
        with pytest.raises(cenote.ArgumentError) as caught:
            cenote.load(given, threads=1, shapes=shapes)
        assert words in str(caught.value)


def test_plans_out_of_the_cache_and_of_files_take_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    path, shapes = tmp_path / "model.onnx", {"x": ("n<=2", 3, "h<=64", "w<=64")}
    onnx.save(model_of(), path)
    first = cenote.load(path, threads=1, shapes=shapes)
    first.save(tmp_path / "model.cenote")
    monkeypatch.setattr("cenote.stages.sized._compiled", None)
    for place in (path, tmp_path / "model.cenote"):
        model = cenote.load(place, threads=1, shapes=shapes)
        assert arena_of(model).nbytes == arena_of(first).nbytes
        with pytest.raises(cenote.ShapeError):
            model(noise(3, 3, 8, 8))
        other = cenote.load(place, threads=1, shapes={"x": (None, 3, "<=32", None)})
        with pytest.raises(cenote.ShapeError):
            other(noise(2, 3, 33, 8))
