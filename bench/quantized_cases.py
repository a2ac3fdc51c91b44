"""The models of `bench.quantized_accuracy`: their files, examples to calibrate on, others to test on, and a score."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from bench.files import MODEL_FOLDER, ModelFiles

ROOT = Path(__file__).parents[1]
CALIBRATED, TESTED = 256, 200  # examples of Fashion-MNIST to calibrate on; of crops to test on
NOISE = 8  # random inputs of networks with random weights, for each
SEED = 4


@dataclass(frozen=True)
class Case:
    """A float model and its data. `labels`: of the tests, in the last axis of the output `scores`; None where the score
    is the relative error against float."""

    name: str
    model: onnx.ModelProto
    calibration: np.ndarray
    tests: np.ndarray
    labels: np.ndarray | None = None
    scores: str = ""

    @property
    def input(self) -> str:
        """Name of the input."""
        constants = {each.name for each in self.model.graph.initializer}
        return next(str(each.name) for each in self.model.graph.input if each.name not in constants)


def _fashion_array(path: Path) -> np.ndarray:
    content = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def pictures(data: Path, split: str) -> np.ndarray:
    """Fashion-MNIST's pictures of "train" or "t10k", as the embedded network takes them."""
    found = _fashion_array(data / f"{split}-images-idx3-ubyte.gz")[:, None]
    return np.asarray(found.astype(np.float32) / np.float32(255))


def fashion(data: Path) -> Case:
    """The embedded network on Fashion-MNIST: training pictures to calibrate on, all 10,000 test pictures."""
    model = onnx.load(ROOT / "src" / "cenote" / "data" / "fashion.onnx")
    labels = _fashion_array(data / "t10k-labels-idx1-ubyte.gz")
    calibration = pictures(data, "train")[:CALIBRATED]
    return Case("fashion", model, calibration, pictures(data, "t10k"), labels, "logits")


def faces(name: str) -> Case:
    """A network of MTCNN on the 200 faces and non-faces of scikit-image: every fourth calibrates, the others test."""
    from skimage import data

    from examples.classify_picture import FACE_SIDES, mtcnn_input
    from examples.real_models import fetch

    pictures = [np.asarray(picture * 255, np.uint8) for picture in data.lfw_subset()]
    batch = np.stack([mtcnn_input(picture, FACE_SIDES[name], FACE_SIDES[name]) for picture in pictures])
    labels, first = np.arange(200) < 100, np.arange(200) % 4 == 0
    model = onnx.load(fetch(name))
    scores = next(each.name for each in model.graph.output if "softmax" in each.name or "prob" in each.name)
    return Case(name, model, batch[first], batch[~first], labels[~first].astype(int), scores)


def photographs(count: int, side: int, seed: int) -> np.ndarray:
    """Crops of scikit-image's photographs, bytes [n, side, side, 3], of several sizes."""
    from PIL import Image
    from skimage import data

    generator = np.random.default_rng(seed)
    sources = [
        getattr(data, name)() for name in ("astronaut", "coffee", "chelsea", "rocket", "motorcycle")[:4]
    ]
    made = []
    for place in range(count):
        source = sources[place % len(sources)]
        extent = int(generator.integers(min(source.shape[:2]) // 2, min(source.shape[:2])))
        top, left = (int(generator.integers(0, size - extent + 1)) for size in source.shape[:2])
        crop = Image.fromarray(source[top : top + extent, left : left + extent])
        made.append(np.asarray(crop.resize((side, side))))
    return np.stack(made)


def orientation() -> Case:
    """PP-LCNet (depthwise convolutions, HardSwish, squeeze and excitation), which tells how a page is turned: crops of
    scikit-image's page, turned four ways; others to test."""
    from PIL import Image
    from skimage import data

    from examples.real_models import fetch

    page, generator = np.asarray(data.page()), np.random.default_rng(SEED)

    def crops(count: int) -> tuple[np.ndarray, np.ndarray]:
        made, labels = [], np.arange(count) % 4
        for turns in labels:
            extent = int(generator.integers(120, min(page.shape)))
            top, left = (int(generator.integers(0, size - extent + 1)) for size in page.shape)
            crop = np.rot90(page[top : top + extent, left : left + extent], int(turns))
            pixels = np.asarray(Image.fromarray(crop).convert("RGB").resize((224, 224)), np.float32) / 255
            made.append(((pixels - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).transpose(2, 0, 1))
        return np.stack(made).astype(np.float32), labels

    (calibration, _), (tests, _) = crops(64), crops(TESTED)
    return Case("orientation", onnx.load(fetch("orientation")), calibration, tests)


def face_map() -> Case:
    """centerface (MobileNet-v2 with a pyramid), on crops of photographs."""
    from examples.real_models import fetch

    model = onnx.load(fetch("centerface"))
    for value in (*model.graph.input[:1], *model.graph.output):
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            if axis != 1:  # the file declares a dummy size
                dimension.dim_param = f"{value.name}_{axis}"
    calibration, tests = (
        photographs(count, 224, seed).astype(np.float32).transpose(0, 3, 1, 2)
        for count, seed in ((32, 1), (48, 2))
    )
    return Case("centerface", model, np.ascontiguousarray(calibration), np.ascontiguousarray(tests))


def noise(name: str, folder: Path = MODEL_FOLDER) -> Case:
    """A network of `bench.export`, whose weights are random, on normal noise."""
    files = ModelFiles(name, folder)
    model = onnx.load(files.onnx)
    shape = files.read("x").shape
    calibration, tests = (
        np.random.default_rng(seed).standard_normal((NOISE * shape[0], *shape[1:]), dtype=np.float32)
        for seed in (SEED, SEED + 1)
    )
    return Case(name, model, calibration, tests)


def cases(data: Path, folder: Path) -> dict[str, Callable[[], Case]]:
    """Every case by name. `data`: the folder of Fashion-MNIST's files; `folder`: that of exported networks."""
    made: dict[str, Callable[[], Case]] = {
        "fashion": lambda: fashion(data),
        "rnet": lambda: faces("rnet"),
        "onet": lambda: faces("onet"),
        "orientation": orientation,
        "centerface": face_map,
    }
    for name in ("mobilenet_v2", "efficientnet_b0", "squeezenet1_1", "resnet18"):
        made[name] = partial(noise, name, folder)
    return made
