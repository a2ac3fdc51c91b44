"""Recurrent layers on arrays, beside PyTorch's modules."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, CenoteError, InputError, ShapeError
from cenote.core.types import BFLOAT16
from cenote.ops.sequence.recurrent import _Recurrent

torch = pytest.importorskip("torch")

NAMES = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def module(name: str, **arguments: Any) -> Any:
    torch.manual_seed(0)
    if name.startswith("rnn"):
        return torch.nn.RNN(5, 11, nonlinearity=name[4:], **arguments)
    return getattr(torch.nn, name.upper())(5, 11, **arguments)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, True)])
def test_against_torch(name: str, layers: int, both: bool) -> None:
    for bias, batch_first, with_state in itertools.product((True, False), (True, False), (True, False)):
        made = module(
            name,
            num_layers=layers,
            bidirectional=both,
            bias=bias,
            batch_first=batch_first,
            dtype=torch.float32,
        )
        x = torch.randn((3, 7, 5))
        state = torch.randn((layers * (1 + both), 3 if batch_first else 7, 11))
        hx: Any = None
        if with_state:
            hx = (state, state / 2) if name == "lstm" else state
        with torch.no_grad():
            y, ends = made(x, hx)
        params = [value.detach() for value in made.parameters()]
        got = getattr(F, name)(x, hx, params, bias, layers, 0.0, False, both, batch_first)
        wanted = (y, *(ends if name == "lstm" else (ends,)))
        for one, other in zip(got, wanted, strict=True):
            assert isinstance(one, torch.Tensor)
            assert one.shape == other.shape
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_float64_and_threads(name: str) -> None:
    made = module(name, num_layers=2, dtype=torch.float64)
    x = torch.randn((4, 2, 5), dtype=torch.float64)
    params = [value.detach().numpy() for value in made.parameters()]
    with torch.no_grad():
        wanted = made(x)[0].numpy()
    got = getattr(F, name)(x.numpy(), None, params, num_layers=2)[0]
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)
    narrow = [value.astype(np.float32) for value in (x.numpy(), *params)]
    one, two = (getattr(F, name)(narrow[0], None, narrow[1:], num_layers=2, threads=n)[0] for n in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh"])
def test_half_precision_runs_in_float32(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """float16 and bfloat16 give what float32 gives, rounded once a layer, and NumPy has no part in it."""
    made = module(name, num_layers=2, bidirectional=True)
    x, params = torch.randn((4, 2, 5)).numpy(), [value.detach().numpy() for value in made.parameters()]
    monkeypatch.setattr(_Recurrent, "compute", None)
    for dtype, error in ((np.float16, 2e-3), (BFLOAT16, 2e-2)):
        half = [value.astype(dtype) for value in (x, *params)]
        wide = [value.astype(np.float32) for value in half]
        y, exact = (
            getattr(F, name)(given[0], None, given[1:], True, 2, 0.0, False, True)[0]
            for given in (half, wide)
        )
        assert y.dtype == dtype
        np.testing.assert_allclose(y.astype(np.float32), exact, atol=error)


def test_dropout_between_layers() -> None:
    made = module("gru", num_layers=2)
    params = [value.detach().numpy() for value in made.parameters()]
    x = np.ones((3, 2, 5), np.float32)
    plain = F.gru(x, None, params, num_layers=2, dropout=0.9)[0]
    dropped = F.gru(x, None, params, num_layers=2, dropout=0.9, train=True)[0]
    assert not np.array_equal(plain, dropped)


def test_errors() -> None:
    params = [value.detach().numpy() for value in module("lstm").parameters()]
    x, state = np.zeros((4, 2, 5), np.float32), np.zeros((1, 2, 11), np.float32)
    wrong: dict[Any, type[CenoteError]] = {
        lambda: F.lstm(x[0], None, params): ShapeError,
        lambda: F.lstm(x[..., :4], None, params): ShapeError,
        lambda: F.lstm(x, (state, state[:, :1]), params): ShapeError,
        lambda: F.lstm(x, (state,), params): InputError,  # type: ignore[arg-type]
        lambda: F.lstm(x, None, params[:3]): ArgumentError,
        lambda: F.lstm(x, None, [*params[:2], params[2][:3], params[3]]): ShapeError,
        lambda: F.lstm(x, None, params, num_layers=0): ArgumentError,
        lambda: F.lstm(x, None, params, bidirectional=2): ArgumentError,  # type: ignore[arg-type]
        lambda: F.gru(x, state, [np.zeros(3), *params[1:]]): ShapeError,
        lambda: F.rnn_tanh("x", None, params): InputError,  # type: ignore[type-var]
    }
    for function, error in wrong.items():
        with pytest.raises(error):
            function()
