"""Images resized and read at given places. NumPy has neither."""

from typing import Any

import numpy as np

from bench.operator_cases import Inputs, OperatorCase
from bench.operator_cases.peers import by_cenote, by_cenote_model, by_onnxruntime, by_torch

SEED = 13


def grid_sample(shape: tuple[int, int, int, int], places: str, mode: str = "bilinear") -> OperatorCase:
    """As many places as pixels: anywhere ("random"), or each up to some pixels from its own ("flow")."""
    n, c, h, w = shape

    def inputs() -> Inputs:
        rng = np.random.default_rng(SEED)
        if places == "random":
            grid = rng.uniform(-1.1, 1.1, (n, h, w, 2))
        else:
            own = np.meshgrid(*(np.arange(extent) * (2 / extent) - 1 + 1 / extent for extent in (w, h)))
            wave = np.stack([np.sin(own[1] * 9), np.cos(own[0] * 7)], -1)
            grid = (np.stack(own, -1) + wave * (8 / w))[None].repeat(n, 0)
        return rng.standard_normal(shape, np.float32), grid.astype(np.float32)

    onnx = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return OperatorCase(
        f"grid_sample {mode} {'x'.join(map(str, shape))}, {places}",
        inputs,
        {
            "cenote": by_cenote(
                lambda f, threads, x, grid: (
                    lambda: f.grid_sample(x, grid, mode, align_corners=False, threads=threads)
                )
            ),
            "torch": by_torch(
                lambda torch, x, grid: (
                    lambda: torch.nn.functional.grid_sample(x, grid, mode, align_corners=False)
                )
            ),
            "onnxruntime": by_onnxruntime("GridSample", {"mode": onnx}),
        },
        tolerance=1e-4,  # places are decided in float32 there
        bytes_moved=8 * n * c * h * w,
    )


def interpolate(shape: tuple[int, int, int, int], scale: float, mode: str) -> OperatorCase:
    """Resized by a factor, outer edges on each other."""
    corners = None if mode == "nearest" else False
    return OperatorCase(
        f"interpolate {mode} {'x'.join(map(str, shape))} by {scale}",
        lambda: (np.random.default_rng(SEED).standard_normal(shape, np.float32),),
        {
            "cenote": by_cenote(
                lambda f, threads, x: (
                    lambda: f.interpolate(x, None, scale, mode, align_corners=corners, threads=threads)
                )
            ),
            "torch": by_torch(
                lambda torch, x: (
                    lambda: torch.nn.functional.interpolate(x, None, scale, mode, align_corners=corners)
                )
            ),
            "onnxruntime": by_onnxruntime("Resize", onnx_attributes(mode), constants=factors(scale)),
        },
        tolerance=1e-4,
        bytes_moved=int(4 * np.prod(shape) * (1 + scale * scale)),
    )


def resize(shape: tuple[int, int, int, int], scale: float, mode: str) -> OperatorCase:
    """The same as a model of one node, whose input and output lie as they are."""
    attributes = onnx_attributes(mode)
    return OperatorCase(
        f"model of Resize {mode} {'x'.join(map(str, shape))} by {scale}",
        lambda: (np.random.default_rng(SEED).standard_normal(shape, np.float32),),
        {
            "cenote": by_cenote_model("Resize", attributes, constants=factors(scale)),
            "onnxruntime": by_onnxruntime("Resize", attributes, constants=factors(scale)),
        },
        tolerance=1e-5,
        bytes_moved=int(4 * np.prod(shape) * (1 + scale * scale)),
    )


def antialias(shape: tuple[int, int, int, int], size: int, mode: str) -> OperatorCase:
    """A picture that shrinks to a square, each pixel a mean of all that it covers."""
    return OperatorCase(
        f"interpolate {mode} {'x'.join(map(str, shape))} to {size}, antialias",
        lambda: (np.random.default_rng(SEED).standard_normal(shape, np.float32),),
        {
            "cenote": by_cenote(
                lambda f, threads, x: (
                    lambda: f.interpolate(x, (size, size), mode=mode, antialias=True, threads=threads)
                )
            ),
            "torch": by_torch(
                lambda torch, x: (
                    lambda: torch.nn.functional.interpolate(x, (size, size), mode=mode, antialias=True)
                )
            ),
        },
        tolerance=1e-5,
        bytes_moved=int(4 * np.prod(shape) + 4 * shape[0] * shape[1] * size * size),
    )


def onnx_attributes(mode: str) -> dict[str, Any]:
    """Of Resize as PyTorch means it."""
    if mode == "nearest":
        return {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return {"mode": "cubic", "cubic_coeff_a": -0.75} if mode == "bicubic" else {"mode": "linear"}


def factors(scale: float) -> dict[int, Any]:
    """The other inputs of Resize: no region of interest, and the scales."""
    return {1: np.empty(0, np.float32), 2: np.array([1, 1, scale, scale], np.float32)}


def cases() -> list[OperatorCase]:
    return [
        grid_sample((1, 64, 56, 56), "random"),
        grid_sample((1, 3, 224, 224), "flow"),
        grid_sample((1, 256, 32, 32), "random"),
        grid_sample((1, 64, 56, 56), "flow", "nearest"),
        grid_sample((1, 16, 64, 64), "flow", "bicubic"),
        interpolate((1, 64, 56, 56), 2.0, "nearest"),
        interpolate((1, 64, 56, 56), 2.0, "bilinear"),
        interpolate((1, 3, 480, 640), 0.5, "bilinear"),
        interpolate((1, 3, 224, 224), 2.0, "bicubic"),
        interpolate((1, 3, 512, 512), 1.5, "nearest"),
        interpolate((1, 3, 512, 512), 2.0, "bilinear"),
        interpolate((1, 3, 128, 128), 4.0, "bilinear"),
        interpolate((1, 3, 1024, 1024), 0.5, "bicubic"),
        antialias((1, 3, 1024, 1024), 224, "bilinear"),
        antialias((1, 3, 480, 640), 224, "bicubic"),
        resize((1, 1, 512, 512), 2.0, "nearest"),
        resize((1, 3, 512, 512), 2.0, "nearest"),
        resize((1, 64, 64, 64), 2.0, "nearest"),
        resize((1, 3, 1024, 1024), 0.3, "nearest"),
        resize((1, 1, 512, 512), 2.0, "bilinear"),
        resize((1, 3, 512, 512), 2.0, "bilinear"),
        resize((1, 3, 128, 128), 4.0, "bilinear"),
    ]
