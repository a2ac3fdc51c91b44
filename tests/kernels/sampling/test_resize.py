"""Resize's kernels against the reference: all modes, any sizes and numbers of channels, plain and blocked, on outputs
full of junk, whole and in pieces; and which of them a model takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote import functional
from cenote.core.types import TensorType
from cenote.ops.movement.resize import MODES, Resize
from cenote.ops.movement.resize_taps import COORDINATES, NEAREST
from cenote.ops.values import seeded
from cenote.verification.contract.comparison import check_sample
from tests.harness import cast, lowerings_of
from tests.targets import TARGETS

DTYPES = (np.float32, np.float32, np.float64, np.float16, np.uint8)


@st.composite
def resizes(draw: Any) -> tuple[Resize, np.ndarray[Any, Any]]:
    mode, extent = draw(st.sampled_from(MODES)), st.integers(1, 37)
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 20)), draw(extent), draw(extent))
    where = draw(st.sampled_from([each for each in COORDINATES if each != "tf_crop_and_resize"]))
    given: dict[str, Any] = {"axes": (2, 3), "by_step": draw(st.booleans())}
    if draw(st.booleans()):
        given["sizes"] = (draw(st.integers(1, 70)), draw(st.integers(1, 70)))
    else:
        scale = st.sampled_from((1.0, 2.0, 3.0, 4.0, 8.0, 0.5, 1.25, 1.7))
        given["scales"] = (draw(scale), draw(scale))
        given["sizes"] = tuple(
            max(1, int(had * by)) for had, by in zip(shape[2:], given["scales"], strict=True)
        )
    if mode != "nearest":
        given["exclude_outside"] = draw(st.booleans())
        given["antialias"] = draw(st.booleans())
    dtype = draw(st.sampled_from(DTYPES)) if mode == "nearest" else draw(st.sampled_from(DTYPES[:4]))
    op = Resize(mode, where, draw(st.sampled_from(NEAREST)), **given)
    x = seeded(shape, draw(st.integers(0, 9)), np.dtype(dtype))
    # Weights add up to one: around 4 the mean of few elements cannot cancel to a result that is all rounding.
    return op, x if np.issubdtype(dtype, np.integer) else x + np.dtype(dtype).type(4)


@settings(max_examples=40)
@given(resizes(), st.sampled_from(TARGETS))
def test_any_resize(case: tuple[Resize, np.ndarray[Any, Any]], target: Any) -> None:
    op, x = case
    check_sample(op, (x,), target, True, halos=target is TARGETS[0])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("columns", [1, 15, 16, 17, 31, 33])
def test_rows_about_as_long_as_vectors(mode: str, columns: int) -> None:
    """A last vector that is full, or nearly, or holds one column."""
    for target in TARGETS:
        for scales in ((2.0, 2.0), (1.0, 1.0), (3.0, 1.0), (1.0, 2.0), (0.5, 1.5)):
            sizes = tuple(max(1, int(had * by)) for had, by in zip((3, columns), scales, strict=True))
            x = seeded((1, 2, 3, columns))
            check_sample(
                Resize(mode, sizes=sizes, axes=(2, 3)), (x,), target, True, halos=target is TARGETS[0]
            )


def test_rows_that_run_backwards() -> None:
    """A region of interest whose end is before its start: the rows kept from the row before are above."""
    for mode in MODES:
        op = Resize(
            mode, "tf_crop_and_resize", scales=(1.0, 1.0, 2.0, 2.0), sizes=(1, 2, 18, 18),
            roi=(0.0, 0.0, 1.0, 0.9, 1.0, 1.0, 0.0, 0.1),
        )  # fmt: skip
        check_sample(op, (seeded((1, 2, 9, 9)),), TARGETS[0], True, halos=True)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("shape", [(1, 3, 200, 150), (1, 1, 31, 260), (2, 1, 19, 20, 150)])
def test_filters_that_reach_far(mode: str, shape: tuple[int, ...]) -> None:
    """Antialiased pictures that shrink a lot: up to 128 taps an axis are a kernel's."""
    op = Resize(mode, sizes=(*shape[:-2], 9, 11), antialias=True, exclude_outside=True)
    x = seeded(shape)
    for target in TARGETS:
        assert lowerings_of(op, (x,), target, True)
        check_sample(op, (x,), target, True, halos=target is TARGETS[0])


def test_axes_beyond_32_bits_are_left_to_the_host() -> None:
    """Tables of columns have 32 bits."""
    for extent, native in (((1 << 31) - 1, True), (1 << 31, False)):
        x = TensorType.of(np.uint8, (extent,))
        assert bool(list(Resize("nearest", sizes=(5,)).lowerings((x,), TARGETS[0]))) == native


def test_whole_factors_of_a_long_axis() -> None:
    """Places that float32 does not tell from ties: what is repeated is what the table says."""
    x = seeded((1, 1, 1, 1 << 18))
    check_sample(
        Resize("nearest", "half_pixel", scales=(1.0, 1.0, 1.0, 2.0)), (x,), TARGETS[0], True, halos=True
    )


# ---- what models take -----------------------------------------------------------------------------------------------


def model_of(
    shape: list[int | str], scale: float, mode: str, around: int = 0, precision: cenote.Precision = "fast"
) -> cenote.Model:
    """Resize of an input, or between two convolutions of so many filters."""
    nodes, constants = [], {"scales": np.array([1, 1, scale, scale], np.float32)}
    value = "x"
    if around:
        constants["w0"] = np.ones((around, shape[1], 3, 3), np.float32)  # type: ignore[arg-type]
        nodes.append(helper.make_node("Conv", [value, "w0"], ["before"], pads=[1] * 4))
        value = "before"
    where = "asymmetric" if mode == "nearest" else "half_pixel"
    nodes.append(
        helper.make_node(
            "Resize", [value, "", "scales"], ["resized" if around else "y"], mode=mode,
            coordinate_transformation_mode=where, nearest_mode="floor",
        )
    )  # fmt: skip
    if around:
        constants["w1"] = np.ones((around, around, 3, 3), np.float32)
        nodes.append(helper.make_node("Conv", ["resized", "w1"], ["y"], pads=[1] * 4))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "resized", [info("x", TensorProto.FLOAT, shape)], [info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return cenote.load(made, precision=precision)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("channels", [1, 3, 64])
def test_pictures_are_resized_as_they_lie(mode: str, channels: int) -> None:
    """One step: changes of layout took up to 50 times as long as the resizing."""
    plan = str(model_of([1, channels, 64, 64], 2.0, mode).plan)
    assert "1 steps" in plan, plan
    assert ("ResizeNearestSpec" if mode == "nearest" else "ResizeRowsSpec") in plan, plan


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_maps_between_convolutions_stay_blocked(mode: str) -> None:
    # Otherwise repeated maps are never made (`passes/products/repeated_maps.py`).
    plan = str(model_of([1, 32, 40, 40], 2.0, mode, around=64, precision="exact").plan)
    name = "ResizeNearestSpec" if mode == "nearest" else "ResizeSpec"
    (kernel,) = (line for line in plan.splitlines() if name in line)
    assert f"lanes_{TARGETS[0].lanes()}" in kernel, plan


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scale", [2.0, 1.5, 0.4])
def test_one_plan_for_all_sizes(mode: str, scale: float) -> None:
    """Tables and scratch memory follow the sizes, and the bits are those of a plan for the size itself."""
    model = model_of(["n", 3, "h", "w"], scale, mode)
    for shape in ((2, 3, 40, 52), (2, 3, 61, 45), (3, 3, 83, 90)):
        x = seeded(shape)
        y = model(x)
        assert y.tobytes() == model_of(list(shape), scale, mode)(x).tobytes()
    assert "1 class" in repr(model), repr(model)


@pytest.mark.parametrize("mode", MODES)
def test_threads_change_no_bit(mode: str) -> None:
    x = seeded((1, 3, 301, 207))
    for scale in (2.0, 0.7):
        first, *others = (
            cenote.functional.interpolate(
                x, None, scale, {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode), threads=threads
            )
            for threads in (1, 2, 5)
        )
        assert all(other.tobytes() == first.tobytes() for other in others)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_nearest_into_memory_that_begins_anywhere(dtype: Any) -> None:
    """Stores begin at whole vectors of memory, wherever a row begins, and none leaves it."""
    size = np.dtype(dtype).itemsize
    for width, scale in ((1, 2), (5, 3), (16, 2), (33, 2), (40, 4)):
        x = cast(seeded((1, 2, 3, width), 5) * 50, dtype)
        wanted = x.repeat(scale, 2).repeat(scale, 3)
        for begin in range(0, 64 + size, 4 if size > 4 else size):
            memory = np.full(wanted.nbytes + 256, 0xAB, np.uint8)
            start = -memory.ctypes.data % 64 + 64 + begin // size * size
            out = memory[start : start + wanted.nbytes].view(dtype).reshape(wanted.shape)
            functional.interpolate(x, scale_factor=float(scale), out=out, threads=1)
            assert np.array_equal(out, wanted)
            assert (memory[:start] == 0xAB).all()
            assert (memory[start + wanted.nbytes :] == 0xAB).all()
