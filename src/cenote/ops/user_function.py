"""Operators of users: a node whose outputs a Python function computes from arrays, as a step of the program."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from cenote.core.deferred import cached_property, dataclass
from cenote.core.errors import CenoteError, OperatorError, UnsupportedError, error_of_user, shown
from cenote.core.extensions.functions import CONTENT, OperatorFunction
from cenote.core.extensions.registry import in_use, known
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Decoder, Imported, Op, Sample, ShapeFromData, T, Types
from cenote.ops.values import seeded

_MOST_TRIALS = 4096
# What stands for an array without axes: NumPy makes numbers of those.
_NUMBERS = (np.generic, bool, int, float)


@dataclass(frozen=True)
class StoredArray:
    """An array attribute, as data that is compared by its content."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    content: str

    @staticmethod
    def of(array: Array) -> StoredArray:
        return StoredArray(array.dtype, array.shape, np.ascontiguousarray(array).tobytes().hex())

    def array(self) -> Array:
        """The array, read-only."""
        return np.frombuffer(bytes.fromhex(self.content), self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class UserFunction(Op):
    """A node of the operator `operator`, computed by the function of that name and digest.

    `attributes` are the node's, by name; `outputs` is how many it has; `module` can be imported for the function.

    Raises UnsupportedError where this process does not have the function, OperatorError for an exception in it and for
    results that are no arrays, or not as many as the node has outputs.
    """

    operator: str
    digest: str
    attributes: tuple[tuple[str, Any], ...] = ()
    outputs: int = 1
    pure: bool = True  # type: ignore[misc]  # of the class elsewhere
    module: str = ""

    name = "user_function"
    operands = ("inputs*",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.operator)  # errors and plans name it
        assert self.function is not None  # held from here on, as plans name it by its digest only

    @cached_property
    def function(self) -> OperatorFunction:
        """The function, with what is known of it."""
        return known(self.operator, self.digest, self.module)

    @property
    def advice(self) -> str:  # type: ignore[override]  # of the class elsewhere
        """Text that says what to do where results have other types than were planned."""
        given = self.function
        if given.types is None:
            return (
                f", as {given.place} returned for zeros; where shapes depend on the content of inputs, give it as "
                'cenote.OperatorFunction(f, types="content")'
            )
        return f", as `types` of {given.place} said"

    @property
    def unstored(self) -> str:
        """Reason why a plan file cannot hold the node; "" for none."""
        untold = self.function.untold
        return f"another process could not tell whether its function is the same ({untold})" if untold else ""

    @cached_property
    def keywords(self) -> Mapping[str, Any]:
        """The attributes as the function takes them."""
        return {name: _given(value) for name, value in self.attributes}

    def __str__(self) -> str:
        shown_attributes = ", ".join(f"{name}={_short(value)}" for name, value in self.attributes)
        return f"{self.operator}({shown_attributes})" if shown_attributes else self.operator

    def arranged(self, inputs: Sequence[T | None]) -> list[Any]:
        """The inputs as they are: their number is the function's affair."""
        return [*inputs]

    def types(self, *inputs: TensorType | None) -> Types:
        if self.function.types == CONTENT:
            return self.shape_from_data(*inputs)
        if self.function.types is not None:
            said = f"`types` of {self.function.place}"
            made = self._called(said, self.function.types, inputs)
            return cast(Types, self._each(said, made, TensorType, "a cenote.TensorType"))
        return self._tried(inputs)

    def shape_from_data(self, *inputs: TensorType | None) -> Types:
        if not self.pure:
            raise ShapeFromData(f"{self.operator}: its outputs are known when it has run")
        return super().shape_from_data(*inputs)

    def _tried(self, inputs: tuple[TensorType | None, ...]) -> Types:
        """The types of what the function makes of zeros, or of constants where those are known.

        Open sizes are taken as they are at hand (`__index__` restricts the plan to them).
        """
        fixed = tuple(None if x is None else (x.dtype, tuple(int(n) for n in x.shape)) for x in inputs)
        values = [None if x is None or x.value is None else x.value for x in inputs]
        key = (self, fixed, tuple(None if value is None else value.tobytes() for value in values))
        trials = self.function.trials
        if key not in trials:
            if len(trials) >= _MOST_TRIALS:
                trials.clear()
            arrays = [
                None if each is None else np.zeros(each[1], each[0]) if value is None else value
                for each, value in zip(fixed, values, strict=True)
            ]
            made = self._results(
                arrays, " for zeros of the inputs' shapes, from which the outputs' shapes are taken"
            )
            trials[key] = tuple(TensorType(y.dtype, y.shape) for y in made)
        types: Types = trials[key]
        return types

    def compute(self, *inputs: Array | None) -> Arrays:
        return self._results(inputs, "")

    def _results(self, inputs: Iterable[Array | None], purpose: str) -> Arrays:
        """Return what the function makes of arrays, which it may read and not change."""
        given = [None if x is None else _read_only(x) for x in inputs]
        place = self.function.place
        results = self._called(place, self.function.function, given, purpose)
        listed = self._each(place, results, np.ndarray, "an array")
        return tuple(
            y.copy() if any(x is not None and np.may_share_memory(x, y) for x in given) else y for y in listed
        )

    def _called(
        self, place: str, function: Callable[..., Any], arguments: Iterable[Any], purpose: str = ""
    ) -> Any:
        try:
            return function(*arguments, **self.keywords)
        except CenoteError:
            raise
        except Exception as error:  # whatever the user's function raises
            raise error_of_user(error, f"{self.operator}: {place}", purpose) from error

    def _each(self, place: str, results: object, kind: type, wanted: str) -> tuple[Any, ...]:
        """Return the results of a function, one for each output. Raises OperatorError."""
        listed = [*results] if isinstance(results, tuple | list) else [results]
        listed = [np.asarray(each) if isinstance(each, _NUMBERS) else each for each in listed]
        problem = next((f"{shown(each)}, not {wanted}" for each in listed if not isinstance(each, kind)), "")
        if not problem and len(listed) != self.outputs:
            problem = f"{len(listed)} outputs, but the node has {self.outputs}"
        if problem:
            raise OperatorError(f"{self.operator}: {place} returned {problem}")
        return tuple(listed)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        operator = "cenote.Halves"
        made = in_use(operator, _HALVES)
        for shape in ((2, 5), (), (0, 3)):
            yield Sample(cls(operator, made.digest, (("by", 4.0),), 2), (seeded(shape),))


def _halves(x: Array, by: float = 2.0) -> Arrays:
    """The operator of the samples."""
    return (x / x.dtype.type(by), np.asarray(x.sum(dtype=np.float64), x.dtype))


_HALVES = OperatorFunction(_halves)


def decoder_of(operator: str, function: OperatorFunction) -> Decoder:
    """Return the decoder of the nodes that a function computes."""

    def decode(node: Imported) -> UserFunction:
        attributes = stored_attributes(node.attributes)
        _check_call(operator, function, node)
        return UserFunction(
            operator, function.digest, attributes, node.outputs, function.pure, function.module
        )

    return decode


def _check_call(operator: str, function: OperatorFunction, node: Imported) -> None:
    """Raise UnsupportedError where a function does not take a node's inputs and attributes."""
    try:
        taken = inspect.signature(function.function)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        taken.bind(*node.present, **node.attributes)
    except TypeError as error:
        attributes = ", ".join(node.attributes) or "none"
        raise UnsupportedError(
            f"{operator}: {function.place} takes {taken}, but the node has {len(node.present)} input(s) and the "
            f"attributes {attributes} ({error})"
        ) from None


def stored_attributes(attributes: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return attributes as data that has a hash and that plans hold. Raises UnsupportedError for other types."""
    return tuple((name, _stored(name, attributes[name])) for name in sorted(attributes))


def _stored(name: str, value: object) -> Any:
    """Return an attribute as data that has a hash and that plans hold."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return StoredArray.of(value)
    if isinstance(value, tuple):
        return tuple(_stored(name, each) for each in value)
    if isinstance(value, bool | int | float | str):
        return value
    raise UnsupportedError(f"attribute '{name}' of type {type(value).__name__} is not supported")


def _given(value: object) -> object:
    """Return an attribute as the function takes it."""
    if isinstance(value, StoredArray):
        return value.array()
    return tuple(map(_given, value)) if isinstance(value, tuple) else value


def _short(value: object) -> str:
    """Return the text of an attribute in plans."""
    return f"{value.dtype}{[*value.shape]}" if isinstance(value, StoredArray) else shown(value)


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view
