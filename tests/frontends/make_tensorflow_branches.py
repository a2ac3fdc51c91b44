"""Makes tests/frontends/tensorflow_branches.zip: frozen graphs whose branches a placeholder decides, and graphs that
are fed inside of them, with TensorFlow's answers.

Run with TensorFlow 2.x installed; the tests need none of it:

    python tests/frontends/make_tensorflow_branches.py
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

ARCHIVE = Path(__file__).with_name("tensorflow_branches.zip")
_STAMP = (2026, 1, 1, 0, 0, 0)
_rng = np.random.default_rng(5)
v1 = tf.compat.v1
Feed = dict[str, Any]


def _normal(*shape: int) -> Any:
    return _rng.standard_normal(shape).astype(np.float32)


def _batch_normalisation(name: str) -> Callable[[], None]:
    """Statistics of the batch or of the training, as a placeholder says, three times."""

    def build() -> None:
        y = v1.placeholder(tf.float32, [None, 8, 8, 3], name="x")
        training = v1.placeholder(tf.bool, [], name=name)
        for _ in range(3):
            y = v1.nn.conv2d(y, _normal(3, 3, y.shape[-1], 4) / 6, 1, "SAME")
            kept = tf.Variable(_normal(4)), tf.Variable(np.abs(_normal(4)) + 0.5)
            mean, variance = v1.cond(
                training,
                lambda y=y: [tf.identity(each) for each in tf.nn.moments(y, [0, 1, 2])],
                lambda kept=kept: [tf.identity(each) for each in kept],
            )
            y = tf.nn.relu(tf.nn.batch_normalization(y, mean, variance, _normal(4), np.abs(_normal(4)), 1e-3))
        tf.identity(y, name="y")

    return build


def _fused() -> None:
    y = v1.nn.conv2d(
        v1.placeholder(tf.float32, [None, 8, 8, 3], name="x"), _normal(3, 3, 3, 4) / 6, 1, "SAME"
    )
    scale, offset, mean, variance = (np.abs(_normal(4)) + 0.3 for _ in range(4))
    y = v1.cond(
        v1.placeholder(tf.bool, name="phase"),
        lambda: v1.nn.fused_batch_norm(y, scale, offset, is_training=True),
        lambda: v1.nn.fused_batch_norm(y, scale, offset, mean, variance, is_training=False),
    )[0]
    tf.identity(y, name="y")


def _nested() -> None:
    """Branches in branches, the same condition twice, constants, several values, values that pass through."""
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    a, b = (v1.placeholder(tf.bool, [], name=name) for name in "ab")
    w, v = tf.constant(_normal(4)), _normal(2, 4)
    y = v1.cond(
        a,
        lambda: v1.cond(b, lambda: x * w, lambda: x + w),
        lambda: v1.cond(b, lambda: tf.constant(v), lambda: v1.cond(a, lambda: x, lambda: -x)),
    )
    z = v1.cond(a, lambda: 1.5, lambda: 2.5)
    first, second = v1.cond(b, lambda: (x, y), lambda: (y, x))
    tf.identity(y * z, name="y")
    tf.identity(first - 2 * second, name="z")


def _function() -> None:
    """If with functions for branches."""
    v1.enable_control_flow_v2()
    x, a = v1.placeholder(tf.float32, [None, 4], name="x"), v1.placeholder(tf.bool, [], name="a")
    w = _normal(4)
    y, z = v1.cond(a, lambda: (x * w, x), lambda: (x + w, x * 2))
    tf.identity(y, name="y")
    tf.identity(z, name="z")
    v1.disable_control_flow_v2()


def _dropout() -> None:
    """A label of text beside, that nothing needs."""
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    keep = v1.placeholder(tf.float32, [], name="keep_prob")
    label = v1.placeholder(tf.string, [], name="label")
    tf.strings.join([label, "x"], name="joined")
    hidden = v1.nn.dropout(tf.nn.relu(tf.matmul(x, _normal(4, 6))), keep)
    tf.nn.softmax(tf.matmul(hidden, _normal(6, 3)), name="y")


def _defaults() -> None:
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    scale = v1.placeholder_with_default(0.5, [], name="scale")
    flag = v1.placeholder_with_default(False, [], name="flag")
    tf.identity(v1.cond(flag, lambda: x * scale, lambda: x / scale), name="y")


def _picture() -> None:
    """A picture as JPEG in front, and what is fed behind it."""
    decoded = tf.image.decode_jpeg(
        v1.placeholder(tf.string, [], name="contents"), channels=3, name="DecodeJpeg"
    )
    batch = tf.expand_dims(tf.cast(decoded, tf.float32, name="Cast"), 0, name="ExpandDims")
    small = v1.image.resize_bilinear(batch, [8, 8], name="ResizeBilinear")
    scaled = tf.multiply(tf.subtract(small, 128.0, name="Sub"), 1 / 128, name="Mul")
    pool = tf.nn.relu(v1.nn.conv2d(scaled, _normal(3, 3, 3, 4), 1, "SAME"), name="pool")
    tf.nn.softmax(tf.reshape(pool, [-1, 256]), name="softmax")


def _case(name: str, build: Callable[[], None], feeds: Sequence[Feed], fetches: Sequence[str]) -> Any:
    """A graph without variables, and its answers for some feeds."""
    v1.disable_control_flow_v2()
    v1.disable_resource_variables()
    with tf.Graph().as_default() as graph:
        build()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            answers = [session.run([f"{each}:0" for each in fetches], feed) for feed in feeds]
            frozen = graph.as_graph_def()
            if name != "function":
                frozen = v1.graph_util.convert_variables_to_constants(session, frozen, [*fetches])
    arrays = {}
    for number, (feed, made) in enumerate(zip(feeds, answers, strict=True)):
        arrays |= {f"{number}|{key}": np.asarray(x) for key, x in feed.items() if key != "label:0"}
        arrays |= {f"{number}|={key}": y for key, y in zip(fetches, made, strict=True)}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return name, frozen.SerializeToString(), buffer.getvalue()


def main() -> None:
    x, rows, f, t = _normal(2, 8, 8, 3), _normal(2, 4), np.bool_(False), np.bool_(True)
    picture = _rng.integers(0, 256, (10, 12, 3)).astype(np.uint8)
    real, pairs = picture.astype(np.float32), [(p, q) for p in (f, t) for q in (f, t)]
    cases = [
        *(
            _case(
                f"normalised_{name}",
                _batch_normalisation(name),
                [{"x:0": x, f"{name}:0": p} for p in (f, t)],
                ["y"],
            )
            for name in ("phase", "is_training")
        ),
        _case("fused", _fused, [{"x:0": x, "phase:0": f}], ["y"]),
        _case("nested", _nested, [{"x:0": rows, "a:0": p, "b:0": q} for p, q in pairs], ["y", "z"]),
        _case("function", _function, [{"x:0": rows, "a:0": p} for p in (f, t)], ["y", "z"]),
        _case("dropout", _dropout, [{"x:0": rows, "keep_prob:0": np.float32(1), "label:0": b"q"}], ["y"]),
        _case(
            "defaults",
            _defaults,
            [{"x:0": rows, "scale:0": np.float32(3), "flag:0": p} for p in (f, t)],
            ["y"],
        ),
        _case(
            "picture",
            _picture,
            [{"DecodeJpeg:0": picture}, {"Cast:0": real}, {"ExpandDims:0": real[None]}, {"Mul:0": x[:1]}],
            ["softmax", "pool"],
        ),
    ]
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_LZMA) as archive:
        files = {"cases.json": json.dumps([name for name, *_ in cases]).encode()}
        for name, graph, answers in cases:
            files |= {f"{name}.pb": graph, f"{name}.npz": answers}
        for file, content in files.items():
            info = zipfile.ZipInfo(file, _STAMP)
            info.compress_type = zipfile.ZIP_LZMA
            archive.writestr(info, content)
    print(f"{len(cases)} graphs, {ARCHIVE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
