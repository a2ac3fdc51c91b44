"""Keras files: a configuration in JSON and arrays in HDF5, either both in an HDF5 file or beside each other in a zip.

Only the content of the file itself is read: HDF5's links to other files, arrays kept in other files and arrays of
which the file holds fewer bytes than they have are refused. Nothing is executed.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from cenote.core.errors import CenoteError, ModelError, UnsupportedError
from cenote.core.types import Array
from cenote.frontends.wire import ByteSource

HDF5 = b"\x89HDF\r\n\x1a\n"
ZIP = b"PK\x03\x04"
# Bytes.
_MOST_CONFIG = 64 << 20
_BAD_FILE = (
    OSError,
    RuntimeError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    IndexError,
    OverflowError,
    NotImplementedError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
)


class Stored(Protocol):
    """Stored arrays of a layer, or of the layers of a model."""

    def child(self, kind: str, name: str) -> Stored:
        """Return those of a model's next layer, which has this class and name."""

    def part(self, path: str) -> Stored:
        """Return those of a part of a layer: of a wrapped layer, or of a cell in it ("forward_layer/cell")."""

    def arrays(self) -> Sequence[Any]:
        """Return the layer's arrays in its order, as objects of HDF5."""


class SourceFile(io.RawIOBase):
    """A source as an open binary file."""

    def __init__(self, source: ByteSource) -> None:
        self.source, self.position = source, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = max(0, offset + (0, self.position, self.source.size)[whence])
        return self.position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        content = self.source.read(self.position, len(view))
        view[: len(content)] = content
        self.position += len(content)
        return len(content)


@contextlib.contextmanager
def opened(source: ByteSource) -> Iterator[tuple[Mapping[str, Any], str, Stored]]:
    """Yield a file's configuration of the model, the version of Keras that wrote it, and its arrays.

    Raises ModelError for a file that is no Keras model, UnsupportedError where h5py is not installed.
    """
    try:
        import h5py
    except ImportError:
        raise UnsupportedError(
            "reading Keras files takes the package h5py, which is not installed: pip install h5py"
        ) from None
    try:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(io.BufferedReader(SourceFile(source), 1 << 16))
            if source.read(0, 4) == ZIP:
                yield _in_zip(stack.enter_context(zipfile.ZipFile(file)), stack, h5py)
            else:
                root = stack.enter_context(h5py.File(file, "r"))
                if "model_config" not in root.attrs:
                    raise ModelError(
                        "the file holds weights without a model; save the whole model (model.save)"
                    )
                version = _text(root.attrs.get("keras_version", "2"))
                yield _json(_text(root.attrs["model_config"])), version, ByName(_group(root, "model_weights"))
    except CenoteError:
        raise
    except _BAD_FILE as error:
        raise ModelError(f"damaged, or no Keras model ({type(error).__name__}: {error})") from error


def _in_zip(
    archive: zipfile.ZipFile, stack: contextlib.ExitStack, h5py: Any
) -> tuple[Mapping[str, Any], str, Stored]:
    names = archive.namelist()
    if "config.json" not in names:
        raise ModelError("a zip archive without config.json is no Keras model")
    if "model.weights.h5" not in names:
        raise UnsupportedError(
            "the archive has no model.weights.h5; sharded and other weights are not supported"
        )
    config = _member(archive, "config.json")
    metadata: Mapping[str, Any] = {}
    if "metadata.json" in names:
        metadata = _json(_member(archive, "metadata.json"))
    weights = archive.getinfo("model.weights.h5")
    if weights.compress_type != zipfile.ZIP_STORED:
        raise UnsupportedError(
            "model.weights.h5 is compressed inside of the archive, which Keras does not do"
        )
    root = stack.enter_context(h5py.File(stack.enter_context(archive.open(weights)), "r"))
    return _json(config), str(metadata.get("keras_version", "3")), ByOrder(root)


def _member(archive: zipfile.ZipFile, name: str) -> str:
    if archive.getinfo(name).file_size > _MOST_CONFIG:
        raise ModelError(f"{name} has {archive.getinfo(name).file_size} bytes")
    return _text(archive.read(name))


def _text(content: Any) -> str:
    return content.decode() if isinstance(content, bytes) else str(content)


def _json(text: str) -> Mapping[str, Any]:
    try:
        config = json.loads(text)
    except RecursionError:
        raise ModelError("the configuration is nested too deeply") from None
    if not isinstance(config, dict):
        raise ModelError("the configuration is no object of JSON")
    return config


# ---- arrays ---------------------------------------------------------------------------------------------------------


def content_of(dataset: Any, what: str) -> Array:
    """Return an array of the file."""
    import h5py

    if not isinstance(dataset, h5py.Dataset):
        raise ModelError(f"{what} is no array")
    if dataset.external or dataset.is_virtual:
        raise ModelError(f"{what} is kept in another file, which is not read")
    if dataset.dtype.kind not in "fiub":
        raise UnsupportedError(f"{what} has elements of type {dataset.dtype}")
    if dataset.id.get_storage_size() != dataset.nbytes:
        raise UnsupportedError(
            f"{what} is compressed or incomplete: {dataset.nbytes} bytes of which "
            f"{dataset.id.get_storage_size()} are stored"
        )
    return np.asarray(dataset[()])


def _group(parent: Any, path: str) -> Any:
    """Return the object in a group under a path; None where there is none. Links are not followed."""
    import h5py

    item = parent
    for part in filter(None, path.split("/")):
        link = item.get(part, getlink=True) if isinstance(item, h5py.Group) else None
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise ModelError(f"'{path}' is a link, which is not followed")
        item = item[part]
    return item


class ByOrder:
    """Arrays of .keras files: a group per layer, named by its class and counted among those of its model."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.counts: dict[str, int] = {}

    def child(self, kind: str, name: str) -> ByOrder:
        stem = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", kind))
        stem = re.sub(r"([a-z])([A-Z])", r"\1_\2", stem).lower()
        count = self.counts.get(stem, 0)
        self.counts[stem] = count + 1
        # The second folder is that of Keras 2.
        for folder in ("layers", "_layer_checkpoint_dependencies"):
            group = (
                None
                if self.group is None
                else _group(self.group, f"{folder}/{stem}" + (f"_{count}" if count else ""))
            )
            if group is not None:
                return ByOrder(group)
        return ByOrder(None)

    def part(self, path: str) -> ByOrder:
        return ByOrder(None if self.group is None else _group(self.group, path))

    def arrays(self) -> Sequence[Any]:
        held = None if self.group is None else _group(self.group, "vars")
        return (
            []
            if held is None
            else [_group(held, name) for name in sorted(held, key=lambda name: (len(name), name))]
        )


class ByName:
    """Arrays of .h5 files: a group per layer of the outermost model. Those of models in it are all in one list, in
    which a layer's are identified by the name before the last."""

    def __init__(self, group: Any, outer: bool = True, layer: str = "", of_part: str = "") -> None:
        self.group, self.outer, self.layer, self.of_part = group, outer, layer, of_part

    def child(self, kind: str, name: str) -> ByName:
        if self.outer:
            return ByName(None if self.group is None else _group(self.group, name), False)
        return ByName(self.group, False, name)

    def part(self, path: str) -> ByName:
        return ByName(self.group, False, self.layer, path)

    def arrays(self) -> Sequence[Any]:
        if self.group is None or "weight_names" not in self.group.attrs:
            return []
        names = [_text(name) for name in np.atleast_1d(self.group.attrs["weight_names"])]
        places = slice(None, -1) if self.of_part else slice(-2, -1)  # parts have folders of their own
        mine = [name for name in names if not self.layer or self.layer in name.split("/")[places]]
        half = len(mine) // 2
        if self.of_part.startswith("forward"):
            mine = mine[:half]
        elif self.of_part.startswith("backward"):
            mine = mine[half:]
        return [_group(self.group, name) for name in mine]
