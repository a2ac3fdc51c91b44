"""Pages of text to read: scans that scikit-image ships, cut and enlarged, and paragraphs set with Pillow's own font."""

import inspect
import textwrap

import numpy as np

SEED = 5
SCANS = ("page", "text")


def pages(count: int = 12) -> list[np.ndarray]:
    """So many different pictures (height, width, 3), uint8: scans and set pages by turns, no two of one size."""
    rng = np.random.default_rng(SEED)
    return [scan(number, rng) if number % 2 else set_page(number, rng) for number in range(count)]


def scan(number: int, rng: np.random.Generator) -> np.ndarray:
    """A scan, cut at its edges by up to an eighth and enlarged by 1.5 to 3."""
    from PIL import Image
    from skimage import data

    picture = getattr(data, SCANS[number // 2 % len(SCANS)])()
    height, width = picture.shape
    top, bottom = (int(rng.integers(0, height // 8 + 1)) for _ in range(2))
    left, right = (int(rng.integers(0, width // 8 + 1)) for _ in range(2))
    cut = Image.fromarray(picture[top : height - bottom, left : width - right])
    factor = rng.uniform(1.5, 3.0)
    size = (round(cut.width * factor), round(cut.height * factor))
    return np.asarray(cut.resize(size, Image.Resampling.BICUBIC).convert("RGB"))


def set_page(number: int, rng: np.random.Generator) -> np.ndarray:
    """Lines of English, black on white: the documentation of a module of Python's."""
    from PIL import Image, ImageDraw, ImageFont

    words = " ".join((inspect.getdoc(textwrap.TextWrapper) or "").split())
    start = int(rng.integers(0, len(words) // 2))
    columns, lines = int(rng.integers(36, 64)), int(rng.integers(14, 30))
    size = int(rng.integers(16, 24))
    text = textwrap.wrap(words[start:] + " " + words, columns)[:lines]
    font = ImageFont.load_default(size)
    width = max(int(font.getlength(line)) for line in text) + 4 * size
    page = Image.new("RGB", (width, int((len(text) + 3) * 1.6 * size)), "white")
    draw = ImageDraw.Draw(page)
    for row, line in enumerate(text):
        draw.text((2 * size, int((row + 1.5) * 1.6 * size)), line, fill="black", font=font)
    return np.asarray(page)
