"""What the examples with pictures share: real pictures to read, and sheets of labelled tiles to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Pixels = NDArray[np.uint8]  # (height, width) or (height, width, 3)

PAPER, INK, FAINT_INK = (22, 24, 29), (238, 240, 243), (150, 160, 175)
GAP, MARGIN = 12, 16  # pixels between tiles, and around the sheet
FONT_SIZE, LINE = 14, 18


@dataclass(frozen=True)
class Tile:
    """A picture and the two lines under it."""

    pixels: Pixels
    title: str
    detail: str = ""


def sample(name: str) -> Pixels:
    """A picture of scikit-image's package, which holds some; nothing is downloaded."""
    try:
        from skimage import data
    except ImportError:
        raise SystemExit(
            f"The default picture, '{name}', comes with scikit-image: pip install scikit-image, or name a picture of "
            "your own with --picture."
        ) from None
    return np.asarray(getattr(data, name)())


def output(name: str) -> Path:
    """Where a sheet goes by default: among the documentation's pictures in a checkout, else in the current folder."""
    folder = Path(__file__).parents[1] / "docs" / "pictures"
    return folder / name if folder.is_dir() else Path(name)


def read(path: Path, mode: str) -> Pixels:
    """A picture file as Pillow's `mode` has it: "RGB", or "L" for grey."""
    try:
        with Image.open(path) as picture:
            return np.asarray(picture.convert(mode))
    except OSError as error:
        raise SystemExit(f"{path} cannot be read as a picture: {error}") from None


def enlarged(pixels: Pixels, height: int, width: int) -> Pixels:
    """Each pixel as a block, so that one sees what a pool made of a window."""
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST))


def sheet(tiles: Sequence[Tile], columns: int) -> Image.Image:
    """Tiles of one size, row by row, each with its two lines under it."""
    height, width = tiles[0].pixels.shape[:2]
    step_x, step_y = width + GAP, height + 2 * LINE + GAP + 6
    rows = -(-len(tiles) // columns)
    size = (2 * MARGIN + columns * step_x - GAP, 2 * MARGIN + rows * step_y - GAP)
    picture = Image.new("RGB", size, PAPER)
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(FONT_SIZE)
    for number, tile in enumerate(tiles):
        x, y = MARGIN + number % columns * step_x, MARGIN + number // columns * step_y
        picture.paste(Image.fromarray(tile.pixels), (x, y))
        draw.text((x, y + height + 4), tile.title, INK, font)
        draw.text((x, y + height + 4 + LINE), tile.detail, FAINT_INK, font)
    return picture


def save(picture: Image.Image, path: Path, colours: int = 256) -> None:
    """As a PNG with a palette, which takes a third of the bytes of one with three full channels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    small = picture.quantize(colours, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    print(f"{path}: {picture.width} x {picture.height} pixels, {path.stat().st_size:,} bytes")
