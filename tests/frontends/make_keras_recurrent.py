"""Keras models with recurrent layers and what Keras computes: keras_recurrent.zip. Needs keras and
a backend.

KERAS_BACKEND=torch python -m tests.frontends.make_keras_recurrent
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from pathlib import Path

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import layers as L

ARCHIVE = Path(__file__).with_name("keras_recurrent.zip")


def recurrent(kind: str, **options: object) -> object:
    return getattr(L, kind)(4, bias_initializer="random_normal", **options)


def in_a_row(*each: object, shape: tuple[int | None, ...] = (None, 3)) -> object:
    return keras.Sequential([L.Input(shape), *each])


def translator() -> object:
    """An encoder whose states a decoder begins with."""
    given, told = L.Input((None, 3)), L.Input((None, 2))
    _, h, c = recurrent("LSTM", return_state=True)(given)
    y = recurrent("LSTM", return_sequences=True)(told, initial_state=[h, c])
    return keras.Model([given, told], L.Dense(2)(y))


def states() -> object:
    given = L.Input((5, 3))
    y, h = recurrent("GRU", return_sequences=True, return_state=True)(given)
    return keras.Model(given, [y, h])


def inner() -> object:
    """Recurrent layers in a model in a model."""
    part = in_a_row(recurrent("LSTM", return_sequences=True), L.Bidirectional(recurrent("GRU")))
    return in_a_row(L.Dense(3), part, L.Dense(2))


def words(*each: object) -> object:
    """Layers behind an embedding of which the first word is none."""
    return keras.Sequential([L.Input((None,), dtype="int32"), L.Embedding(4, 3, mask_zero=True), *each])


def masked() -> dict[str, object]:
    """Sequences of which some steps do not count: at the begin, in the middle, at the end."""
    both = L.Bidirectional
    given, told = L.Input((None, 3)), L.Input((None,), dtype="int32")
    _, h, c = recurrent("LSTM", return_state=True)(L.Masking(0.5)(given))
    y = recurrent("LSTM", return_sequences=True)(
        L.Embedding(4, 3, mask_zero=True)(told), initial_state=[h, c]
    )
    rows = {"return_sequences": True}
    return {
        "masked_lstm": words(recurrent("LSTM")),
        "masked_rows": words(recurrent("GRU", **rows)),
        "masked_zero": words(recurrent("SimpleRNN", zero_output_for_mask=True, **rows)),
        "masked_back": words(recurrent("LSTM", go_backwards=True, **rows), L.Dense(2)),
        "masked_both": words(both(recurrent("GRU", **rows)), recurrent("LSTM")),
        "masked_both_last": words(both(recurrent("LSTM"), merge_mode="sum")),
        "masked_mean": words(L.Dropout(0.5), L.Dense(3), L.GlobalAveragePooling1D()),
        "masked_max": words(L.Conv1D(3, 2), L.GlobalMaxPooling1D()),
        "masked_steps": in_a_row(L.Masking(0.5), L.TimeDistributed(L.Dense(4)), recurrent("GRU")),
        "masked_translator": keras.Model([given, told], [L.Dense(2)(y), L.LSTM(2)(y)]),
    }


def models() -> dict[str, object]:
    both = L.Bidirectional
    return {
        "lstm": in_a_row(recurrent("LSTM")),
        "lstm_rows": in_a_row(recurrent("LSTM", return_sequences=True, use_bias=False)),
        "lstm_hard": in_a_row(recurrent("LSTM", recurrent_activation="hard_sigmoid", activation="softsign")),
        "lstm_back": in_a_row(recurrent("LSTM", return_sequences=True, go_backwards=True)),
        "lstm_relu": in_a_row(recurrent("LSTM", activation="relu", unit_forget_bias=False)),
        "gru": in_a_row(recurrent("GRU")),
        "gru_before": in_a_row(recurrent("GRU", reset_after=False, return_sequences=True)),
        "gru_plain": in_a_row(recurrent("GRU", use_bias=False, go_backwards=True)),
        "rnn": in_a_row(recurrent("SimpleRNN", return_sequences=True)),
        "rnn_linear": in_a_row(recurrent("SimpleRNN", activation="linear")),
        "both": in_a_row(both(recurrent("LSTM", return_sequences=True))),
        "both_last": in_a_row(both(recurrent("GRU"), merge_mode="sum")),
        "both_mul": in_a_row(both(recurrent("LSTM", return_sequences=True), merge_mode="mul")),
        "both_ave": in_a_row(both(recurrent("SimpleRNN"), merge_mode="ave")),
        "both_other": in_a_row(
            both(recurrent("LSTM"), backward_layer=recurrent("GRU", go_backwards=True), merge_mode="concat")
        ),
        "distributed": in_a_row(L.TimeDistributed(L.Dense(5, activation="relu")), recurrent("LSTM")),
        "distributed_conv": in_a_row(
            L.TimeDistributed(L.Conv2D(4, 3, padding="same")), L.TimeDistributed(L.MaxPooling2D()),
            L.TimeDistributed(L.Flatten()), recurrent("GRU"), shape=(6, 8, 8, 2),
        ),
        "activations": in_a_row(
            L.Dense(4, activation=L.LeakyReLU(negative_slope=0.3)), L.Dense(4, activation=L.ReLU(max_value=1.0)),
            L.Dense(4, activation=L.ELU(0.5)), L.Dense(4, activation=L.Softmax()), shape=(3,),
        ),
        "translator": translator(),
        "states": states(),
        "inner": inner(),
        **masked(),
    }  # fmt: skip


def picture(model: object, random: np.random.Generator) -> list[np.ndarray]:
    """Numbers for the inputs: open sizes are 2 for the batch, else 7."""
    shapes = [
        [2 if i == 0 else 7 if d is None else d for i, d in enumerate(each.shape)] for each in model.inputs
    ]
    made = []
    for each, shape in zip(model.inputs, shapes, strict=True):
        numbers = random.standard_normal(shape).astype(np.float32)
        if each.dtype == "int32":
            numbers = random.integers(0, 4, [4, *shape[1:]]).astype(np.int32)
            numbers[0] = 0  # nothing counts
        elif any(isinstance(layer, L.Masking) for layer in model.layers):
            numbers = random.standard_normal([4, *shape[1:]]).astype(np.float32)
            numbers[random.random(numbers.shape[:2]) < 0.4] = 0.5
        made.append(numbers)
    return made


def write(
    archive: zipfile.ZipFile, folder: Path, name: str, model: object, random: np.random.Generator
) -> None:
    """A model with random weights, its inputs and outputs."""
    for weight in model.weights:
        weight.assign(random.standard_normal(weight.shape) * 0.5)
    inputs = picture(model, random)
    found = model.predict(inputs if len(inputs) > 1 else inputs[0], verbose=0)
    outputs = found if isinstance(found, list | tuple) else [found]
    held = {f"x{i}": x for i, x in enumerate(inputs)} | {f"y{i}": y for i, y in enumerate(outputs)}
    content = io.BytesIO()
    np.savez(content, **held)
    archive.writestr(f"{name}.npz", content.getvalue())
    for ending in ("keras", "h5"):
        path = Path(folder) / f"{name}.{ending}"
        model.save(path)
        archive.write(path, path.name)


def main() -> None:
    random = np.random.default_rng(0)
    with (
        zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive,
        tempfile.TemporaryDirectory() as folder,
    ):
        for name, model in models().items():
            write(archive, Path(folder), name, model, random)


if __name__ == "__main__":
    main()
