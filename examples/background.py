"""What a page of print looks like without the shadow on it: its background, estimated by a 101 x 101 window.

    pip install scikit-image
    python -m examples.background                           from the root of a checkout
    python -m cenote.examples.background                    where Cenote is installed
    python -m examples.background --picture cells.png --light --window 151 --out flat.png

Two classic estimates. A closing, which is a maximum of windows and then a minimum, takes away what is dark and narrower
than the window (--light: an opening, for light things on dark ground, as in a micrograph). A mean just blurs. What a
window costs per pixel does not grow with its size.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import cenote.functional as F

from .pictures import Pixels, Tile, output, read, sample, save, sheet

OUT = output("background.png")
WINDOW = 101
LARGE = 2048  # side of the enlarged picture that is timed as well
Floats = NDArray[np.float32]


def envelope(picture: Pixels, window: int, light: bool = False) -> Pixels:
    """The closing of (H, W), nowhere below the picture; with `light` the opening, nowhere above it."""
    first, second = (F.erosion, F.dilation) if light else (F.dilation, F.erosion)
    return np.asarray(second(first(picture, window), window))


def mean(picture: NDArray[Any], window: int) -> Floats:
    """The mean around each pixel of (H, W); at the border, of the part of the window that lies on the picture."""
    pixels = picture.astype(np.float32)
    return np.asarray(F.avg_pool2d(pixels, window, 1, "same", count_include_pad=False))


def background(picture: Pixels, window: int, how: str, light: bool = False) -> Floats:
    """An estimate of (H, W) without what is drawn on it. `how`: "envelope" (smoothed, as its steps have edges), or
    "mean".
    """
    return mean(envelope(picture, window, light) if how == "envelope" else picture, window)


def contrast(values: NDArray[Any]) -> tuple[float, float]:
    """How well one threshold tells ink from paper: the share of the variance that lies between the two, 0 to 1, and
    that threshold (Otsu 1979). Adding to the values or multiplying them does not change the share.
    """
    ordered = np.sort(values, axis=None).astype(np.float64)
    lower = np.arange(1, ordered.size)
    sums = np.cumsum(ordered)
    gap = (sums[-1] - sums[:-1]) / (ordered.size - lower) - sums[:-1] / lower
    between = lower * (ordered.size - lower) / ordered.size**2 * gap**2
    best = int(between.argmax())
    return float(between[best] / max(ordered.var(), 1e-12)), float(ordered[best])  # one shade only: 0


def stretched(values: NDArray[Any]) -> Pixels:
    """Shades of grey for values of any range; the darkest and the lightest hundredth saturate."""
    low, high = np.percentile(values, (1, 99))
    return np.asarray(np.clip(255 * (values - low) / max(high - low, 1e-6), 0, 255), np.uint8)


def split(values: NDArray[Any]) -> Pixels:
    """Black and white by the best threshold."""
    return np.where(values > contrast(values)[1], 255, 0).astype(np.uint8)


def before_and_after(
    picture: Pixels, window: int, light: bool = False
) -> tuple[Image.Image, dict[str, float]]:
    """A sheet of the picture, both backgrounds, what is left without them; and the contrasts."""
    size, name = f"{window} x {window}", "opening" if light else "closing"
    titles = {"envelope": f"{name} by {size}, smoothed", "mean": f"mean of {size}"}
    grounds = {how: background(picture, window, how, light) for how in titles}
    flats = {how: picture - ground for how, ground in grounds.items()}
    shares = {how: contrast(values)[0] for how, values in {"picture": picture, **flats}.items()}
    tiles = [
        Tile(picture, "before", f"contrast {shares['picture']:.3f}"),
        Tile(split(picture), "before, black and white", "by the best single threshold"),
    ]
    for how, title in titles.items():
        tiles.append(Tile(np.round(grounds[how]).astype(np.uint8), f"background: {title}"))
        tiles.append(Tile(stretched(flats[how]), "picture - background", f"contrast {shares[how]:.3f}"))
    for how, without in (("envelope", name), ("mean", "mean")):
        tiles.append(Tile(split(flats[how]), "after, black and white", f"without the {without}"))
    return sheet(tiles, 2), shares


def milliseconds(work: Callable[[], object]) -> float:
    """The best of five."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def print_times(picture: Pixels, window: int) -> None:
    """What closing and mean take, and what scipy.ndimage takes where it is installed."""
    floats = picture.astype(np.float32)
    ours = (lambda: envelope(picture, window), lambda: mean(floats, window))
    for work in ours:
        work()  # the first call of a size compiles its kernels
    theirs: list[Callable[[], object]] = []
    try:
        from scipy import ndimage
    except ImportError:
        pass
    else:
        theirs = [
            lambda: ndimage.grey_closing(picture, (window, window)),
            lambda: ndimage.uniform_filter(floats, window),
        ]
    height, width = picture.shape
    for number, name in enumerate(("closing, uint8", "mean, float32")):
        line = f"{height} x {width}, {name}: Cenote {milliseconds(ours[number]):.2f} ms"
        print(line + (f", scipy.ndimage {milliseconds(theirs[number]):.2f} ms" if theirs else ""))


def odd(text: str) -> int:
    """A window with a middle, as the command line gives it."""
    if not text.isdecimal() or int(text) % 2 == 0:
        raise argparse.ArgumentTypeError(f"the window must be odd and positive, got {text}")
    return int(text)


def main() -> None:
    """Flatten the picture that is named, or scikit-image's page, and say how long that takes."""
    parser = argparse.ArgumentParser(description="Background estimation with a large window.")
    parser.add_argument(
        "--picture", type=Path, help="a picture file instead of scikit-image's page; read as grey"
    )
    parser.add_argument(
        "--window", type=odd, default=WINDOW, help="rows and columns, wider than what is drawn"
    )
    parser.add_argument("--light", action="store_true", help="light things on dark ground: an opening")
    parser.add_argument("--out", type=Path, default=OUT, help="the PNG to write")
    options = parser.parse_args()
    picture = read(options.picture, "L") if options.picture else sample("page")
    result, shares = before_and_after(picture, options.window, options.light)
    save(result, options.out)
    for name, share in shares.items():
        print(f"contrast, {name}: {share:.3f}")
    print_times(picture, options.window)
    large = np.asarray(Image.fromarray(picture).resize((LARGE, LARGE), Image.Resampling.BICUBIC))
    print_times(large, options.window)


if __name__ == "__main__":
    main()
