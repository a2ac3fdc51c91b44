"""Execution providers: only the CPU's is available; arguments that name others are checked as in onnxruntime."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from cenote.core.text import split_words

AVAILABLE = "CPUExecutionProvider"
KNOWN = tuple(
    f"{name}ExecutionProvider"
    for name in split_words(
        "NvTensorRTRTX Tensorrt CUDA MIGraphX OpenVINO Dnnl VitisAI QNN Nnapi VSINPU Js",
        "CoreML ACL Dml Rknpu WebNN WebGpu Xnnpack CANN Azure CPU",
    )
)

Providers = Sequence[str | tuple[str, dict[Any, Any]]]


def get_available_providers() -> list[str]:
    """Return ["CPUExecutionProvider"]."""
    return [AVAILABLE]


def get_all_providers() -> list[str]:
    """Return the names that onnxruntime knows, available or not."""
    return list(KNOWN)


def check_and_normalize_provider_args(
    providers: Providers | None,
    provider_options: Sequence[dict[Any, Any]] | None,
    available_provider_names: Sequence[str],
) -> tuple[list[str], list[dict[str, str]]]:
    """Return the names and options of providers, given as pairs or as two lists.

    Warns of a provider that is not available and of one that is named twice. Raises ValueError for any other form.
    """
    if providers is None:
        return [], []
    if not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if provider_options is None:
        pairs = [_pair(provider) for provider in providers]
    else:
        pairs = _paired(providers, provider_options)
    options_of: dict[str, dict[str, str]] = {}
    for name, options in pairs:
        if name not in available_provider_names:
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names."
                f"Available providers: '{', '.join(available_provider_names)}'",
                stacklevel=4,
            )
        if name in options_of:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=4)
            continue
        options_of[name] = {str(key): str(value) for key, value in options.items()}
    return list(options_of), list(options_of.values())


def _pair(provider: Any) -> tuple[str, dict[Any, Any]]:
    if isinstance(provider, str):
        return provider, {}
    if isinstance(provider, tuple) and len(provider) == 2:
        name, options = provider
        if isinstance(name, str) and isinstance(options, dict):
            return name, options
    raise ValueError("'providers' values must be either strings or (string, dict) tuples.")


def _paired(providers: Sequence[Any], options: Any) -> list[tuple[str, dict[Any, Any]]]:
    if not isinstance(options, Sequence):
        raise ValueError("'provider_options' should be a sequence.")
    if len(providers) != len(options):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
    if not all(isinstance(provider, str) for provider in providers):
        raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
    if not all(isinstance(each, dict) for each in options):
        raise ValueError("'provider_options' values must be dicts.")
    return list(zip(providers, options, strict=True))


def require_known(names: Sequence[str]) -> None:
    """Raise RuntimeError for a provider that onnxruntime does not know either."""
    for name in names:
        if name not in KNOWN:
            raise RuntimeError(f"Unknown Provider Type: {name}")
