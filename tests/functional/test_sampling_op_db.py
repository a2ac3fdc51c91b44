"""Resizing, reading at places, windows: PyTorch's own samples (op_db) and combinations beside it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, CenoteError, ShapeError
from tests.functional.op_db.database import torch
from tests.functional.op_db.sampling import NAMES, OPS, TYPES, close, compare, refuse


def entries() -> Iterator[Any]:
    for op in OPS:
        for kind in TYPES:
            if getattr(torch, kind) in op.supported_dtypes("cpu"):
                yield pytest.param(op, kind, id=f"{NAMES[op.name]}{op.variant_test_name}-{kind}")


@pytest.mark.parametrize(("op", "kind"), list(entries()))
def test_samples(op: Any, kind: str) -> None:
    torch.manual_seed(0)
    samples = op.sample_inputs("cpu", getattr(torch, kind), requires_grad=False)
    few = itertools.islice(samples, 0, None, 1 if kind == "float32" else 5)
    assert [reason for sample in few if not (reason := compare(op, kind, sample))]


@pytest.mark.parametrize("op", [op for op in OPS if op.error_inputs_func], ids=lambda op: op.name)
def test_error_inputs(op: Any) -> None:
    for error in op.error_inputs("cpu"):
        refuse(op, error)


SHAPES = {1: (2, 3, 7), 2: (2, 3, 7, 5), 3: (1, 2, 4, 5, 6)}
MODES = [
    (mode, rank)
    for mode, ranks in {
        "nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "area": (1, 2, 3), "linear": (1,), "bilinear": (2,),
        "bicubic": (2,), "trilinear": (3,),
    }.items()
    for rank in ranks
]  # fmt: skip


@pytest.mark.parametrize(("mode", "rank"), MODES)
def test_interpolate_modes(mode: str, rank: int) -> None:
    x = torch.randn(SHAPES[rank], generator=torch.Generator().manual_seed(1))
    corners = (None, False, True) if mode.endswith(("linear", "cubic")) else (None,)
    smooth = (False, True) if mode in ("bilinear", "bicubic") else (False,)
    sizes: list[dict[str, Any]] = [
        {"size": (9, 3, 8)[:rank]}, {"size": 1}, {"size": 4}, {"scale_factor": 1.7},
        {"scale_factor": (0.6, 2.0, 1.3)[:rank]}, {"scale_factor": 1.7, "recompute_scale_factor": True},
    ]  # fmt: skip
    for size, corner, anti in itertools.product(sizes, corners, smooth):
        arguments: dict[str, Any] = {**size, "mode": mode, "align_corners": corner, "antialias": anti}
        wanted = torch.nn.functional.interpolate(x, **arguments).numpy()
        got = F.interpolate(x.numpy(), **arguments)
        assert got.shape == wanted.shape, arguments
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-5, err_msg=str(arguments))


def test_interpolate_out_and_bytes() -> None:
    x = torch.randint(0, 256, (1, 3, 6, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    wanted = torch.nn.functional.interpolate(x.float(), size=(4, 9), mode="bilinear").round().byte().numpy()
    out = np.empty((1, 3, 4, 9), np.uint8)
    assert F.interpolate(x.numpy(), (4, 9), mode="bilinear", out=out) is out
    np.testing.assert_array_equal(out, wanted)
    assert isinstance(F.interpolate(x, (4, 9), mode="bilinear"), torch.Tensor)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({}, "neither"),
        ({"size": 3, "scale_factor": 2.0}, "both"),
        ({"size": 0}, "size"),
        ({"size": (3, 3, 3)}, "2 numbers"),
        ({"scale_factor": -1.0}, "positive"),
        ({"scale_factor": 1e30}, "pixels"),
        ({"scale_factor": (2.0,)}, "2 numbers"),
        ({"size": 3, "mode": "cubic"}, "mode"),
        ({"size": 3, "mode": "trilinear"}, "3 spatial axes"),
        ({"size": 3, "align_corners": True}, "align_corners"),
        ({"size": 3, "antialias": True}, "antialias"),
        ({"size": 3, "recompute_scale_factor": True}, "recompute_scale_factor"),
    ],
)
def test_interpolate_errors(arguments: dict[str, Any], word: str) -> None:
    with pytest.raises(CenoteError, match=word):
        F.interpolate(np.zeros((1, 2, 4, 4), np.float32), **arguments)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, padding: str, rank: int) -> None:
    if mode == "bicubic" and rank == 3:
        return
    make = torch.Generator().manual_seed(1)
    x = torch.randn((2, 3, 7, 5, 4)[: rank + 2], generator=make)
    grid = torch.randn((*(2, 9, 6, 5)[: rank + 1], rank), generator=make) * 1.5
    for corners in (False, True):
        wanted = torch.nn.functional.grid_sample(x, grid, mode, padding, corners).numpy()
        close(F.grid_sample(x.numpy(), grid.numpy(), mode, padding, corners), wanted, 1e-4)


def deformed(x: Any, offset: Any, w: Any, mask: Any, stride: int, padding: int, dilation: int) -> Any:
    """The sum over taps of what PyTorch's grid_sample reads at the tap's places."""
    channels, height, width = x.shape[1:]
    rows, columns = offset.shape[2:]
    parts = offset.shape[1] // (2 * w.shape[2] * w.shape[3])
    groups = channels // w.shape[1]
    total = 0
    for tap in range(w.shape[2] * w.shape[3]):
        read = []
        for part in range(parts):
            at = part * w.shape[2] * w.shape[3] + tap
            down, across = divmod(tap, w.shape[3])
            y = torch.arange(rows).view(-1, 1) * stride - padding + down * dilation + offset[:, 2 * at]
            z = torch.arange(columns) * stride - padding + across * dilation + offset[:, 2 * at + 1]
            grid = torch.stack([2 * z / (width - 1) - 1, 2 * y / (height - 1) - 1], -1)
            each = channels // parts
            piece = torch.nn.functional.grid_sample(
                x[:, part * each : (part + 1) * each], grid, align_corners=True
            )
            read.append(piece if mask is None else piece * mask[:, at : at + 1])
        weight = w[:, :, tap // w.shape[3], tap % w.shape[3], None, None]
        total = total + torch.nn.functional.conv2d(torch.cat(read, 1), weight, groups=groups)
    return total


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "parts", "groups"), [(1, 0, 1, 1, 1), (2, 1, 2, 2, 2)]
)
def test_deform_conv(stride: int, padding: int, dilation: int, parts: int, groups: int) -> None:
    make = torch.Generator().manual_seed(1)
    x, w = torch.randn((2, 4, 9, 8), generator=make), torch.randn((6, 4 // groups, 3, 2), generator=make)
    bias = torch.randn((6,), generator=make)
    like = torch.nn.functional.conv2d(x, w, None, stride, padding, dilation, groups)
    offset = 2 * torch.randn((2, 12 * parts, *like.shape[2:]), generator=make)
    mask = torch.rand((2, 6 * parts, *like.shape[2:]), generator=make)
    for b, m in itertools.product((None, bias), (None, mask)):
        wanted = deformed(x, offset, w, m, stride, padding, dilation)
        wanted = wanted if b is None else wanted + b.view(-1, 1, 1)
        got = F.deform_conv2d(x, offset, w, b, stride, padding, dilation, m)
        assert isinstance(got, torch.Tensor)
        close(got.numpy(), wanted.numpy(), 1e-4)


def test_errors_of_places_and_windows() -> None:
    x = np.zeros((1, 2, 4, 4), np.float32)
    grid = np.zeros((1, 3, 3, 2), np.float32)
    for word, function in {
        "mode": lambda: F.grid_sample(x, grid, "linear"),
        "padding_mode": lambda: F.grid_sample(x, grid, padding_mode="edge"),
        "one type": lambda: F.grid_sample(x, grid.astype(np.float64)),
        "size": lambda: F.affine_grid(np.zeros((1, 2, 3), np.float32), (1, 2, 0, 4)),
        "kernel_size": lambda: F.unfold(x, 0),
        "stride": lambda: F.unfold(x, 2, stride=0),
        "output_size": lambda: F.fold(np.zeros((1, 8, 9), np.float32), -1, 2),
    }.items():
        with pytest.raises(ArgumentError, match=word):
            function()
    for function in (
        lambda: F.grid_sample(x, grid[..., :1]),
        lambda: F.grid_sample(x[:, :, :0], grid),
        lambda: F.unfold(x, 5),
        lambda: F.fold(np.zeros((1, 8, 8), np.float32), 4, 2),
        lambda: F.deform_conv2d(x, np.zeros((1, 7, 4, 4), np.float32), np.zeros((3, 2, 1, 1), np.float32)),
        lambda: F.deform_conv2d(x, np.zeros((1, 2, 3, 4), np.float32), np.zeros((3, 2, 1, 1), np.float32)),
    ):
        with pytest.raises(ShapeError):
            function()
