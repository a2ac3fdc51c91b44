"""Recurrent networks in models: text recognition as PyTorch exports it, ONNX's odd cases, any length, wrong lengths."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.core.errors import InputError
from cenote.core.target import Target
from cenote.ops.sequence.recurrent import GRU, LSTM, RNN
from cenote.ops.values import seeded
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS, target_name


def loaded(kind: str, inputs: dict[str, Any], shape: list[Any], threads: int = 0, **attributes: Any) -> Any:
    """A model of one layer: x is given, what else is in `inputs` is constant but for the lengths."""
    names = ["x", "w", "r", "bias", "lengths"]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    if "lengths" in inputs:
        given.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, shape[1:2]))
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "state")]
    node = helper.make_node(kind, [n if n in inputs else "" for n in names], ["y", "state"], **attributes)
    constants = [numpy_helper.from_array(a, n) for n, a in inputs.items() if n not in ("x", "lengths")]
    graph = helper.make_graph([node], "g", given, outputs, constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return cenote.load(proto, threads=threads or None)


def weights(gates: int, hidden: int, features: int, directions: int = 1) -> dict[str, Any]:
    size = gates * hidden
    return {
        "w": seeded((directions, size, features), 1) / np.float32(features**0.5),
        "r": seeded((directions, size, hidden), 2) / np.float32(hidden**0.5),
        "bias": seeded((directions, 2 * size), 3),
    }


KINDS = {"RNN": (RNN, 1), "GRU": (GRU, 3), "LSTM": (LSTM, 4)}


@pytest.mark.parametrize("kind", KINDS)
def test_symbolic_lengths_and_batches(kind: str) -> None:
    """One model for all sizes, native for each."""
    make, gates = KINDS[kind]
    given = weights(gates, 24, 10, 2)
    model = loaded(
        kind, {"x": None, **given}, ["steps", "batch", 10], hidden_size=24, direction="bidirectional"
    )
    for steps, batch in ((7, 1), (3, 5), (11, 4), (1, 2), (7, 9)):
        x = seeded((steps, batch, 10), 4)
        for got, want in zip(model(x), make("bidirectional").reference(x, *given.values()), strict=True):
            np.testing.assert_allclose(got, want, atol=2e-6)
    kinds = {step.kind for step in model.plan.describe().steps}
    assert "host" not in kinds


@pytest.mark.parametrize("target", TARGETS, ids=target_name)
@pytest.mark.parametrize("kind", [*KINDS, "GRU after"])
def test_the_parts_of_weights_that_go_together(kind: str, target: Target) -> None:
    """For all numbers of samples: constant weights as NumPy packs them, computed ones as the kernel does, whether the
    hidden size fills vectors or not."""
    make, gates = KINDS[kind.split()[0]]
    op = make(linear_before_reset=True) if kind == "GRU after" else make()
    for batch in (*range(1, 8), 9):
        given = (seeded((3, batch, 5), 4), *weights(gates, 32 if batch % 2 else 21, 5).values())
        want = op.reference(*given)
        for constants in (True, False):
            (lowering,) = lowerings_of(op, given, target, constants)
            got = run_lowering(op, lowering, given, target, constants=constants, junk=0x5A)
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_length_is_an_error(kind: str) -> None:
    make, gates = KINDS[kind]
    given = weights(gates, 5, 3)
    x, lengths = seeded((6, 3, 3), 4), np.array([6, 0, 2], np.int32)
    model = loaded(kind, {"x": x, **given, "lengths": lengths}, [6, 3, 3], hidden_size=5)
    wanted = make().reference(x, *given.values(), lengths)
    for got, want in zip(model(x, lengths), wanted, strict=True):
        np.testing.assert_allclose(got, want, atol=2e-6)
    for wrong in (7, -1):
        lengths[1] = wrong
        with pytest.raises(InputError, match=f"length of {wrong} is not within 0 to 6"):
            model(x, lengths)
    lengths[1] = 6
    model(x, lengths)  # and goes on


def test_clip_bounds_gates_and_not_the_cell() -> None:
    """By the equations, one unit and one step at a time: tanh of a cell beyond `clip` is that of the cell."""
    clip, hidden, given = 0.5, 5, weights(4, 5, 3)
    x = 2 * seeded((6, 2, 3), 4)
    model = loaded("LSTM", {"x": x, **given}, [6, 2, 3], hidden_size=hidden, clip=clip)
    w, r, bias = (given[name][0].astype(np.float64) for name in ("w", "r", "bias"))
    h, c, largest = np.zeros((2, hidden)), np.zeros((2, hidden)), 0.0
    wanted = np.empty((6, 1, 2, hidden))
    for step in range(6):
        gates = np.empty((2, 4 * hidden))
        for sample in range(2):
            for gate in range(4 * hidden):
                total = w[gate] @ x[step, sample] + r[gate] @ h[sample] + bias[gate] + bias[4 * hidden + gate]
                gates[sample, gate] = min(max(total, -clip), clip)
        i, o, f, fresh = np.split(gates, 4, axis=1)
        c = c / (1 + np.exp(-f)) + np.tanh(fresh) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        wanted[step, 0], largest = h, max(largest, np.abs(c).max())
    assert largest > clip
    np.testing.assert_allclose(model(x)[0], wanted, atol=2e-6)
    np.testing.assert_allclose(
        LSTM(clip=clip).reference(x, *(given[name] for name in ("w", "r", "bias")))[0], wanted, atol=2e-6
    )


def test_threads_give_the_same_bits() -> None:
    given = weights(4, 33, 10, 2)
    x = seeded((9, 6, 10), 4)
    node = helper.make_node("LSTM", ["x", *given], ["y"], hidden_size=33, direction="bidirectional")
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)], [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(a, n) for n, a in given.items()],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    one, two = (cenote.load(proto, threads=threads)(x) for threads in (1, 2))
    assert np.array_equal(one, two)


def test_a_text_recogniser_exported_by_pytorch() -> None:
    """Convolutions, then two bidirectional LSTMs over the columns, then letters: a CRNN, against PyTorch."""
    torch = pytest.importorskip("torch")

    class Recogniser(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.features = torch.nn.Sequential(
                torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
                torch.nn.MaxPool2d(2), torch.nn.Conv2d(16, 24, 3, padding=1), torch.nn.ReLU(),
                torch.nn.MaxPool2d((4, 2)),
            )  # fmt: skip
            self.memory = torch.nn.LSTM(24 * 2, 20, num_layers=2, bidirectional=True, batch_first=True)
            self.letters = torch.nn.Linear(40, 37)

        def forward(self, x: Any) -> Any:
            y = self.features(x)
            y = y.permute(0, 3, 1, 2).flatten(2)
            return self.letters(self.memory(y)[0]).log_softmax(-1)

    torch.manual_seed(0)
    network = Recogniser().eval()
    x = torch.from_numpy(seeded((2, 1, 16, 48), 7))
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, (x,), file, dynamo=False, opset_version=17)
        wanted = network(x).numpy()
    model = cenote.load(file.getvalue())
    np.testing.assert_allclose(model(x.numpy()), wanted, atol=2e-5)
    steps = [step for step in model.plan.describe().steps if "lstm" in step.op]
    assert len(steps) >= 2
    assert all(step.kind != "host" for step in steps)


@pytest.mark.parametrize("target", TARGETS, ids=target_name)
@pytest.mark.parametrize("kind", [*KINDS, "GRU after"])
def test_steps_that_threads_share(kind: str, target: Target) -> None:
    """The same bits as of one kernel that walks all steps: forwards and backwards, with states given and without, with
    lengths, in both orders of batch and steps, for constant weights and computed ones."""
    make, gates = KINDS[kind.split()[0]]
    for batch in range(1, 5):
        hidden = (184 if kind == "RNN" else 112) + (batch % 2) * 5
        options: dict[str, Any] = {"linear_before_reset": True} if kind == "GRU after" else {}
        options |= {"direction": "reverse"} if batch > 2 else {}
        options |= {"batch_first": True} if batch % 2 else {}
        op = make(outputs=3 if kind == "LSTM" else 2, **options)
        shape = (batch, 4, 6) if op.batch_first else (4, batch, 6)
        state = (batch, 1, hidden) if op.batch_first else (1, batch, hidden)
        given = [seeded(shape, 4), *weights(gates, hidden, 6).values()]
        if batch > 1:
            given += [np.array([3, 0, 4, 2], np.int32)[:batch], seeded(state, 5)]
        want = op.reference(*given)
        for constants in (True, False):
            offered = {each.name: each for each in lowerings_of(op, given, target, constants)}
            assert list(offered) == ["steps", "shared_steps"]
            alone, shared = (
                run_lowering(op, each, given, target, constants=constants, junk=0x5A)
                for each in offered.values()
            )
            for one, got, wanted in zip(alone, shared, want, strict=True):
                np.testing.assert_array_equal(one, got)
                np.testing.assert_allclose(got, wanted, atol=2e-6)


def test_threads_that_share_steps_give_the_same_bits() -> None:
    given, x = weights(4, 128, 10), seeded((30, 1, 10), 4)
    results = []
    for length, algorithm in ((30, "shared_steps"), ("length", "steps")):
        for threads in (1, 2, 3):
            model = loaded("LSTM", {"x": None, **given}, [length, 1, 10], threads, hidden_size=128)
            results.append(model(x))
            assert {step.algorithm for step in model.plan.describe().steps} == {algorithm}
    for result in results[1:]:
        for one, other in zip(results[0], result, strict=True):
            np.testing.assert_array_equal(one, other)
