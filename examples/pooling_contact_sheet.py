"""A photograph through every pooling of cenote.functional, as one sheet of labelled tiles.

    pip install scikit-image
    python -m examples.pooling_contact_sheet                      from the root of a checkout
    python -m cenote.examples.pooling_contact_sheet               where Cenote is installed
    python -m examples.pooling_contact_sheet --picture me.jpg --face 60 40 130 120 --out sheet.png

The text under a tile is the program that made it: each entry of CALLS is evaluated with the names of `names()`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import cenote.functional as F

from .pictures import Pixels, Tile, enlarged, output, read, sample, save, sheet

SIDE = 192  # pixels of the photograph, and of a tile
COLUMNS = 6
OUT = output("pooling.png")
PORTRAIT = (slice(0, 288), slice(80, 368))  # rows and columns of scikit-image's picture of Eileen Collins
FACE = (54.0, 26.0, 118.0, 118.0)  # x1, y1, x2, y2 in that portrait, SIDE pixels wide and high

CALLS = (
    "max_pool2d(x, 6)",
    "avg_pool2d(x, 6)",
    "min_pool(x, 6)",
    "median_pool(x, 9, 1, 4)",
    "lp_pool2d(x, 4, 6) / 36**0.25",
    "gem_pool(x, 16, kernel_size=6)",
    "soft_pool(10 * x, 6) / 10",
    "stochastic_pool(x, 6, seed=1)",
    "blur_pool(x, 8, 4)",
    "dilation(x, 9)",
    "erosion(x, 9)",
    "fractional_max_pool2d(x, 8, 24, seed=1)",
    "adaptive_max_pool2d(x, (8, 24))",
    "adaptive_avg_pool2d(x, (8, 24))",
    "roi_align(x[None], face, 24)",
    "roi_pool(x[None], face, 24)",
    "ps_roi_pool(x64[None], face, 8)",
    "spatial_pyramid_pool(x, (4, 8, 16, 32))",
    "max_pool1d(x, 16)",
    "avg_pool1d(x, 16)",
    "lp_pool1d(x, 2, 16) / 4",
    "adaptive_max_pool1d(x, 7)",
    "adaptive_avg_pool1d(x, 7)",
    "max_unpool1d(top1, place1, 2)",
    "max_pool3d(x[None], (3, 6, 6))",
    "avg_pool3d(x[None], (3, 6, 6))",
    "lp_pool3d(x[None], 4, (3, 6, 6)) / 3.22",
    "adaptive_max_pool3d(x[None], (3, 24, 8))",
    "adaptive_avg_pool3d(x[None], (3, 24, 8))",
    "fractional_max_pool3d(x[None], 3, (1, 24, 24), seed=1)",
    "max_unpool2d(top2, place2, 2)",
    "max_unpool3d(top3, place3, (3, 2, 2))",
    "global_max_pool(x)",
    "global_avg_pool(x)",
    "global_lp_pool(x) / 192",
)


def photograph(picture: Pixels) -> NDArray[np.float32]:
    """The middle square of an RGB picture as (3, SIDE, SIDE), 0 to 1."""
    side = min(picture.shape[:2])
    top, left = ((extent - side) // 2 for extent in picture.shape[:2])
    square = Image.fromarray(picture[top : top + side, left : left + side])
    pixels = np.asarray(square.resize((SIDE, SIDE), Image.Resampling.LANCZOS), np.float32)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1) / np.float32(255), np.float32)


def names(x: NDArray[np.float32], face: tuple[float, float, float, float]) -> dict[str, Any]:
    """What the calls may name: the functions, and

    x            the photograph, (3, H, W) = (colours, rows, columns). 1-D pools see a batch of 3 with a channel for
                 each row in it, 3-D pools see one channel in x[None], of which the colours are the depth
    x64          each colour 64 times, as ps_roi_pool takes a channel for each of 8 x 8 bins
    face         (1, 5): image 0 and a box
    top, place   maxima of the photograph at half its size, and where they were, which max_unpool turns back: of windows
                 of 2 (top1), 2 x 2 (top2) and 3 x 2 x 2 (top3) elements
    """
    found = {name: getattr(F, name) for name in F.__all__}
    found |= {"x": x, "x64": np.repeat(x, 64, axis=0), "face": np.array([[0, *face]], np.float32)}
    half = F.avg_pool2d(x, 2)
    found["top1"], found["place1"] = F.max_pool1d(half, 2, return_indices=True)
    found["top2"], found["place2"] = F.max_pool2d(half, 2, return_indices=True)
    found["top3"], found["place3"] = F.max_pool3d(half[None], (3, 2, 2), return_indices=True)
    return found


def pyramid(vector: NDArray[np.float32], levels: tuple[int, ...]) -> Pixels:
    """The levels of a spatial pyramid side by side: reading the vector as spatial_pyramid_pool documents it."""
    half, parts = SIDE // 2, []
    for level in levels:
        part, vector = np.split(vector, [3 * level * level])
        parts.append(enlarged(shades(part.reshape(3, level, level)), half, half))
    return np.vstack([np.hstack(parts[:2]), np.hstack(parts[2:])])


def shades(y: NDArray[np.float32]) -> Pixels:
    """(3, H, W) or (1, H, W), 0 to 1, as the pixels of an RGB picture."""
    bytes_ = np.round(255 * np.clip(y, 0, 1)).astype(np.uint8).transpose(1, 2, 0)
    return np.ascontiguousarray(np.broadcast_to(bytes_, (*bytes_.shape[:2], 3)))


def tile(call: str, known: dict[str, Any]) -> Tile:
    """What a call makes of the photograph, as large as the photograph."""
    result = eval(call, {}, known)
    name, rest = call.split("(", 1)
    if result.ndim == 1:
        return Tile(pyramid(result, (4, 8, 16, 32)), name, f"({rest}")
    y = result.reshape(-1, *result.shape[-2:])  # x[None] added an axis of extent 1; so did the boxes
    return Tile(enlarged(shades(y), SIDE, SIDE), name, f"({rest}")


def contact_sheet(x: NDArray[np.float32], face: tuple[float, float, float, float]) -> Image.Image:
    """The photograph, then a tile for each call."""
    known = names(x, face)
    first = Tile(shades(x), "x, the photograph", f"3 x {SIDE} x {SIDE}, float32")
    return sheet([first, *(tile(call, known) for call in CALLS)], COLUMNS)


def main() -> None:
    """Make the sheet of the picture that is named, or of scikit-image's astronaut."""
    parser = argparse.ArgumentParser(description="A photograph through every pooling of cenote.functional.")
    parser.add_argument("--picture", type=Path, help="a picture file instead of scikit-image's astronaut")
    parser.add_argument(
        "--face",
        type=float,
        nargs=4,
        default=FACE,
        metavar=("X1", "Y1", "X2", "Y2"),
        help=f"the box of the region pools, in the middle square scaled to {SIDE} pixels",
    )
    parser.add_argument("--out", type=Path, default=OUT, help="the PNG to write")
    options = parser.parse_args()
    picture = read(options.picture, "RGB") if options.picture else sample("astronaut")[PORTRAIT]
    save(contact_sheet(photograph(picture), tuple(options.face)), options.out)


if __name__ == "__main__":
    main()
