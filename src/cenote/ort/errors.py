"""onnxruntime's exceptions, and their mapping from Cenote's errors.

As in onnxruntime they are no ValueErrors or RuntimeErrors, and their texts begin with
"[ONNXRuntimeError] : number : NAME : ".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cenote.core.errors import (
    CapacityError,
    CenoteError,
    DTypeError,
    MissingFileError,
    ModelError,
    ShapeError,
    UnsupportedError,
)

_PREFIX = "[ONNXRuntimeError]"


class OrtError(Exception):
    """Base of onnxruntime's exceptions here; programs catch the classes below."""

    code, status = 1, "FAIL"

    def __init__(self, *arguments: object) -> None:
        """Put the status before a single text, as onnxruntime does."""
        text = arguments[0] if len(arguments) == 1 else None
        if isinstance(text, str) and not text.startswith(_PREFIX):
            arguments = (f"{_PREFIX} : {self.code} : {self.status} : {text}",)
        super().__init__(*arguments)

    @property
    def reason(self) -> str:
        """The text without the status."""
        return str(self).split(" : ", 3)[-1]


class Fail(OrtError):
    """Any other failure: a failed run, a cyclic graph, an opset or version that is too new."""


class InvalidArgument(OrtError):
    """A feed of the wrong type, rank or size, or a name that the model does not have."""

    code, status = 2, "INVALID_ARGUMENT"


class NoSuchFile(OrtError):
    """The model's file is not there."""

    code, status = 3, "NO_SUCHFILE"


class NoModel(OrtError):
    code, status = 4, "NO_MODEL"


class EngineError(OrtError):
    code, status = 5, "ENGINE_ERROR"


class RuntimeException(OrtError):
    """The system refuses memory or threads."""

    code, status = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(OrtError):
    """The bytes are no ONNX model."""

    code, status = 7, "INVALID_PROTOBUF"


class ModelLoaded(OrtError):
    code, status = 8, "MODEL_LOADED"


class NotImplemented(OrtError):
    """A valid model, with something that Cenote does not have."""

    code, status = 9, "NOT_IMPLEMENTED"


class InvalidGraph(OrtError):
    """A model whose graph is wrong: an unknown operator, an attribute or a type that does not fit."""

    code, status = 10, "INVALID_GRAPH"


class EPFail(OrtError):
    code, status = 11, "EP_FAIL"


class ModelLoadCanceled(OrtError):
    code, status = 12, "MODEL_LOAD_CANCELED"


class ModelRequiresCompilation(OrtError):
    code, status = 13, "MODEL_REQUIRES_COMPILATION"


class NotFound(OrtError):
    code, status = 14, "NOT_FOUND"


class DeviceReset(OrtError):
    code, status = 15, "DEVICE_RESET"


ALL = tuple(OrtError.__subclasses__())

# Exception for each message of Cenote's front ends; a model that is wrong in another way is an InvalidGraph.
_OF_MODELS: tuple[tuple[str, type[OrtError]], ...] = (
    ("the file is empty", InvalidArgument),
    ("it has no graph", InvalidArgument),
    ("cannot be parsed", InvalidProtobuf),
    ("cannot be read", InvalidProtobuf),
    ("which nothing makes", InvalidArgument),
    ("cycle", Fail),
)
_OF_REFUSALS: tuple[tuple[str, type[OrtError]], ...] = (
    ("is no operator", InvalidGraph),
    ("IR version", Fail),
    # The version of an opset.
    ("of domain '", Fail),
)


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Raise the errors of making a session for the model of this name as onnxruntime does."""
    try:
        yield
    except MissingFileError as error:
        # Fail: a file beside the model is missing.
        missing = NoSuchFile if error.filename == name else Fail
        raise (missing if error.filename else InvalidProtobuf)(
            f"Load model from {name} failed: {error}"
        ) from error
    except UnsupportedError as error:
        raise _found(_OF_REFUSALS, NotImplemented, error)(
            f"Load model from {name} failed: {error}"
        ) from error
    except (ModelError, DTypeError, ShapeError) as error:
        raise _found(_OF_MODELS, InvalidGraph, error)(f"Load model from {name} failed: {error}") from error
    except CapacityError as error:
        raise RuntimeException(str(error)) from error
    except CenoteError as error:
        raise Fail(f"Load model from {name} failed: {error}") from error


def _found(
    table: tuple[tuple[str, type[OrtError]], ...], other: type[OrtError], error: CenoteError
) -> type[OrtError]:
    text = str(error)
    return next((kind for words, kind in table if words in text), other)


def of_run(error: CenoteError) -> OrtError:
    """Return onnxruntime's exception for an error in a run whose inputs have been checked."""
    if isinstance(error, UnsupportedError):
        return NotImplemented(str(error))
    return RuntimeException(str(error)) if isinstance(error, CapacityError) else Fail(str(error))
