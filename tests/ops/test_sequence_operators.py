"""Recurrent layers and attention against PyTorch, and what ONNX says beyond it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cenote.core.errors import ArgumentError, UnsupportedError
from cenote.core.types import Array
from cenote.ops.base import Imported, Op
from cenote.ops.sequence.attention import Attention
from cenote.ops.sequence.recurrent import GRU, LSTM, RNN
from cenote.ops.table import DECODERS
from cenote.ops.values import seeded


def sequences(gates: int, directions: int) -> dict[str, Array]:
    shapes = {"x": (6, 3, 4), "w": (directions, gates * 5, 4), "r": (directions, gates * 5, 5)}
    shapes |= {"bias": (directions, 2 * gates * 5), "first": (directions, 3, 5), "cell": (directions, 3, 5)}
    return {name: seeded(shape, seed, np.float64) for seed, (name, shape) in enumerate(shapes.items())}


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_layers_are_pytorch_s(kind: str, gates: int, directions: int) -> None:
    """Packed sequences of different lengths. PyTorch orders an LSTM's gates i f g o, a GRU's r z n."""
    torch = pytest.importorskip("torch")
    order = {1: [0], 3: [1, 0, 2], 4: [0, 2, 3, 1]}[gates]
    values, lengths = sequences(gates, directions), np.array([6, 3, 1])
    layer = getattr(torch.nn, kind)(4, 5, bidirectional=directions == 2, dtype=torch.float64)

    def gate_order(x: Array) -> Any:
        return torch.from_numpy(x.reshape(gates, 5, -1)[order].reshape(gates * 5, *x.shape[1:]).copy())

    with torch.no_grad():
        for d, suffix in zip(range(directions), ("", "_reverse"), strict=False):
            input_bias, state_bias = np.split(values["bias"][d], 2)
            for name, x in (
                ("weight_ih", values["w"][d]),
                ("weight_hh", values["r"][d]),
                ("bias_ih", input_bias),
                ("bias_hh", state_bias),
            ):
                getattr(layer, f"{name}_l0{suffix}").copy_(gate_order(x))
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            torch.from_numpy(values["x"]), torch.from_numpy(lengths)
        )
        states = [torch.from_numpy(values[name]) for name in ("first", "cell")]
        wanted, last = layer(packed, tuple(states) if gates == 4 else states[0])
        wanted, _ = torch.nn.utils.rnn.pad_packed_sequence(wanted)
    direction = "bidirectional" if directions == 2 else "forward"
    op: Op = {
        "RNN": RNN(direction),
        "GRU": GRU(direction, linear_before_reset=True),
        "LSTM": LSTM(direction, outputs=3),
    }[kind]
    cell = (values["cell"],) if gates == 4 else ()
    y, *ends = op.reference(
        values["x"], values["w"], values["r"], values["bias"], lengths, values["first"], *cell
    )
    np.testing.assert_allclose(
        y.transpose(0, 2, 1, 3).reshape(6, 3, -1), wanted.numpy(), rtol=1e-9, atol=1e-12
    )
    for end, other in zip(ends, last if gates == 4 else [last], strict=True):
        np.testing.assert_allclose(end, other.numpy(), rtol=1e-9, atol=1e-12)


def decoded(name: str, **attributes: Any) -> Any:
    return DECODERS[name](Imported(name, "", 22, attributes, (True,) * 3, 1))


def test_recurrent_activations_take_alpha_and_beta_in_turn() -> None:
    names = ("HardSigmoid", "LeakyRelu", "ScaledTanh")
    given = {"activations": names, "activation_alpha": (0.3, 0.02, 2.0), "activation_beta": (0.4, 0.5)}
    op = decoded("LSTM", **given)
    assert isinstance(op, LSTM)
    assert op.functions == (("hardsigmoid", 0.3, 0.4), ("leakyrelu", 0.02, 0.0), ("scaledtanh", 2.0, 0.5))
    with pytest.raises(ArgumentError, match="alpha"):
        decoded("RNN", activations=("ScaledTanh",))
    with pytest.raises(UnsupportedError, match="Gelu"):
        decoded("RNN", activations=("Gelu",))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_pytorch_s(causal: bool) -> None:
    torch = pytest.importorskip("torch")
    q, k, v = (seeded((2, 4, 5, 8), seed, np.float64) for seed in (1, 2, 3))
    wanted = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (q, k, v)), is_causal=causal
    )
    (y,) = Attention(causal=causal).reference(q, k, v)
    np.testing.assert_allclose(y, wanted.numpy(), rtol=1e-9, atol=1e-12)


def test_causal_attention_counts_earlier_keys() -> None:
    q, k, v = (seeded((1, 1, 6, 4), seed, np.float64) for seed in (1, 2, 3))
    (whole,) = Attention(causal=True).reference(q, k, v)
    past = (None, k[:, :, :4], v[:, :, :4])
    (step,) = Attention(causal=True).reference(q[:, :, 4:], k[:, :, 4:], v[:, :, 4:], *past)
    np.testing.assert_allclose(step, whole[:, :, 4:], rtol=1e-12)


def test_a_query_without_keys_gives_zeros_not_nan() -> None:
    q, k, v = (seeded((1, 1, 2, 4), seed) for seed in (1, 2, 3))
    mask = np.array([[True, False], [False, False]])
    (y,) = Attention().reference(q, k, v, mask)
    np.testing.assert_allclose(y[0, 0, 0], v[0, 0, 0], rtol=1e-6)
    assert (y[0, 0, 1] == 0).all()
