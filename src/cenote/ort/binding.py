"""IOBinding: inputs and outputs that stay bound from run to run, the outputs to the caller's memory if wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from cenote.core.types import Array
from cenote.ort.errors import OrtError
from cenote.ort.types import NodeArg
from cenote.ort.values import OrtDevice, OrtValue, OrtValueVector, at_address, require_cpu


class BoundSession(Protocol):
    """The part of a session that a binding uses."""

    def get_inputs(self) -> list[NodeArg]: ...
    def run(self, output_names: Any, input_feed: Any, run_options: Any) -> list[Any]: ...


class IOBinding:
    """Bound inputs and outputs, made by `InferenceSession.io_binding`. Memory at an address is the caller's: it must
    exist while it is bound."""

    def __init__(self, session: BoundSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        # The memory for an output, or None for new memory in each run.
        self._wanted: dict[str, OrtValue | None] = {}
        self._made: dict[str, OrtValue] = {}

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Bind an array. An array that does not fit the input raises its error when the model is run."""
        if not isinstance(arr_on_cpu, np.ndarray):
            raise RuntimeError("Unable to create OrtValue from the given python object")
        self._bind(name, arr_on_cpu)

    def bind_input(
        self,
        name: str,
        device_type: str | OrtDevice,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Bind memory at an address. `element_type`: a NumPy type, or the number of one in ONNX."""
        require_cpu(device_type, device_id)
        self._bind(name, at_address(buffer_ptr, shape, element_type))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind a value."""
        self._bind(name, ortvalue)

    def _bind(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"an input's name is a str, not {name!r}")
        if all(name != node.name for node in self._session.get_inputs()):
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")
        self._inputs[name] = value

    def bind_output(
        self,
        name: str,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Request an output, in the memory at an address if one is given."""
        require_cpu(device_type, device_id)
        if buffer_ptr is None:
            self._wanted[name] = None
            return
        if element_type is None or shape is None:
            raise ValueError(
                "`element_type` and `shape` are to be provided if pre-allocated memory is provided"
            )
        self._wanted[name] = OrtValue(at_address(buffer_ptr, shape, element_type))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Request an output in the memory of a value."""
        self._wanted[name] = ortvalue

    def synchronize_inputs(self) -> None:
        """Do nothing: a CPU needs no synchronisation."""

    def synchronize_outputs(self) -> None:
        """Do nothing: a CPU needs no synchronisation."""

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run, in the order in which they were bound."""
        return list(self.get_outputs_as_ortvaluevector())

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """Return the outputs of the last run as an OrtValueVector."""
        return OrtValueVector(self._made[name] for name in self._wanted if name in self._made)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the outputs of the last run as copies."""
        return [np.array(v.array) if v.is_tensor() else v.content for v in self.get_outputs()]

    def clear_binding_inputs(self) -> None:
        """Unbind all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Unbind all outputs."""
        self._wanted.clear()
        self._made.clear()

    def run(self, run_options: Any) -> None:
        """Run the session on the bound values. Raises RuntimeError where one does not fit."""
        try:
            if not self._wanted:
                raise RuntimeError("At least one output should be requested.")
            results = self._session.run(list(self._wanted), self._inputs, run_options)
            self._made = {
                name: _placed(name, result, self._wanted[name])
                for name, result in zip(self._wanted, results, strict=True)
            }
        except (OrtError, ValueError, RuntimeError) as error:
            text = error.reason if isinstance(error, OrtError) else str(error)
            raise RuntimeError(f"Error in execution: {text}") from error


def _placed(name: str, result: Any, place: OrtValue | None) -> OrtValue:
    """Return the result, copied into the memory that is bound for it, if any."""
    if place is None:
        return OrtValue.of(result)
    array = place.array
    if array is None or not isinstance(result, np.ndarray):
        raise RuntimeError(f"output {name} is bound to a value that holds no tensor")
    if array.dtype != result.dtype or array.shape != result.shape:
        raise RuntimeError(
            f"Invalid size for output: {name} Got: {array.dtype}{list(array.shape)} Expected: "
            f"{result.dtype}{list(result.shape)} Please fix either the inputs/outputs or the model."
        )
    if not array.flags.writeable:
        raise RuntimeError(f"output {name} is bound to memory that is not to be written")
    array[...] = result
    return place


class SessionIOBinding(IOBinding):
    """The inner object of onnxruntime's IOBinding: the same with devices in place of their names and numbers."""

    def bind_input(self, name: str, *memory: Any) -> None:
        """Bind an array; or a device, element type, shape and address."""
        if len(memory) == 1:
            self.bind_cpu_input(name, memory[0])
        else:
            device, element_type, shape, address = memory
            super().bind_input(name, device, 0, element_type, shape, address)

    def get_outputs(self) -> OrtValueVector:
        """Return the outputs of the last run, in the order in which they were bound."""
        return self.get_outputs_as_ortvaluevector()

    def bind_output(self, name: str, device: Any, *memory: Any) -> None:  # type: ignore[override]
        """Request an output on a device; element type, shape and address follow if there is memory for it."""
        super().bind_output(name, device, 0, *memory)
