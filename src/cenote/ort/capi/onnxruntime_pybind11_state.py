"""onnxruntime's extension module: the exceptions, and the classes under their inner names."""

from __future__ import annotations

from cenote.ort.binding import SessionIOBinding
from cenote.ort.environment import (
    disable_telemetry_events,
    enable_telemetry_events,
    get_build_info,
    get_device,
    get_ep_devices,
    get_version_string,
    has_collective_ops,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
)
from cenote.ort.errors import (
    DeviceReset,
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)
from cenote.ort.memory import (
    OrtAllocatorType,
    OrtArenaCfg,
    OrtDeviceMemoryType,
    OrtMemoryInfo,
    OrtMemType,
    create_and_register_allocator,
    create_and_register_allocator_v2,
)
from cenote.ort.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from cenote.ort.providers import get_all_providers, get_available_providers
from cenote.ort.session import InferenceSession
from cenote.ort.types import ModelMetadata, NodeArg
from cenote.ort.values import OrtDevice, OrtValue, OrtValueVector, copy_tensors, is_dlpack_uint8_tensor

__all__ = [
    "DeviceReset",
    "EPFail",
    "EngineError",
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "GraphOptimizationLevel",
    "InferenceSession",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelMetadata",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotFound",
    "NotImplemented",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtValue",
    "OrtValueVector",
    "RunOptions",
    "RuntimeException",
    "SessionIOBinding",
    "SessionOptions",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_default_session_options",
    "get_device",
    "get_ep_devices",
    "get_session_initializer",
    "get_version_string",
    "has_collective_ops",
    "is_dlpack_uint8_tensor",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
]

_default_options = SessionOptions()


def get_default_session_options() -> SessionOptions:
    """Return the options of sessions that get none."""
    return _default_options


def get_session_initializer() -> SessionOptions:
    """Return the same options, under an older name."""
    return _default_options
