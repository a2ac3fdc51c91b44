"""Cenote as an ONNX backend (the interface of `onnx.backend.base`).

    import cenote.backend

    outputs = cenote.backend.prepare(model).run([x])
    outputs = cenote.backend.run_node(node, [a, b])

Models that Cenote cannot run raise UnsupportedError, a NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsIndex, cast

import numpy as np

from cenote.core.errors import ArgumentError, CenoteError, InputError
from cenote.core.load_options import NO_OPTIONS, LoadOptions
from cenote.core.locks import importing
from cenote.core.types import Array
from cenote.models.loading import load_with

Run = Callable[[dict[str, Array]], Mapping[str, Array]]


def _prepare(model: object, options: LoadOptions) -> tuple[tuple[str, ...], tuple[str, ...], Run]:
    """Load a model; return the names of inputs and outputs, and the function that runs it. The only place that
    loads."""
    loaded = load_with(cast(Any, model), options)
    return tuple(declared.name for declared in loaded.inputs), loaded.output_names, loaded.run


class Outputs(tuple[Array, ...]):
    """The outputs in order; `outputs["name"]` works too."""

    names: tuple[str, ...]

    @staticmethod
    def of(names: Sequence[str], arrays: Mapping[str, Array]) -> Outputs:
        outputs = Outputs(arrays[name] for name in names)
        outputs.names = tuple(names)
        return outputs

    def __getitem__(self, key: str | SupportsIndex | slice) -> Any:
        return super().__getitem__(self.names.index(key) if isinstance(key, str) else key)


class CenoteBackendRep:
    """A prepared model."""

    def __init__(self, inputs: tuple[str, ...], outputs: tuple[str, ...], run: Run) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self._run = run

    def run(self, inputs: Any, **kwargs: Any) -> Outputs:
        """Return the outputs for inputs given in order, by name, or (for one input) alone."""
        if isinstance(inputs, Mapping):
            named = dict(inputs)
        else:
            given = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            if len(given) > len(self.inputs):
                raise InputError(f"{len(given)} inputs are given, the model takes {len(self.inputs)}")
            named = dict(zip(self.inputs, given, strict=False))
        return Outputs.of(self.outputs, self._run(named))


class CenoteBackend:
    """The backend as a class, for `onnx.backend.test.BackendTest(CenoteBackend, __name__)`."""

    @classmethod
    def is_compatible(cls, model: object, device: str = "CPU", **kwargs: Any) -> bool:
        """Return True when the model can be loaded and run on the device."""
        try:
            cls.prepare(model, device, **kwargs)
        except CenoteError:
            return False
        return True

    @classmethod
    def prepare(cls, model: object, device: str = "CPU", **kwargs: Any) -> CenoteBackendRep:
        """Load a model (anything that `cenote.load` takes); `kwargs`: options as there."""
        if not cls.supports_device(device):
            raise ArgumentError(f"device '{device}' is not supported (CPU is)")
        return CenoteBackendRep(*_prepare(model, NO_OPTIONS.changed(**kwargs)))

    @classmethod
    def run_model(cls, model: object, inputs: Any, device: str = "CPU", **kwargs: Any) -> Outputs:
        """Prepare a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> Outputs:
        """Run one NodeProto on arrays, one per input that is there.

        `kwargs`: `opset_version` (default: the newest). `outputs_info` is not needed and is ignored.
        """
        with importing():
            from cenote.frontends.onnx import model_of_node

        opset = kwargs.pop("opset_version", None)
        given = [np.asarray(x) for x in (inputs.values() if isinstance(inputs, Mapping) else inputs)]
        return cls.run_model(model_of_node(node, given, opset), given, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return True for "CPU" and its indices ("CPU:0"), False for other devices."""
        return device.split(":")[0].upper() == "CPU"


is_compatible = CenoteBackend.is_compatible
prepare = CenoteBackend.prepare
run_model = CenoteBackend.run_model
run_node = CenoteBackend.run_node
supports_device = CenoteBackend.supports_device

__all__ = [
    "CenoteBackend",
    "CenoteBackendRep",
    "Outputs",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]
