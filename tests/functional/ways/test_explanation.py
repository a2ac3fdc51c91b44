"""`explain` of every function: the algorithm that it names is taken by `algorithm=`, with the same bits, and so are the
rivals' within the tolerance of another order of sums."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, CenoteError
from tests.functional.inputs import noise
from tests.fuzz.call_samples import Call, samples

NONE = {"explain", "Traced", "fused", "pool_output_shape", "kernel", "kernel_function"}
"""Names of what does not compute, or has functions of the user's own."""


def pools() -> dict[str, Call]:
    """A call of every pool and gradient."""
    maps = {1: noise(2, 4, 24), 2: noise(2, 4, 12, 14), 3: noise(1, 2, 6, 8, 10)}
    x, boxes = maps[2], np.array([[0, 1, 1, 8, 9], [1, 0, 2, 6, 10]], np.float32)
    calls: dict[str, Call] = {}
    for rank, y in maps.items():
        for kind in ("max", "avg"):
            calls[f"{kind}_pool{rank}d"] = (y, 3, 2, 1), {}
            calls[f"adaptive_{kind}_pool{rank}d"] = (y, 3), {}
        calls[f"lp_pool{rank}d"] = (y, 2.0, 3, 2), {}
        values, places = getattr(F, f"max_pool{rank}d")(y, 2, return_indices=True)
        calls[f"max_unpool{rank}d"] = (values, places, 2), {}
        if rank > 1:
            calls[f"fractional_max_pool{rank}d"] = (y, 2, 3), {"_random_samples": np.full((len(y), y.shape[1], rank), 0.5, np.float32)}  # fmt: skip # noqa: E501
    for name in ("min_pool", "soft_pool", "median_pool", "blur_pool"):
        calls[name] = (x, 3), {}
    for name in (
        "global_avg_pool",
        "global_max_pool",
        "global_lp_pool",
        "stochastic_pool",
        "dilation",
        "erosion",
    ):
        calls[name] = (x, 3) if name in ("stochastic_pool", "dilation", "erosion") else (x,), {}
    calls["stochastic_pool"][1]["seed"] = 1
    calls["gem_pool"] = (abs(x), 3), {}
    calls["spatial_pyramid_pool"] = (x, (1, 2)), {}
    calls["roi_pool"] = calls["roi_align"] = (x, boxes, (2, 2)), {}
    calls["ps_roi_pool"] = (x, boxes, (2, 2)), {}
    return calls


def gradient(name: str, forward: Call) -> Call | None:
    """The call of a pool's gradient."""
    function = getattr(F, f"{name}_backward", None)
    if function is None:
        return None
    arguments, keywords = forward
    if name.startswith("max_unpool"):
        y = getattr(F, name)(*arguments)
        return (y, *arguments), {}
    if name.startswith("fractional"):
        y, places = getattr(F, name)(*arguments, **keywords, return_indices=True)
        return (np.ones_like(y), arguments[0], places), {}
    y = getattr(F, name)(*arguments, **keywords)
    return (np.ones_like(y), *arguments), keywords


CALLS: dict[str, Call] = {**samples(np.random.default_rng(0), np.dtype(np.float32)), **pools()}
CALLS = {name: each for name, each in CALLS.items() if name not in NONE}
CALLS |= {f"{name}_backward": call for name, each in pools().items() if (call := gradient(name, each))}


def test_every_function_is_called_here() -> None:
    assert set(F.__all__) - NONE == set(CALLS)


def results(y: Any) -> list[Any]:
    return list(y) if isinstance(y, tuple | list) else [y]


@pytest.mark.parametrize("name", sorted(CALLS))
def test_what_is_explained_can_be_asked_for(name: str) -> None:
    function, (arguments, keywords) = getattr(F, name), CALLS[name]

    def run(**more: Any) -> list[Any]:
        return results(function(*copy.deepcopy(arguments), **copy.deepcopy(keywords), **more))

    found = F.explain(name, *copy.deepcopy(arguments), **copy.deepcopy(keywords))
    assert found.function == name
    assert str(found).startswith(name)
    assert F.explain(function, *arguments, **keywords) == found
    if found.kind == "functions":
        assert "algorithm" not in inspect.signature(function).parameters or name.endswith("_backward")
        return
    plain = run()
    for y, again in zip(plain, run(algorithm=found.algorithm), strict=True):
        assert y.dtype == again.dtype
        assert y.tobytes() == again.tobytes(), "the same bits"
    again = F.explain(name, *arguments, **keywords, algorithm=found.algorithm)
    assert (again.algorithm, again.reason) == (found.algorithm, "named by the caller")
    for other in (*(rival for rival, _ in found.rivals), "reference"):
        for y, another in zip(plain, run(algorithm=other), strict=True):
            assert y.shape == another.shape
            scale = np.abs(np.nan_to_num(y.astype(np.float64))).max(initial=1e-3)
            np.testing.assert_allclose(
                another.astype(np.float64), y.astype(np.float64), rtol=0, atol=1e-4 * scale, equal_nan=True
            )
    with pytest.raises(
        CenoteError, match=rf"^{name}: algorithm: .*no algorithm 'nonsense'; possible: .*reference"
    ):
        run(algorithm="nonsense")


def test_what_is_no_function_is_not_explained() -> None:
    with pytest.raises(ArgumentError, match=r"explain: 'max_pool2' is no function.*close to it: max_pool2d"):
        F.explain("max_pool2", noise(1, 1, 4, 4), 2)
    with pytest.raises(ArgumentError, match="is no function"):
        F.explain(np.sin, noise(3))
    with pytest.raises(ArgumentError, match=r"^max_pool2d: .*stride"):
        F.explain("max_pool2d", noise(1, 1, 4, 4), 2, stride=0)


def test_an_algorithm_that_does_not_serve_is_refused_with_what_it_is_for() -> None:
    x = noise(1, 4, 12, 12)
    with pytest.raises(
        ArgumentError, match=r"max_pool2d: algorithm: .*'window_3x3x3' does not serve.*volumes"
    ):
        F.max_pool2d(x, 3, algorithm="window_3x3x3")
    for wrong in (3, ("separable",), b"separable"):
        with pytest.raises(ArgumentError, match=r"max_pool2d: algorithm: .* is no name"):
            F.max_pool2d(x, 3, algorithm=wrong)


def test_known_calls_tell_algorithms_apart() -> None:
    """Native code runs a call from the third on: with the algorithm that it was prepared for."""
    x = noise(1, 4, 40, 40)
    for name in ("separable", "generic", "reference", "separable"):
        for _ in range(4):
            assert np.array_equal(F.max_pool2d(x, 3, algorithm=name), F.max_pool2d(x, 3))
        assert F.explain(F.max_pool2d, x, 3, algorithm=name).algorithm == name


def test_names_are_checked_where_there_is_nothing_to_compute() -> None:
    x = noise(2, 4, 12, 12)
    for name in ("small_window", "generic", "window_3x3x3", "reference", "program"):
        assert F.max_pool2d(x[:0], 3, algorithm=name).shape == (0, 4, 4, 4)
    w = noise(2, 4, 3, 3)
    assert F.conv2d(x[:0], w, algorithm="direct").shape == (0, 2, 10, 10)
    for name, arguments in (
        ("max_pool2d", (x[:0], 3)),
        ("conv2d", (x[:0], w)),
        ("relu", (x[:, :0],)),
        ("sum", (x[:0], 1)),
    ):
        for wrong in ("nonsense", "shop.nonsense"):
            with pytest.raises(
                ArgumentError, match=rf"^{name}: algorithm: .*{wrong}.*; possible: .*reference"
            ):
                getattr(F, name)(*arguments, algorithm=wrong)


def test_memory_and_threads_are_told() -> None:
    x = noise(2, 8, 64, 64)
    assert (
        F.explain("max_pool2d", np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, 3)), 3, 1), 3).layout
        == "channels last"
    )
    assert F.explain("max_pool2d", x[:, :, ::2], 3).layout == "copied"
    assert F.explain("max_pool2d", x, 3, threads=1).threads == 1
    assert F.explain("max_pool2d", x[:0], 3).reason == "for there is nothing to compute"
