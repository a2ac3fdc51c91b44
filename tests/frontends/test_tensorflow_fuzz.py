"""Whatever the bytes or records: models of TensorFlow, TensorFlow Lite and Keras load, or an error of Cenote says why.

CENOTE_FUZZ_CASES sets the cases of each reader (200 by default). What loads is not run: that is for the graph's own
checks.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cenote.core.errors import CenoteError, ModelError
from cenote.core.options import Format
from cenote.frontends.builder import decoded
from cenote.frontends.formats import import_model
from tests.frontends.fuzzing import share
from tests.frontends.tensorflow_archive import ARCHIVE, NEEDS_H5PY

_SETTINGS = share(8)  # four graphs, and three Keras models of which two are changed in their records too
_FORMS: dict[str, Format] = {
    "mobilenet.pb": "graphdef", "mobilenet.pbtxt": "graphdef", "training.pb": "graphdef", "branches.pb": "graphdef",
    "unet.tflite": "tflite", "lite_int8.tflite": "tflite", "mobilenet.keras": "keras", "nested.keras": "keras",
    "mobilenet.h5": "keras",
}  # fmt: skip
with zipfile.ZipFile(ARCHIVE) as _archive:
    CONTENTS = {name: _archive.read(name) for name in _FORMS}
    FOLDERS = {
        stem: {name: _archive.read(name) for name in _archive.namelist() if name.startswith(f"{stem}.")}
        for stem in ("vgg", "checkpoint_resource", "checkpoint_reference")
    }
    FOLDERS["vgg"] = {
        name: content for name, content in FOLDERS["vgg"].items() if name.startswith("vgg.savedmodel/")
    }
NAMES = [pytest.param(name, marks=NEEDS_H5PY if name.endswith((".keras", ".h5")) else ()) for name in _FORMS]
BYTES = st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
EDITS = st.lists(st.tuples(st.floats(0, 1), BYTES, st.integers(0, 3)), min_size=1, max_size=8)
JSON = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 1 << 40), st.floats(allow_nan=False), st.text(max_size=4),
    st.just([]), st.just({}), st.lists(st.integers(-2, 5), max_size=4), st.sampled_from(["same", "conv2d", "Conv2D"]),
)  # fmt: skip


def edited(content: bytes, edits: list[tuple[float, int, int]]) -> bytes:
    """Bytes changed, and pieces cut out or doubled."""
    changed = bytearray(content)
    for place, byte, kind in edits:
        at = min(int(place * len(changed)), len(changed) - 1)
        if kind < 2:
            changed[at] = byte
        elif kind == 2:
            del changed[at : at + byte % 9]
        else:
            changed[at:at] = changed[at : at + byte % 9]
        if not changed:
            break
    return bytes(changed)


def survives(content: Any, form: Format | None) -> None:
    with contextlib.suppress(CenoteError):
        import_model(content, form)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # protobuf's, of escapes in damaged text
@pytest.mark.parametrize("name", NAMES)
@_SETTINGS
@given(edits=EDITS)
def test_bytes(name: str, edits: list[tuple[float, int, int]]) -> None:
    survives(edited(CONTENTS[name], edits), _FORMS[name])


@share(1)
@given(content=st.binary(max_size=300), form=st.sampled_from([None, "graphdef", "tflite", "keras"]))
def test_random_bytes(content: bytes, form: Format | None) -> None:
    survives(content, form)


@pytest.mark.parametrize("name", NAMES)
@_SETTINGS
@given(share=st.floats(0, 1))
def test_truncated(name: str, share: float) -> None:
    survives(CONTENTS[name][: int(share * len(CONTENTS[name]))], _FORMS[name])


def _damaged(
    folders: pytest.TempPathFactory, stem: str, edits: list[tuple[float, int, int]], which: int
) -> Path:
    """The files of a model in a folder of their own, one of them changed."""
    root, files = folders.getbasetemp() / "damaged", FOLDERS[stem]
    for number, (name, content) in enumerate(sorted(files.items())):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(edited(content, edits) if number == which % len(files) else content)
    return root


@share(1)
@given(edits=EDITS, which=st.integers(0, 3))
def test_saved_model(tmp_path_factory: pytest.TempPathFactory, edits: Any, which: int) -> None:
    survives(_damaged(tmp_path_factory, "vgg", edits, which) / "vgg.savedmodel" / "saved_model.pb", None)


@pytest.mark.parametrize("stem", ["checkpoint_resource", "checkpoint_reference"])
@share(2)
@given(edits=EDITS, which=st.integers(0, 2))
def test_graph_and_checkpoint(
    tmp_path_factory: pytest.TempPathFactory, stem: str, edits: Any, which: int
) -> None:
    """The table of a checkpoint, its values, the graph beside them."""
    survives(_damaged(tmp_path_factory, stem, edits, which) / f"{stem}.meta", "metagraph")


def _places(found: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return [path, *(place for key, inner in items for place in _places(inner, (*path, key)))]


def _zipped(config: bytes, weights: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("config.json", config)
        archive.writestr("model.weights.h5", weights)
    return buffer.getvalue()


@NEEDS_H5PY
@pytest.mark.parametrize("name", ["mobilenet.keras", "nested.keras"])
@_SETTINGS
@given(data=st.data())
def test_keras_records(name: str, data: st.DataObject) -> None:
    """Entries of the configuration take other values, or go."""
    with zipfile.ZipFile(io.BytesIO(CONTENTS[name])) as archive:
        config, weights = json.loads(archive.read("config.json")), archive.read("model.weights.h5")
    for _ in range(data.draw(st.integers(1, 3))):
        places = _places(config)[1:]
        *outer, last = data.draw(st.sampled_from(places))
        holder = config
        for key in outer:
            holder = holder[key]
        if data.draw(st.booleans()) and isinstance(holder, dict):
            del holder[last]
        else:
            holder[last] = data.draw(JSON)
    survives(_zipped(json.dumps(config).encode(), weights), "keras")


@NEEDS_H5PY
@pytest.mark.parametrize("kind", ["external link", "soft link", "external file", "hole"])
def test_keras_reads_nothing_else(tmp_path: Path, kind: str) -> None:
    """Weights in other files, or that the file does not hold, are refused."""
    import h5py

    with zipfile.ZipFile(io.BytesIO(CONTENTS["mobilenet.keras"])) as archive:
        config = archive.read("config.json")
        (tmp_path / "w.h5").write_bytes(archive.read("model.weights.h5"))
    (tmp_path / "secret").write_bytes(bytes(4096))
    with h5py.File(tmp_path / "w.h5", "r+") as file:
        kernels = file["layers/conv2d/vars"]
        shape = kernels["0"].shape
        kernels.move("0", "old")
        if kind == "external link":
            kernels["0"] = h5py.ExternalLink(str(tmp_path / "w.h5"), "/layers/conv2d/vars/old")
        elif kind == "soft link":
            kernels["0"] = h5py.SoftLink("/layers/conv2d/vars/old")
        elif kind == "external file":
            kernels.create_dataset("0", shape, "f4", external=[(str(tmp_path / "secret"), 0, 4096)])
        else:
            kernels.create_dataset("0", (1 << 40,), "f4", chunks=(1024,))
    with pytest.raises(CenoteError, match=r"link|another file|incomplete"):
        import_model(_zipped(config, (tmp_path / "w.h5").read_bytes()), "keras")


def test_without_h5py(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "h5py":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(CenoteError, match="pip install h5py"):
        import_model(CONTENTS["mobilenet.keras"])


def test_an_operation_with_other_inputs_than_it_takes_is_named() -> None:
    def decode(inputs: tuple[int, ...]) -> int:
        (axis,) = inputs
        return axis

    assert decoded(decode, (3,)) == 3
    with pytest.raises(ModelError, match="do not fit"):
        decoded(decode, (3, 4))
