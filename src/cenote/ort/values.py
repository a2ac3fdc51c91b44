"""OrtValue and OrtDevice: values of onnxruntime's API, here all of them in ordinary memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core.types import Array
from cenote.ort.types import dtype_of, number_of, tensor_type, word_of

_DEVICES = {"cpu": 0, "cuda": 1, "gpu": 1, "dml": 1, "webgpu": 1, "npu": 2, "cann": 2}


class OrtDevice:
    """A device: its kind, the kind of its memory, its number. Only the CPU can hold values here."""

    def __init__(self, kind: int, memory: int = 0, device_id: int = 0) -> None:
        self._kind, self._memory, self._id = kind, memory, device_id

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """Return the device of a name ("cpu"). Raises Exception for a name that onnxruntime does not know either."""
        if ort_device_name.lower() not in _DEVICES:
            raise Exception(f"Unsupported device type: {ort_device_name}")
        return OrtDevice(_DEVICES[ort_device_name.lower()], 0, device_id)

    @staticmethod
    def cpu() -> int:
        """Return the kind of CPUs."""
        return _DEVICES["cpu"]

    @staticmethod
    def cuda() -> int:
        """Return the kind of NVIDIA's GPUs."""
        return _DEVICES["cuda"]

    gpu = dml = webgpu = cuda

    @staticmethod
    def npu() -> int:
        """Return the kind of neural processors."""
        return _DEVICES["npu"]

    cann = npu

    @staticmethod
    def default_memory() -> int:
        """Return the kind of memory here."""
        return 0

    def device_id(self) -> int:
        return self._id

    def device_type(self) -> int:
        return self._kind

    def device_vendor_id(self) -> int:
        return 0

    vendor_id = device_vendor_id

    def device_mem_type(self) -> int:
        return self._memory

    mem_type = device_mem_type

    def _get_c_device(self) -> OrtDevice:
        return self


def require_cpu(device: str | OrtDevice, device_id: int = 0) -> None:
    """Raise RuntimeError for a device other than the CPU."""
    known = device if isinstance(device, OrtDevice) else OrtDevice.make(device, device_id)
    if known.device_type():
        raise RuntimeError(
            "Can't allocate memory on the device using cenote.ort, which runs on the CPU alone"
        )


class OrtValue:
    """A tensor (`array`), or a sequence of tensors or nothing (`content`) where `array` is None."""

    def __init__(self, array: Array | OrtValue | None, content: list[Array] | None = None) -> None:
        if isinstance(array, OrtValue):
            content = array.content
            array = array.array
        if not isinstance(array, np.ndarray | None):
            raise ValueError("`Provided ortvalue` needs to be an OrtValue; make one by ortvalue_from_numpy")
        self.array: Array | None = array
        self.content: list[Array] | None = content

    @staticmethod
    def of(value: Any) -> OrtValue:
        """Return the value of an output: a tensor, a sequence, or nothing."""
        return OrtValue(value) if isinstance(value, np.ndarray) else OrtValue(None, value)

    @property
    def given(self) -> Any:
        """The form in which a model takes the value: the sequence, or the array."""
        return self.content if self.array is None else self.array

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Array, device_type: str | OrtDevice = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Return a value on the memory of an array; on a copy where it is not C-contiguous."""
        require_cpu(device_type, device_id)
        if not isinstance(numpy_obj, np.ndarray) or word_of(numpy_obj.dtype) == "string":
            raise RuntimeError(
                "Creation of OrtValues is currently only supported from non-string numpy arrays"
            )
        return cls(np.asarray(numpy_obj, order="C"))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Array, onnx_element_type: int) -> OrtValue:
        """Return a value on the memory of an array, whose elements are read as another type of the same size."""
        dtype = dtype_of(int(onnx_element_type))
        if dtype.itemsize != data.dtype.itemsize:
            raise RuntimeError(
                f"Items size in the incoming array: {data.dtype.itemsize} specified by onnxtype: {dtype.itemsize}"
            )
        return cls(np.asarray(data, order="C").view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: Any = None,
    ) -> OrtValue:
        """Return a value of zeros. `element_type`: a NumPy type, or the number of one in ONNX."""
        require_cpu(device_type, device_id)
        dtype = dtype_of(element_type)
        if word_of(dtype) == "string":
            raise RuntimeError(
                "Creation of OrtValues is currently only supported from non-string numpy arrays"
            )
        try:
            return cls(np.zeros(tuple(shape), dtype))
        except (ValueError, MemoryError) as error:
            raise RuntimeError(f"cannot make a tensor of shape {list(shape)}: {error}") from error

    @classmethod
    def from_dlpack(cls, data: Any, is_bool: bool = False) -> OrtValue:
        """Return a value on the memory of a tensor of any library that supports DLPack."""
        array: Array = data._tensor() if isinstance(data, OrtValue) else np.from_dlpack(_Capsule.around(data))
        return cls(array.view(np.bool_) if is_bool and array.dtype == np.uint8 else array)

    def _tensor(self) -> Array:
        if self.array is None:
            raise RuntimeError("Only OrtValues that are Tensors are supported here")
        return self.array

    def numpy(self) -> Array:
        """Return the tensor as an array on the same memory."""
        return self._tensor()[...]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._tensor(), dtype, copy=bool(copy)) if copy else np.asarray(self._tensor(), dtype)

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self._tensor().__dlpack__()

    def to_dlpack(self) -> Any:
        """Return a DLPack capsule."""
        return self.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def update_inplace(self, data: Array | OrtValue) -> None:
        """Copy into the value's own memory. Raises RuntimeError where the sizes differ."""
        source = data._tensor() if isinstance(data, OrtValue) else data
        if not isinstance(source, np.ndarray):
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")
        if source.size != self._tensor().size:
            raise RuntimeError("The input size of numpy arrays does not match the size of the OrtValue.")
        self._tensor()[...] = source.reshape(self._tensor().shape)

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return int(self._tensor().__array_interface__["data"][0])

    def shape(self) -> list[int]:
        return list(self._tensor().shape)

    def data_type(self) -> str:
        """Return "tensor(float)", "seq(tensor(float))" and so on."""
        if self.array is not None:
            return tensor_type(self.array.dtype)
        return f"seq({tensor_type(self.content[0].dtype)})" if self.content else "seq(tensor(float))"

    def element_type(self) -> int:
        """Return the number of the element type in ONNX."""
        return number_of(self._tensor().dtype)

    def tensor_size_in_bytes(self) -> int:
        return int(self._tensor().nbytes)

    def device_name(self) -> str:
        return "cpu"

    def has_value(self) -> bool:
        return self.array is not None or self.content is not None

    def is_tensor(self) -> bool:
        return self.array is not None

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return self.content is not None

    @property
    def _ortvalue(self) -> OrtValue:
        return self

    def _get_c_value(self) -> OrtValue:
        return self


class OrtValueVector(list[OrtValue]):
    """A list of values."""


class _Capsule:
    """A raw DLPack capsule, wrapped as an object that NumPy accepts."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    @staticmethod
    def around(data: Any) -> Any:
        return data if hasattr(data, "__dlpack__") else _Capsule(data)

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class _ManagedTensor(ctypes.Structure):
    """The first fields of the struct that a DLPack capsule points to."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("axes", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
    )


def is_dlpack_uint8_tensor(capsule: Any) -> bool:
    """Return whether the elements are bytes: older libraries export booleans as bytes. Raises ValueError for an
    object that is no capsule."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _ManagedTensor.from_address(pointer(capsule, b"dltensor"))
    return (tensor.code, tensor.bits) == (1, 8)


def at_address(address: int, shape: Sequence[int], element_type: Any) -> Array:
    """Return an array on the caller's memory. Raises ValueError for a null address, RuntimeError for a negative
    extent."""
    dtype, extents = dtype_of(element_type), tuple(shape)
    if any(extent < 0 for extent in extents):
        raise RuntimeError(f"shape {list(extents)} has a negative extent")
    nbytes = math.prod(extents) * dtype.itemsize
    if nbytes and not address:
        raise ValueError("buffer_ptr is null")
    if not nbytes:
        return np.empty(extents, dtype)
    memory: Any = (ctypes.c_char * nbytes).from_address(int(address))
    return np.frombuffer(memory, dtype).reshape(extents)


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copy tensors into others of the same sizes."""
    for source, destination in zip(src, dst, strict=True):
        destination.update_inplace(source)
