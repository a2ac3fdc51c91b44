"""ONNX tensors and attributes as NumPy arrays and Python values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from cenote.core.errors import MissingFileError, ModelError, UnsupportedError
from cenote.core.types import Array, Dimension

TensorProto = onnx.TensorProto
# Types of which several elements share a byte.
_PACKED = {
    getattr(TensorProto, name)
    for name in ("INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1", "FLOAT6E2M3", "FLOAT6E3M2")
    if hasattr(TensorProto, name)
}
MISSING_FOLDER = (
    "the model was not given as a path, so its external data cannot be found; load it from its file"
)


def dtype_of(data_type: int, what: str) -> np.dtype[Any]:
    """Return the NumPy dtype of an ONNX element type; strings are Python objects."""
    if data_type == TensorProto.UNDEFINED:
        raise ModelError(f"{what} has no element type (UNDEFINED)")
    try:
        dtype: np.dtype[Any] = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(data_type))
    except (KeyError, TypeError):
        raise UnsupportedError(
            f"{what} has element type {data_type}, which is not an ONNX type known here"
        ) from None
    return dtype


def shape_of(tensor: Any) -> tuple[Dimension, ...] | None:
    """Return the declared shape of a TypeProto.Tensor: a size, a name or None for each dimension; some exporters write
    -1 for unknown. None where it has none."""
    if not tensor.HasField("shape"):
        return None
    return tuple(
        (d.dim_value if d.dim_value >= 0 else None) if d.HasField("dim_value") else d.dim_param or None
        for d in tensor.shape.dim
    )


class Tensors:
    """Reader of tensors. `folder` contains external data: the model's own folder, or None for a model in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        # Files that tensors were read from, as the model names them.
        self.external: dict[str, None] = {}

    def array(self, tensor: Any, what: str, content: NDArray[np.uint8] | None = None) -> Array:
        """Return the content of a TensorProto, C-contiguous, perhaps read-only.

        `content` holds its raw bytes when they are not in the message. `what` names the tensor in errors.
        """
        if tensor.HasField("segment"):
            raise UnsupportedError(f"{what} is stored in segments; save the model with whole tensors")
        dtype = dtype_of(tensor.data_type, what)
        shape = self._shape(tensor, what)
        if tensor.data_location == TensorProto.EXTERNAL:
            content = self._external(tensor, what)
        elif content is None and tensor.HasField("raw_data"):
            content = np.frombuffer(tensor.raw_data, np.uint8)
        if tensor.data_type == TensorProto.STRING:
            return self._decoded(tensor, shape, what)
        if content is not None and tensor.data_type not in _PACKED:
            return _from_bytes(content, dtype, shape, what)
        return self._decoded(tensor, shape, what, content)

    def _shape(self, tensor: Any, what: str) -> tuple[int, ...]:
        shape = tuple(tensor.dims)
        if any(extent < 0 for extent in shape):
            raise ModelError(f"{what} has a negative extent in its shape {list(shape)}")
        if len(shape) > 32:
            raise UnsupportedError(f"{what} has {len(shape)} axes; at most 32 are supported")
        return shape

    def _decoded(
        self, tensor: Any, shape: tuple[int, ...], what: str, content: NDArray[np.uint8] | None = None
    ) -> Array:
        """Decode with onnx.numpy_helper: typed fields, strings, and elements smaller than a byte."""
        available = tensor.ByteSize() + (0 if content is None else content.size)
        # Guards the unpacking, which allocates the size that the shape claims.
        if math.prod(shape) > 8 * available:
            raise ModelError(f"{what} has shape {list(shape)} but only {available} bytes of content")
        if content is not None:
            copy = TensorProto(data_type=tensor.data_type, dims=shape, raw_data=content.tobytes())
            tensor = copy
        try:
            array: Array = np.ascontiguousarray(onnx.numpy_helper.to_array(tensor)).reshape(shape)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise ModelError(f"{what}: its content does not fit its shape {list(shape)} ({error})") from error
        return array

    def _external(self, tensor: Any, what: str) -> NDArray[np.uint8]:
        """Return the bytes of a tensor in a file beside the model."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path = self._external_path(entries.get("location", ""), what)
        try:
            offset, length = int(entries.get("offset") or 0), int(entries.get("length") or -1)
        except ValueError:
            raise ModelError(f"{what}: offset or length of its external data is not a number") from None
        try:
            size = path.stat().st_size
            if length < 0:
                dtype = dtype_of(tensor.data_type, what)
                length = (
                    size - offset if tensor.data_type in _PACKED else math.prod(tensor.dims) * dtype.itemsize
                )
            if offset < 0 or offset + length > size:
                raise ModelError(
                    f"{what}: its external data '{path.name}' has {size} bytes, too few for "
                    f"bytes {offset} to {offset + length}; the file is truncated or belongs to another model"
                )
            return np.fromfile(path, np.uint8, count=length, offset=offset)
        except OSError as error:
            raise ModelError(
                f"{what}: its external data '{path}' cannot be read ({error.strerror})"
            ) from error

    def _external_path(self, location: str, what: str) -> Path:
        """Return the path of external data; refuse a path that leaves the model's folder."""
        if not location:
            raise ModelError(f"{what} has external data without a location")
        if self.folder is None:
            raise ModelError(f"{what} lies in '{location}': {MISSING_FOLDER}")
        folder = self.folder.resolve()
        try:
            path = (folder / location).resolve()
            missing = not path.is_file()
            names = 0 if missing else path.stat().st_nlink
        except (OSError, ValueError, RuntimeError) as error:
            # A null byte, a name too long, a loop of links.
            raise ModelError(f"{what}: '{location!r}' is not a usable path ({error})") from None
        if not path.is_relative_to(folder):
            raise ModelError(
                f"{what}: its external data '{location}' leaves the model's folder, which is refused"
            )
        if missing and path.exists():
            raise ModelError(f"{what}: its external data '{location}' is no regular file")
        if missing:
            raise MissingFileError(
                f"{what}: its external data '{location}' is missing; put it in the model's folder", str(path)
            )
        # Another of its names may lie anywhere; onnx's own checker refuses it too.
        if names > 1:
            raise ModelError(
                f"{what}: its external data '{location}' is a hard link (the file has {names} names), which may lead "
                "out of the model's folder and is refused; put a copy in its place"
            )
        self.external[location] = None
        return path


def _from_bytes(content: NDArray[np.uint8], dtype: np.dtype[Any], shape: tuple[int, ...], what: str) -> Array:
    """Return a view of raw bytes; ONNX stores them little-endian."""
    expected = math.prod(shape) * dtype.itemsize
    if content.size != expected:
        raise ModelError(
            f"{what}: {dtype}{list(shape)} takes {expected} bytes, not {content.size}: the file is damaged"
        )
    stored = dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype
    try:
        array: Array = content.view(stored).reshape(shape).astype(dtype, copy=False)
    except ValueError as error:
        # Extents whose product overflows, beside an extent of 0.
        raise ModelError(f"{what}: {error} (shape {list(shape)})") from None
    if array.dtype == np.bool_ and array.size and content.max() > 1:
        # A byte other than 0 and 1 is no valid bool in NumPy.
        return content.astype(bool).reshape(shape)
    return array if array.flags.aligned else array.copy()


_KINDS: Mapping[str, Callable[[Any], Any]] = {
    "FLOAT": lambda a: a.f,
    "INT": lambda a: a.i,
    "STRING": lambda a: a.s.decode("utf-8"),
    "GRAPH": lambda a: a.g,
    "TYPE_PROTO": lambda a: a.tp,
    "FLOATS": lambda a: tuple(a.floats),
    "INTS": lambda a: tuple(a.ints),
    "STRINGS": lambda a: tuple(item.decode("utf-8") for item in a.strings),
    "GRAPHS": lambda a: tuple(a.graphs),
    "TYPE_PROTOS": lambda a: tuple(a.type_protos),
}
_FIELD_OF_KIND = {"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g"}
_LIST_OF_KIND = {"FLOATS": "floats", "INTS": "ints", "STRINGS": "strings", "TENSORS": "tensors"}


def kind_of(attribute: Any) -> str:
    """Return the name of an attribute's type; guessed from its fields in files older than the type field."""
    if attribute.type:
        return str(onnx.AttributeProto.AttributeType.Name(attribute.type))
    for kind, field in _FIELD_OF_KIND.items():
        if attribute.HasField(field):
            return kind
    for kind, field in _LIST_OF_KIND.items():
        if len(getattr(attribute, field)):
            return kind
    raise ModelError(f"attribute '{attribute.name}' has no type and no value")


def attribute_value(attribute: Any, tensors: Tensors) -> Any:
    """Return an attribute as ints, floats, strings, tuples of them, arrays, or (graphs, types) unchanged."""
    what = f"attribute '{attribute.name}'"
    try:
        kind = kind_of(attribute)
        if kind == "TENSOR":
            return tensors.array(attribute.t, what)
        if kind == "TENSORS":
            return tuple(tensors.array(tensor, what) for tensor in attribute.tensors)
        if kind not in _KINDS:
            raise UnsupportedError(f"{what}: values of type {kind} are not supported")
        return _KINDS[kind](attribute)
    except UnicodeDecodeError:
        raise ModelError(f"{what} is not valid UTF-8 text") from None


def constant_value(attributes: Mapping[str, Any]) -> Array:
    """Return the value of a Constant node from its one attribute."""
    if len(attributes) != 1:
        raise ModelError(
            f"a Constant needs exactly one value attribute, this one has {sorted(attributes) or 'none'}"
        )
    ((name, value),) = attributes.items()
    dtypes = {
        "value_int": np.int64,
        "value_ints": np.int64,
        "value_float": np.float32,
        "value_floats": np.float32,
    }
    if name == "value" and isinstance(value, np.ndarray):
        return value
    try:
        if name in dtypes:
            return np.array(value, dtypes[name])
        if name in ("value_string", "value_strings"):
            return np.array(value, object)
    except (ValueError, TypeError) as error:
        raise ModelError(f"Constant: attribute {name} has an unusable value ({error})") from None
    raise UnsupportedError(f"Constant: attribute {name} is not supported (a dense value is)")
