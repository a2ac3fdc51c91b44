"""Recurrent layers of Keras, as Keras computes them: see `make_keras_recurrent`."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from tests.frontends.tensorflow_archive import NEEDS_H5PY

pytestmark = NEEDS_H5PY
ARCHIVE = Path(__file__).with_name("keras_recurrent.zip")
with zipfile.ZipFile(ARCHIVE) as _archive:
    NAMES = sorted(Path(each).stem for each in _archive.namelist() if each.endswith(".npz"))


def content(name: str) -> bytes:
    with zipfile.ZipFile(ARCHIVE) as archive:
        return archive.read(name)


@pytest.mark.parametrize("ending", ["keras", "h5"])
@pytest.mark.parametrize("name", NAMES)
def test_it_computes_what_keras_does(name: str, ending: str) -> None:
    model = cenote.load(content(f"{name}.{ending}"))
    with np.load(io.BytesIO(content(f"{name}.npz"))) as held:
        inputs = [held[f"x{i}"] for i in range(len(model.inputs))]
        expected = [held[each] for each in sorted(held.files) if each.startswith("y")]
    found = model(*inputs)
    for got, want in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_other_lengths_and_batches() -> None:
    model = cenote.load(content("both.keras"))
    x = np.random.default_rng(1).standard_normal((3, 11, 3)).astype(np.float32)
    whole = model(x)
    for row in range(3):
        np.testing.assert_allclose(model(x[row : row + 1]), whole[row : row + 1], rtol=1e-5, atol=1e-6)
    assert model(x[:, :1]).shape == (3, 1, 8)


def changed(name: str, layer: str, entries: dict[str, Any], other: str = "") -> bytes:
    """A .keras file whose layers of a class have other entries of their configuration, or are `other` layers."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content(name))) as old, zipfile.ZipFile(made, "w") as new:
        config = json.loads(old.read("config.json"))
        for each in config["config"]["layers"]:
            if each["class_name"] == layer:
                each["config"].update(entries)
                each["class_name"] = other or layer
        for part in old.namelist():
            new.writestr(part, json.dumps(config) if part == "config.json" else old.read(part))
    return made.getvalue()


@pytest.mark.parametrize(
    ("name", "layer", "entries", "error", "reason"),
    [
        ("lstm", "LSTM", {"stateful": True}, cenote.UnsupportedError, "make them inputs .initial_state. and outputs"),
        ("lstm", "LSTM", {"activation": "gelu"}, cenote.UnsupportedError, "the activation 'gelu' of a recurrent"),
        ("lstm", "LSTM", {"units": 5}, cenote.ModelError, r"shapes \[3, 16\] and \[4, 16\], not \[features, 20\]"),
        ("both", "Bidirectional", {"merge_mode": "max"}, cenote.ModelError, "'merge_mode' of the configuration"),
        ("both", "Bidirectional", {"layer": {"class_name": "Dense", "config": {"name": "d"}}},
         cenote.UnsupportedError, "a recurrent layer of Dense"),
        ("distributed", "TimeDistributed", {"layer": {"class_name": "Odd", "config": {"name": "d"}}},
         cenote.UnsupportedError, "Odd at each step"),
    ],
    ids=["stateful", "activation", "units", "merge", "wrapped", "distributed"],
)  # fmt: skip
def test_what_cannot_be_read_is_named(
    name: str, layer: str, entries: dict[str, Any], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=rf"layer '\w+' \({layer}\): .*{reason}"):
        cenote.load(changed(f"{name}.keras", layer, entries))


@pytest.mark.parametrize("other", ["Softmax", "Add"])
def test_what_computes_otherwise_with_masks_is_refused(other: str) -> None:
    with pytest.raises(cenote.UnsupportedError, match=rf"\({other}\): a mask on .* is not supported"):
        cenote.load(changed("masked_mean.keras", "Dropout", {}, other))


def test_masks_of_other_lengths() -> None:
    """Words of which none counts, in front, behind and in between, one sample at a time and together."""
    model = cenote.load(content("masked_rows.keras"))
    words = np.random.default_rng(2).integers(0, 3, (6, 9)).astype(np.int32)
    whole = model(words)
    for row, counts in zip(range(6), words != 0, strict=True):
        alone = model(words[row : row + 1])[0]
        np.testing.assert_allclose(alone, whole[row], rtol=1e-5, atol=1e-6)
        short = model(words[row : row + 1, counts])[0]  # the steps that count, and nothing else
        np.testing.assert_allclose(alone[counts], short, rtol=1e-5, atol=1e-6)
