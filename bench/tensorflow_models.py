"""Large Keras networks in every format of TensorFlow: answers beside TensorFlow's, speed beside LiteRT's.

python -m bench.tensorflow_models build [names]    # writes the models; needs tensorflow, keras, h5py
python -m bench.tensorflow_models check [names]    # loads every format, compares, prints a table
python -m bench.tensorflow_models speed [names] --threads 1 2    # round robin on the .tflite; needs ai-edge-litert
"""

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.engines.base import Arrays
from bench.engines.registry import EngineSpec
from bench.files import MODEL_FOLDER
from bench.report import milliseconds, table
from bench.rounds import Plan, compare

FOLDER = MODEL_FOLDER / "tensorflow"
FORMATS = ("keras", "h5", "savedmodel", "pb", "tflite")
TOLERANCE = 1e-5  # of the largest number of the output
NETWORKS = {
    "mobilenet_v1": ("MobileNet", 224), "mobilenet_v2": ("MobileNetV2", 224), "resnet50": ("ResNet50", 224),
    "inception_v3": ("InceptionV3", 299), "efficientnet_lite0": ("", 224), "densenet121": ("DenseNet121", 224),
    "vgg16": ("VGG16", 224), "xception": ("Xception", 299), "nasnet_mobile": ("NASNetMobile", 224),
    "resnet50_v2": ("ResNet50V2", 224),
}  # fmt: skip
TIMED = ("mobilenet_v1", "mobilenet_v2", "resnet50", "inception_v3", "efficientnet_lite0")
ENGINES = (
    EngineSpec("cenote", "bench.engines.tflite", "Cenote"),
    EngineSpec("litert", "bench.engines.tflite", "LiteRT"),
)
# EfficientNet-lite0: (repeats, channels, stride, expansion, window) of each stage.
STAGES = (
    (1, 16, 1, 1, 3), (2, 24, 2, 6, 3), (2, 40, 2, 6, 5), (3, 80, 2, 6, 3), (3, 112, 1, 6, 5), (4, 192, 2, 6, 5),
    (1, 320, 1, 6, 3),
)  # fmt: skip


def efficientnet_lite() -> Any:
    """EfficientNet-lite0: B0 without squeeze and excitation, ReLU6 in place of swish."""
    import keras
    from keras import layers

    def normalised(y: Any, act: bool = True) -> Any:
        y = layers.BatchNormalization()(y)
        return layers.ReLU(6.0)(y) if act else y

    x = keras.Input((224, 224, 3))
    y = normalised(layers.Conv2D(32, 3, 2, padding="same", use_bias=False)(x))
    for repeats, channels, stride, expansion, window in STAGES:
        for number in range(repeats):
            z, step = y, stride if number == 0 else 1
            if expansion > 1:
                z = normalised(layers.Conv2D(y.shape[-1] * expansion, 1, use_bias=False)(z))
            z = normalised(layers.DepthwiseConv2D(window, step, padding="same", use_bias=False)(z))
            z = normalised(layers.Conv2D(channels, 1, use_bias=False)(z), act=False)
            y = layers.Add()([y, z]) if step == 1 and y.shape[-1] == channels else z
    y = layers.GlobalAveragePooling2D()(normalised(layers.Conv2D(1280, 1, use_bias=False)(y)))
    return keras.Model(x, layers.Dense(1000, activation="softmax")(y))


def build(name: str) -> None:
    """Write a network in every format, its input and TensorFlow's answer."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras
    import tensorflow as tf

    from tests.frontends.make_tensorflow_models import frozen
    from tests.frontends.tensorflow_networks import with_statistics

    keras.utils.set_random_seed(1)
    title, size = NETWORKS[name]
    model = getattr(keras.applications, title)(weights=None) if title else efficientnet_lite()
    with_statistics(model)
    FOLDER.mkdir(parents=True, exist_ok=True)
    model.save(FOLDER / f"{name}.keras")
    model.save(FOLDER / f"{name}.h5")
    model.export(FOLDER / f"{name}.savedmodel", verbose=False)
    (FOLDER / f"{name}.pb").write_bytes(frozen(model).SerializeToString())
    (FOLDER / f"{name}.tflite").write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    x = np.random.default_rng(0).standard_normal((1, size, size, 3)).astype(np.float32)
    np.savez(FOLDER / f"{name}.npz", x=x, y=np.asarray(model(x, training=False)))


def error(y: Any, expected: np.ndarray) -> float:
    """The largest difference, of the largest number of the answer."""
    return float(np.abs(np.asarray(y) - expected).max() / np.abs(expected).max())


def check(name: str) -> list[str]:
    """A row: the error in each format."""
    import cenote

    with np.load(FOLDER / f"{name}.npz") as archive:
        x, expected = archive["x"], archive["y"]
    cells = [name]
    for form in FORMATS:
        found = error(cenote.load(FOLDER / f"{name}.{form}")(x), expected)
        cells.append(f"{found:.1e}{'' if found <= TOLERANCE else ' !'}")
    print(" ".join(cells), flush=True)
    return cells


def speed(name: str, threads: int, seconds: float) -> list[str]:
    """A row: medians of both engines and their ratio, one engine at a time in turns."""
    with np.load(FOLDER / f"{name}.npz") as archive:
        x, expected = archive["x"], archive["y"]

    def judge(outputs: Arrays) -> float:
        return error(outputs[0], expected)

    ours, theirs = compare(ENGINES, FOLDER / f"{name}.tflite", x, judge, Plan(threads, seconds, rounds=5))
    if ours.failure or theirs.failure:
        return [name, str(threads), ours.failure or "-", theirs.failure or "-", "-", "-"]
    cells = [
        name, str(threads), milliseconds(ours.median), milliseconds(theirs.median),
        f"{theirs.median / ours.median:.2f}", f"{theirs.fastest / ours.fastest:.2f}",
    ]  # fmt: skip
    print(" ".join(cells), flush=True)
    return cells


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.tensorflow_models", description=__doc__)
    parser.add_argument("what", choices=("build", "check", "speed"))
    parser.add_argument(
        "names", nargs="*", help="networks (default: all; for speed, those that LiteRT is compared on)"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=4.0, help="per engine, network and thread count")
    given = parser.parse_args()
    names = given.names or (TIMED if given.what == "speed" else tuple(NETWORKS))
    if given.what == "build":
        for name in names:
            build(name)
            print(f"{name}: written", flush=True)
        return
    actions: dict[str, Callable[[], list[list[str]]]] = {
        "check": lambda: [check(name) for name in names],
        "speed": lambda: [speed(name, t, given.seconds) for t in given.threads for name in names],
    }
    header = ["network", *FORMATS]
    if given.what == "speed":
        header = ["network", "T", "cenote ms", "litert ms", "ratio of medians", "ratio of minima"]
    sys.stdout.write(f"\n{table(header, actions[given.what]())}")


if __name__ == "__main__":
    main()
