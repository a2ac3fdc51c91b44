"""The engines that `verify` knows, and the choice of the one that a model is compared with."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping

from cenote.core.errors import ArgumentError, CenoteError, UnsupportedError
from cenote.verification.engines import LiteRT, OnnxRuntime, Reference, Torch
from cenote.verification.stream import Peer, Subject
from cenote.verification.tensorflow import Keras, tensorflow_or_keras

REFERENCE = "reference"

PEERS: Mapping[str, tuple[str, Callable[[Subject], Peer]]] = {
    "onnxruntime": ("onnxruntime", OnnxRuntime),
    "litert": ("ai_edge_litert", LiteRT),
    "tensorflow": ("tensorflow", tensorflow_or_keras),
    "keras": ("keras", Keras),
    "torch": ("torch", Torch),
    REFERENCE: ("numpy", Reference),
}
_SUITS = {
    "onnx": "onnxruntime",
    "tflite": "litert",
    "keras": "keras",
    **dict.fromkeys(("graphdef", "savedmodel", "metagraph"), "tensorflow"),
}


def chosen(against: str | None, form: str | None) -> str:
    """Return the peer's name: the requested one, else the one of the model's format if it is installed.

    Raises ArgumentError for one that does not exist, UnsupportedError for one that is not installed.
    """
    if against is None:
        suits = _SUITS.get(form or "", REFERENCE)
        return suits if _installed(suits) else REFERENCE
    if against not in PEERS:
        raise ArgumentError(f"against: '{against}' is none of {', '.join(PEERS)}")
    if not _installed(against):
        raise UnsupportedError(f"against {against}: the package {PEERS[against][0]} is not installed")
    return against


def _installed(name: str) -> bool:
    return importlib.util.find_spec(PEERS[name][0]) is not None


def open_peer(name: str, subject: Subject) -> Peer:
    """Return the peer of a model. Raises UnsupportedError where the peer cannot load it."""
    try:
        return PEERS[name][1](subject)
    except CenoteError:
        raise
    except Exception as error:
        # Each engine has errors of its own.
        raise UnsupportedError(f"{name} cannot load the model: {error}") from error
