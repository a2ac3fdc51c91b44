"""onnxruntime's API on Cenote, for programs and packages that were written for onnxruntime.

        import cenote.ort as onnxruntime            in your own program

        import cenote.ort
        cenote.ort.install()                        before anything that imports onnxruntime

        python -m cenote.ort -m rapidocr …          for a program that you do not want to edit
        python -m cenote.ort script.py …

docs/from_onnxruntime.md describes the differences.
"""

from __future__ import annotations

from cenote.ort import capi as capi
from cenote.ort.binding import IOBinding, SessionIOBinding
from cenote.ort.environment import (
    VERSION,
    disable_telemetry_events,
    enable_telemetry_events,
    get_build_info,
    get_device,
    get_ep_devices,
    get_version_string,
    has_collective_ops,
    preload_dlls,
    print_debug_info,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
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
from cenote.ort.standin import install
from cenote.ort.types import ModelMetadata, NodeArg
from cenote.ort.values import OrtDevice, OrtValue, copy_tensors

__version__ = VERSION

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "__version__",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "install",
    "preload_dlls",
    "print_debug_info",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
]
