"""Cenote: a CNN inference engine and operator library whose CPU kernels are generated in Python.

model = cenote.load("model.onnx")
y = model(x)
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cenote.codegen.jit import watching as watch_compilation
from cenote.core.errors import (
    ArgumentError,
    CapacityError,
    CenoteError,
    CodegenError,
    DTypeError,
    InputError,
    MissingFileError,
    MissingPackageError,
    ModelError,
    OperatorError,
    ShapeError,
    UnavailableError,
    UnsupportedError,
)
from cenote.core.extensions.functions import OperatorFunction
from cenote.core.extensions.registry import register, registered_operators, unregister
from cenote.core.load_options import LoadOptions
from cenote.core.locks import importing
from cenote.core.options.deprecated import deprecated_name
from cenote.core.types import TensorType
from cenote.core.version import __version__
from cenote.models.loading import load, load_with, unsupported
from cenote.models.model import Model

if TYPE_CHECKING:
    from cenote import algorithms, functional, kernels, serving, tiling
    from cenote.about.info import Info, info
    from cenote.about.stored import CachedFile, cache_contents, clear_cache
    from cenote.compression.compress import compress
    from cenote.compression.report import Compression
    from cenote.core.extensions.switched import (
        register_algorithm,
        register_rewrite,
        registered_extensions,
    )
    from cenote.diagnosis.diagnose import Diagnosis
    from cenote.frontends.parameters.writer import extract
    from cenote.functional.custom.kernel_functions import jit_elementwise, jit_kernel
    from cenote.functional.ways.call_profile import CallProfile, profile_call
    from cenote.profile.comparison import Comparison, compare_profiles
    from cenote.profile.data import Profile
    from cenote.quantization.quantize import quantize
    from cenote.quantization.report import QuantizationReport
    from cenote.verification.contract.check import check_operator
    from cenote.verification.contract.report import OperatorReport
    from cenote.verification.found import Verification
    from cenote.verification.verify import verify, verify_with

__all__ = [
    "ArgumentError",
    "CachedFile",
    "CallProfile",
    "CapacityError",
    "CenoteError",
    "CodegenError",
    "Comparison",
    "Compression",
    "DTypeError",
    "Diagnosis",
    "Info",
    "InputError",
    "LoadOptions",
    "MissingFileError",
    "MissingPackageError",
    "Model",
    "ModelError",
    "OperatorError",
    "OperatorFunction",
    "OperatorReport",
    "Profile",
    "QuantizationReport",
    "ShapeError",
    "TensorType",
    "UnavailableError",
    "UnsupportedError",
    "Verification",
    "__version__",
    "algorithms",
    "cache_contents",
    "check_operator",
    "clear_cache",
    "compare_profiles",
    "compress",
    "extract",
    "functional",
    "info",
    "jit_elementwise",
    "jit_kernel",
    "kernels",
    "load",
    "load_with",
    "profile_call",
    "quantize",
    "register",
    "register_algorithm",
    "register_rewrite",
    "registered_extensions",
    "registered_operators",
    "serving",
    "tiling",
    "unregister",
    "unsupported",
    "verify",
    "verify_with",
    "watch_compilation",
]


def __dir__() -> list[str]:
    return __all__


_ON_DEMAND = {
    "Diagnosis": "cenote.diagnosis.diagnose",
    "Comparison": "cenote.profile.comparison",
    "compare_profiles": "cenote.profile.comparison",
    "Compression": "cenote.compression.report",
    "compress": "cenote.compression.compress",
    "Profile": "cenote.profile.data",
    "CallProfile": "cenote.functional.ways.call_profile",
    "profile_call": "cenote.functional.ways.call_profile",
    "Info": "cenote.about.info",
    "info": "cenote.about.info",
    "CachedFile": "cenote.about.stored",
    "cache_contents": "cenote.about.stored",
    "clear_cache": "cenote.about.stored",
    "QuantizationReport": "cenote.quantization.report",
    "quantize": "cenote.quantization.quantize",
    "OperatorReport": "cenote.verification.contract.report",
    "check_operator": "cenote.verification.contract.check",
    "Verification": "cenote.verification.found",
    "verify": "cenote.verification.verify",
    "verify_with": "cenote.verification.verify",
    "jit_elementwise": "cenote.functional.custom.kernel_functions",
    "jit_kernel": "cenote.functional.custom.kernel_functions",
    "extract": "cenote.frontends.parameters.writer",
    "register_algorithm": "cenote.core.extensions.switched",
    "register_rewrite": "cenote.core.extensions.switched",
    "registered_extensions": "cenote.core.extensions.switched",
}


def __getattr__(name: str) -> Any:
    """Import what not every program uses on its first use."""
    if name in ("algorithms", "functional", "kernels", "serving", "tiling"):
        with importing():
            return import_module(f"cenote.{name}")
    if name in _ON_DEMAND:
        with importing():
            value = getattr(import_module(_ON_DEMAND[name]), name)
        globals()[name] = value
        return value
    return deprecated_name(__name__, name)


# Silent until the program says where messages go: logging.basicConfig(level=logging.INFO), say.
logging.getLogger(__name__).addHandler(logging.NullHandler())
