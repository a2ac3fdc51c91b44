"""Conversion of pictures to the arrays that networks take.

In this order: turn as the camera says, colours, resize, crop, multiply by `scale`, subtract `mean`, divide by `std`,
axes. What is not given follows from the model's input: its size, its number of channels, its dtype.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
import typer
from numpy.typing import NDArray

import cenote

if TYPE_CHECKING:
    from PIL.Image import Image

LAYOUTS = ("nchw", "nhwc")
COLORS = {"rgb": 3, "bgr": 3, "gray": 1}
BYTE = 1 / 255


@dataclass(frozen=True)
class Preprocess:
    """`size` (height, width) to resize to, bilinear; with `crop`, a single number is the shorter side's new length.

    `crop` (height, width) is cut from the middle. `mean` and `std` are one number or one per channel, in units after
    scaling. None: what the model's input suggests (the whole picture at the input's size; rgb or gray by its
    channels; scale 1/255 for floats and 1 for integers; nhwc when only its last axis can be the channels).
    """

    size: tuple[int, ...] | None = None
    crop: tuple[int, ...] | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    scale: float | None = None
    layout: str | None = None
    color: str | None = None

    def __post_init__(self) -> None:
        for name in ("size", "crop"):
            value = getattr(self, name)
            if value is not None and (len(value) not in (1, 2) or min(value) < 1):
                raise ValueError(f"{name}: {value} is not one or two whole numbers of 1 or more")
        if self.layout not in (None, *LAYOUTS):
            raise ValueError(f"layout: '{self.layout}' is not known ({', '.join(LAYOUTS)})")
        if self.color not in (None, *COLORS):
            raise ValueError(f"color: '{self.color}' is not known ({', '.join(COLORS)})")
        if 0.0 in self.std:
            raise ValueError("std: 0 would divide by zero")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings in a preprocessing file: fields by name, numbers alone or in lists. Raises ValueError."""
        known = [field.name for field in fields(cls)]
        unknown = [key for key in values if key not in known]
        if unknown:
            raise ValueError(f"'{unknown[0]}' is not known (known: {', '.join(known)})")
        return cls(**{key: _value(key, value) for key, value in values.items() if value is not None})

    def merged(self, flags: Mapping[str, Any]) -> Self:
        """Return these settings, with the flags of the command line in place of theirs."""
        return replace(self, **{key: value for key, value in flags.items() if value is not None})


def _option(help: str) -> Any:
    return typer.Option(help=help, rich_help_panel="Pictures")


@dataclass(frozen=True)
class Pictures:
    """The options of a command that say how pictures become numbers."""

    preprocess: Annotated[Path | None, _option("A .json or .toml with the settings below; flags win.")] = None
    size: Annotated[
        str | None,
        _option("Resize to 224 or 480x640 (height x width); with --crop, one number is the shorter side."),
    ] = None
    crop: Annotated[str | None, _option("Then keep the middle: 224 or 480x640.")] = None
    scale: Annotated[str | None, _option("Multiply the bytes by this (default: 1/255 for float inputs).")] = (
        None
    )
    mean: Annotated[str | None, _option("Then subtract: 0.485,0.456,0.406.")] = None
    std: Annotated[str | None, _option("Then divide by: 0.229,0.224,0.225.")] = None
    layout: Annotated[str | None, _option("nchw or nhwc (default: as the input looks).")] = None
    color: Annotated[str | None, _option("rgb, bgr or gray (default: by the input).")] = None

    def settings(self) -> Preprocess:
        """Return the settings of all these options. Raises BadParameter."""
        flags = {
            **{name: size_flag(f"--{name}", getattr(self, name)) for name in ("size", "crop")},
            **{name: numbers_flag(f"--{name}", getattr(self, name)) for name in ("mean", "std")},
            "scale": (numbers_flag("--scale", self.scale) or (None,))[0],
            "layout": self.layout,
            "color": self.color,
        }
        try:
            return (read_preprocess(self.preprocess) if self.preprocess else Preprocess()).merged(flags)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None


def _value(key: str, value: Any) -> Any:
    if key in ("layout", "color"):
        return str(value).lower()
    numbers = value if isinstance(value, list | tuple) else [value]
    if not numbers or not all(
        isinstance(item, int | float) and not isinstance(item, bool) for item in numbers
    ):
        raise ValueError(f"{key}: {value!r} is not a number or a list of numbers")
    if key == "scale":
        return float(numbers[0])
    return tuple(int(item) if key in ("size", "crop") else float(item) for item in numbers)


def read_preprocess(path: Path) -> Preprocess:
    """A .json or .toml file with the fields of `Preprocess`."""
    try:
        content = path.read_bytes()
        values = tomllib.loads(content.decode()) if path.suffix == ".toml" else json.loads(content)
        if not isinstance(values, dict):
            raise ValueError("it is not a table of settings")
        return Preprocess.from_mapping(values)
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--preprocess") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path}: {error}", param_hint="--preprocess") from None


def numbers_flag(name: str, text: str | None) -> tuple[float, ...] | None:
    """`0.485,0.456,0.406` as numbers; fractions such as 1/255 are understood. Raises BadParameter."""
    if text is None:
        return None
    try:
        return tuple(_number(part) for part in text.split(","))
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(
            f"'{text}' is not a list of numbers like 0.5,0.5,0.5", param_hint=name
        ) from None


def _number(text: str) -> float:
    above, _, below = text.partition("/")
    return float(above) / float(below or 1)


def size_flag(name: str, text: str | None) -> tuple[int, ...] | None:
    """`224` or `480x640` (height x width). Raises BadParameter."""
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"'{text}' is not 224 or 480x640 (height x width)", param_hint=name)
    return tuple(int(part) for part in parts)


def read_picture(path: Path, declared: Any, wanted: Preprocess) -> NDArray[Any]:
    """Read a picture file as an input of a model, a batch of one. Raises InputError for other files."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    shape = declared.shape if declared.shape is not None else (None, None, None, None)
    if len(shape) not in (3, 4):
        raise cenote.InputError(
            f"{path}: the model takes {declared}, which is no picture; give it a .npy file"
        )
    channels, height, width, layout = _axes(shape[-3:], wanted.layout)
    color = wanted.color or ("gray" if channels == 1 else "rgb")
    try:
        with Image.open(path) as file:
            picture = ImageOps.exif_transpose(file).convert("L" if color == "gray" else "RGB")
    except UnidentifiedImageError:
        raise cenote.InputError(f"{path}: not a picture that Pillow can read, nor .npy or .npz") from None
    picture = _fit(picture, wanted, (height, width))
    pixels = np.asarray(picture, dtype=np.float32).reshape(picture.height, picture.width, -1)
    if color == "bgr":
        pixels = pixels[..., ::-1]
    pixels = _normalized(pixels, wanted, np.issubdtype(declared.dtype, np.integer), path)
    if layout == "nchw":
        pixels = pixels.transpose(2, 0, 1)
    return np.ascontiguousarray(pixels[None] if len(shape) == 4 else pixels, dtype=declared.dtype)


def _axes(shape: tuple[int | str | None, ...], layout: str | None) -> tuple[Any, Any, Any, str]:
    """Channels, height, width (None where unknown) and layout of one picture."""
    if layout is None:
        last_only = shape[2] in (1, 3) and shape[0] not in (1, 3)
        layout = "nhwc" if last_only else "nchw"
    channels, height, width = shape if layout == "nchw" else (shape[2], shape[0], shape[1])
    known = [extent if isinstance(extent, int) else None for extent in (channels, height, width)]
    return known[0], known[1], known[2], layout


def _fit(picture: Image, wanted: Preprocess, model_size: tuple[int | None, int | None]) -> Image:
    """Resize and crop."""
    from PIL import Image

    size = wanted.size
    if size is None and wanted.crop is None:
        size = (model_size[0] or picture.height, model_size[1] or picture.width)
    if size is not None:
        height, width = size if len(size) == 2 else size * 2
        if len(size) == 1 and wanted.crop is not None:
            ratio = size[0] / min(picture.height, picture.width)
            height, width = round(picture.height * ratio), round(picture.width * ratio)
        if (height, width) != (picture.height, picture.width):
            picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    if wanted.crop is not None:
        height, width = wanted.crop if len(wanted.crop) == 2 else wanted.crop * 2
        left, top = round((picture.width - width) / 2), round((picture.height - height) / 2)
        picture = picture.crop((left, top, left + width, top + height))
    return picture


def _normalized(pixels: NDArray[Any], wanted: Preprocess, integers: bool, path: Path) -> NDArray[Any]:
    scale = wanted.scale if wanted.scale is not None else 1.0 if integers else BYTE
    channels = pixels.shape[2]
    for name in ("mean", "std"):
        if len(getattr(wanted, name)) not in (1, channels):
            count = len(getattr(wanted, name))
            raise cenote.InputError(f"{path}: {name} has {count} numbers, the picture {channels} channel(s)")
    mean, std = np.array(wanted.mean, np.float32), np.array(wanted.std, np.float32)
    return np.asarray((pixels * np.float32(scale) - mean) / std)
