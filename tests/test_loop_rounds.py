"""Loops and scans whose rounds native code runs by itself, against ONNX Runtime and NumPy."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import cenote
from cenote.core.errors import CenoteError
from cenote.core.types import Array
from cenote.runtime import rounds
from cenote.runtime.program import Program
from tests.loop_models import BOOL, FLOAT, GOES, GOING, INT64, ITER, body, both, model, node, tensor
from tests.runtime.long_runs import in_a_process

RNG = np.random.default_rng(9)
W = (RNG.standard_normal((8, 8)) / 4).astype(np.float32)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many rounds each run at once was to have at most; a body that is run by itself fails the test."""
    most: list[int] = []
    run = rounds.run_rounds

    def noted(program: Program, feedback: Any, given: Sequence[Array], count: int) -> Any:
        most.append(count)
        return run(program, feedback, given, count)

    monkeypatch.setattr("cenote.stages.stage.run_rounds", noted)
    monkeypatch.setattr(
        "cenote.stages.stage.CompiledBody.__call__", lambda *_: pytest.fail("a round by itself")
    )
    yield most
    assert most


def recurrent(**attributes: Any) -> onnx.ModelProto:
    """A recurrent layer as a Scan, which gives its states and their sums."""
    inner = body(
        [
            node("MatMul", ["v", "w"], ["m"]),
            node("Add", ["m", "u"], ["a"]),
            node("Tanh", ["a"], ["next"]),
            node("Identity", ["next"], ["all"]),
            node("ReduceSum", ["a"], ["sum"], keepdims=0),
        ],
        [tensor("v", FLOAT, [2, 8]), tensor("u", FLOAT, [2, 8])],
        [tensor("next", FLOAT, [2, 8]), tensor("all", FLOAT, [2, 8]), tensor("sum", FLOAT, [])],
    )
    scan = node(
        "Scan", ["first", "xs"], ["last", "states", "sums"], body=inner, num_scan_inputs=1, **attributes
    )
    return model(
        [scan],
        [tensor("first", FLOAT, [2, 8]), tensor("xs", FLOAT, None)],
        [tensor(name, FLOAT, None) for name in ("last", "states", "sums")],
        w=W,
    )


@pytest.mark.parametrize("length", [1, 2, 7])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scan_input_directions": [1]},
        {"scan_output_directions": [1, 0]},
        {"scan_input_directions": [1], "scan_output_directions": [1, 1], "scan_input_axes": [1]},
        {"scan_input_axes": [2], "scan_output_axes": [1, 0]},
    ],
    ids=str,
)
def test_scans(runs: list[int], attributes: dict[str, Any], length: int) -> None:
    shape = [2, 8]
    shape.insert(attributes.get("scan_input_axes", [0])[0], length)
    xs = RNG.standard_normal(shape).astype(np.float32)
    both(recurrent(**attributes), {"first": np.ones((2, 8), np.float32), "xs": xs})
    assert runs == [length]


def doubling(limit: float) -> onnx.ModelProto:
    """A value is doubled while it is small; its squares and the rounds' numbers are kept."""
    inner = body(
        [
            node("Add", ["v", "v"], ["next"]),
            node("Mul", ["v", "v"], ["square"]),
            node("Identity", ["i"], ["number"]),
            node("ReduceMax", ["next"], ["most"], keepdims=0),
            node("Less", ["most", "limit"], ["going"]),
        ],
        [ITER, GOES, tensor("v", FLOAT, [3])],
        [GOING, tensor("next", FLOAT, [3]), tensor("square", FLOAT, [3]), tensor("number", INT64, [])],
        limit=np.float32(limit),
    )
    loop = node("Loop", ["trips", "go", "x"], ["y", "squares", "numbers"], body=inner)
    inputs = [tensor("x", FLOAT, [3]), tensor("trips", INT64, []), tensor("go", BOOL, [])]
    outputs = [tensor("y", FLOAT, None), tensor("squares", FLOAT, None), tensor("numbers", INT64, None)]
    return model([loop], inputs, outputs)


@pytest.mark.parametrize("block", [16 << 20, 1])
@pytest.mark.parametrize("trips", [1, 2, 16, 17, 40, (1 << 63) - 1])
def test_a_condition_ends_rounds_that_are_kept_in_blocks(
    runs: list[int], trips: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "_BLOCK", block)  # the least that is kept at a time are 16 rounds
    for limit in (5.0, 2.0**16 + 1, 2.0**33):
        given = {"x": np.array([1, 0.5, -1], np.float32), "trips": np.array(trips), "go": np.array(True)}
        y = both(doubling(limit), given)
        assert y["numbers"].tolist() == list(range(len(y["squares"])))
    assert len(runs) == 3


def test_a_condition_that_does_not_hold_at_first() -> None:
    x = np.array([1, 0.5, -1], np.float32)
    y = cenote.load(doubling(5.0), threads=1).run({"x": x, "trips": np.array(3), "go": np.array(False)})
    assert np.array_equal(y["y"], x)
    assert y["squares"].shape == (0, 3)


def picking() -> onnx.ModelProto:
    """Rows of a matrix are added up, by the numbers that a list gives for each round."""
    inner = body(
        [
            node("Identity", ["go"], ["going"]),
            node("Gather", ["places", "i"], ["place"], axis=0),
            node("Gather", ["x", "place"], ["row"], axis=0),
            node("Add", ["v", "row"], ["next"]),
        ],
        [ITER, GOES, tensor("v", FLOAT, [4])],
        [GOING, tensor("next", FLOAT, [4])],
    )
    loop = node("Loop", ["trips", "", "zero"], ["y"], body=inner, name="loop")
    inputs = [tensor("x", FLOAT, [5, 4]), tensor("places", INT64, ["n"]), tensor("trips", INT64, [])]
    return model([loop], inputs, [tensor("y", FLOAT, None)], zero=np.zeros(4, np.float32))


def test_indices_are_looked_at_in_every_round(runs: list[int]) -> None:
    x = RNG.standard_normal((5, 4)).astype(np.float32)
    places = np.array([0, 4, -5, 2, 2, 1])
    loaded = cenote.load(picking(), threads=1)
    given = {"x": x, "places": places, "trips": np.array(6)}
    np.testing.assert_allclose(loaded.run(given)["y"], x[places].sum(0), rtol=1e-5)
    bad = np.array([0, 4, 5, 2, 2, 1])
    with pytest.raises(CenoteError, match=r"index 5 .* outside an axis of 5"):
        loaded.run({**given, "places": bad})
    with pytest.raises(CenoteError, match=r"index 6 .* outside an axis of 6"):
        loaded.run({**given, "trips": np.array(7)})
    np.testing.assert_allclose(loaded.run(given)["y"], x[places].sum(0), rtol=1e-5)
    assert len(runs) == 4


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_body_with_work_for_several_threads(runs: list[int], threads: int) -> None:
    inner = body(
        [
            node("Identity", ["go"], ["going"]),
            node("MatMul", ["v", "w"], ["m"]),
            node("Tanh", ["m"], ["next"]),
        ],
        [ITER, GOES, tensor("v", FLOAT, [256, 256])],
        [GOING, tensor("next", FLOAT, [256, 256])],
    )
    w = (RNG.standard_normal((256, 256)) / 16).astype(np.float32)
    loop = node("Loop", ["trips", "", "x"], ["y"], body=inner)
    ends = [tensor("x", FLOAT, [256, 256])], [tensor("y", FLOAT, None)]
    proto = model([loop], *ends, w=w, trips=np.int64(7))
    x = RNG.standard_normal((256, 256)).astype(np.float32)
    y, wanted = cenote.load(proto, threads=threads).run({"x": x})["y"], x
    for _ in range(7):
        wanted = np.tanh(wanted @ w)
    np.testing.assert_allclose(y, wanted, atol=1e-4)
    assert np.array_equal(y, cenote.load(proto, threads=1).run({"x": x})["y"])


def test_what_is_kept_may_be_empty() -> None:
    inner = body(
        [
            node("Identity", ["go"], ["going"]),
            node("Identity", ["v"], ["next"]),
            node("Identity", ["v"], ["all"]),
        ],
        [ITER, GOES, tensor("v", FLOAT, [0])],
        [GOING, tensor("next", FLOAT, [0]), tensor("all", FLOAT, [0])],
    )
    loop = node("Loop", ["trips", "", "x"], ["y", "ys"], body=inner)
    proto = model(
        [loop],
        [tensor("x", FLOAT, [0])],
        [tensor("y", FLOAT, None), tensor("ys", FLOAT, None)],
        trips=np.int64(5),
    )
    y = cenote.load(proto, threads=1).run({"x": np.zeros(0, np.float32)})
    assert [each.shape for each in y.values()] == [(0,), (5, 0)]


def test_the_callers_arrays_stay_as_they_are(runs: list[int]) -> None:
    x, loaded = np.array([1, 0.5, -1], np.float32), cenote.load(doubling(1e9), threads=1)
    given = {"x": x, "trips": np.array(5), "go": np.array(True)}
    first = loaded.run(given)
    kept = {name: y.copy() for name, y in first.items()}
    loaded.run({**given, "x": x + 1})
    assert np.array_equal(x, np.array([1, 0.5, -1], np.float32))
    assert all(np.array_equal(first[name], kept[name]) for name in kept)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("size", [8, 700])
def test_a_loop_without_end_is_interrupted(size: int) -> None:
    """Between short rounds, and within long ones (700: a product of 0.3 s on one thread)."""
    result = in_a_process(
        "import signal, sys\n"
        "import numpy as np\n"
        "import cenote\n"
        "from tests.loop_models import *\n"
        "size = int(sys.argv[1])\n"
        "shape = [size, size]\n"
        "inner = body(\n"
        "    [node('Identity', ['go'], ['going']), node('MatMul', ['v', 'w'], ['next'])],\n"
        "    [ITER, GOES, tensor('v', FLOAT, shape)], [GOING, tensor('next', FLOAT, shape)])\n"
        "loop = node('Loop', ['trips', '', 'x'], ['y'], body=inner)\n"
        "ends = [tensor('x', FLOAT, shape), tensor('trips', INT64, [])], [tensor('y', FLOAT, None)]\n"
        "w = np.eye(size, dtype=np.float32)\n"
        "loaded = cenote.load(model([loop], *ends, w=w), threads=2)\n"
        "x = np.ones(shape, np.float32)\n"
        "assert np.array_equal(loaded(x, np.array(2)), x)\n"
        "class Up(Exception): pass\n"
        "def up(*_): raise Up\n"
        "signal.signal(signal.SIGALRM, up)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.3)\n"
        "try:\n"
        "    loaded(x, np.array(1 << 62))\n"
        "    sys.exit('it ended')\n"
        "except Up:\n"
        "    pass\n"
        "assert np.array_equal(loaded(x, np.array(3)), x)\n",
        size,
    )
    assert (result.returncode, result.stderr) == (0, "")
