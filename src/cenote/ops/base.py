"""The contract of an operator: one frozen dataclass that carries everything Cenote knows about it.

A new operator is one file in a room of this folder and one line in `ops/table.py`: docs/add_an_operator.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, field, fields
from enum import Enum
from typing import Any, ClassVar, TypeVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import CenoteError, ModelError, ShapeError, UnsupportedError
from cenote.core.exact import Exact
from cenote.core.extensions.switched import UserExtension
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View

Arrays = tuple[Array, ...]
Types = tuple[TensorType, ...]
OpenShape = tuple[int | None, ...]
T = TypeVar("T", TensorType, Array)

_MOST_AXES = 32  # that NumPy broadcasts


class ValueNeeded(CenoteError):
    """`infer` needs the content of an input that is only known when the model runs."""

    def __init__(self, index: int) -> None:
        super().__init__(f"the content of input {index} is needed to know the output's shape")
        self.index = index


class ShapeFromData(CenoteError):
    """The output's shape depends on the content of inputs, and only the reference computes it (NonZero)."""


@dataclass(frozen=True)
class Cost:
    """Work of one operator: `operations` (multiply-adds count 2) and `bytes` read and written once each."""

    operations: int
    bytes: int


@dataclass(frozen=True)
class Box:
    """A half-open box of a tensor, one (begin, end) per axis."""

    ranges: tuple[tuple[int, int], ...]

    @staticmethod
    def whole(shape: Sequence[int]) -> Box:
        return Box(tuple((0, extent) for extent in shape))


@dataclass(frozen=True)
class Sample:
    """One test case of an operator. `inputs` holds arrays, or None for an absent optional input."""

    op: Op
    inputs: tuple[Array | None, ...]
    label: str = ""

    def __str__(self) -> str:
        shapes = ",".join(
            "-" if x is None else f"{x.dtype}{list(x.shape)}".replace(" ", "") for x in self.inputs
        )
        return f"{self.label or self.op}:{shapes}"


Bind = Callable[[Sequence[View | None], Sequence[View]], Sequence[Call]]


def no_calls(inputs: Sequence[View | None], outputs: Sequence[View]) -> tuple[Call, ...]:
    """`bind` of an alias: there are no calls."""
    return ()


class Alias(Enum):
    """Ways in which outputs share memory with inputs, so that nothing is computed; the values are names in plans."""

    VIEW = "view"  # the output is the first input's elements under another shape or layout
    JOINED = "in place"  # the inputs are written straight into the output, one behind the other
    PARTS = "parts"  # the outputs are parts of the first input, one behind the other


@dataclass(frozen=True)
class Lowering:
    """One way to compute an operator natively.

    `inputs` and `outputs` are the layouts it works on (None: an absent input, or a constant that `bind` repacks and
    the program need not keep). `bind(inputs, outputs)` gets the views and returns the kernel calls, in order; views
    of `temporaries` (plain buffers that live only during the calls) follow the outputs. `seconds` is the estimate
    the chooser compares, `tolerance` the error allowed against the reference, relative to the largest output; 0
    means equal bits. `in_place` names inputs whose memory the first output may take when nothing needs them
    afterwards.

    Kernels note input content that is not acceptable (an index out of range) in the last of the temporaries and
    never follow it; `check` then looks at that, after the calls, and raises the error.

    `alias`: nothing is computed, the placement does it all. `by_size`: whether it is the best depends on how large
    its inputs are, more than on anything else. `layout_sensitive`: it works on the memory of its callers, but one in
    another layout may be so much quicker that the changes of layout pay; where that is not known, estimates of one
    layout are compared with each other only. `extension`: of a user's algorithm, what registered it.
    """

    name: str
    inputs: tuple[Layout | None, ...]
    outputs: tuple[Layout, ...]
    bind: Bind
    seconds: float
    tolerance: float = 0.0
    temporaries: tuple[TensorType, ...] = ()
    in_place: tuple[int, ...] = ()
    check: Check | None = None
    alias: Alias | None = None
    by_size: bool = False
    layout_sensitive: bool = False
    extension: UserExtension | None = None

    @staticmethod
    def of_call(
        name: str,
        inputs: tuple[Layout | None, ...],
        outputs: tuple[Layout, ...],
        call: Callable[..., Call],
        *others: Any,
        **named: Any,
    ) -> Lowering:
        """The lowering that is one call: `call` gets the views of the inputs that have a layout, of the outputs and of
        the temporaries. `others` and `named` are Lowering's further fields."""

        def bind(given: Sequence[View | None], made: Sequence[View]) -> tuple[Call]:
            used = (view for view, layout in zip(given, inputs, strict=True) if layout is not None)
            return (call(*used, *made),)

        return Lowering(name, inputs, outputs, bind, *others, **named)

    @staticmethod
    def shared(alias: Alias, inputs: tuple[Layout | None, ...], outputs: tuple[Layout, ...]) -> Lowering:
        """Values that share memory."""
        return Lowering(alias.value, inputs, outputs, no_calls, 0.0, alias=alias)


@dataclass(frozen=True)
class Imported:
    """A node as a front end read it, free of any file format.

    `attributes` hold Python ints, floats, strings, tuples of them, NumPy arrays (tensors), and "graph"
    objects as they came. `present` says for each input whether it is there; `outputs` how many outputs were
    asked for, up to the last that is there; `listed` counts all, those without a name too (0: unknown).
    `constant(i)` is the content of input i when it is a constant, else None; `makers` holds by input the name of the
    standard operator that makes it, where there is one.
    """

    op: str
    domain: str
    opset: int
    attributes: Mapping[str, Any]
    present: tuple[bool, ...]
    outputs: int
    constants: Mapping[int, Array] = field(default_factory=dict)
    listed: int = 0
    makers: Mapping[int, str] = field(default_factory=dict)

    def constant(self, index: int) -> Array | None:
        return self.constants.get(index)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default of the specification."""
        return self.attributes.get(name, default)

    def flag(self, name: str, default: int = 0) -> bool:
        """Integer attribute with the meaning of a truth value.

        Raises ModelError unless it is 0 or 1: runtimes differ in what others mean (2 is false in onnxruntime).
        """
        value = self.get(name, default)
        if value not in (0, 1):
            raise ModelError(f"{self.op}-{self.opset}: attribute '{name}' must be 0 or 1, got {value}")
        return bool(value)

    def expect(self, *names: str) -> None:
        """Refuse attributes that this decoder would ignore."""
        unknown = sorted(set(self.attributes) - set(names))
        if unknown:
            raise UnsupportedError(
                f"{self.op}-{self.opset}: attribute {', '.join(unknown)} is not known (known: {', '.join(names)})"
            )


@dataclass(frozen=True)
class Rewired:
    """Result of a decoder whose operator takes other inputs than the node: an int picks an input of the node, an
    array becomes a constant, an operator without inputs becomes a node before this one, None is an absent input."""

    op: Op
    inputs: tuple[int | Array | Op | None, ...]


Decoder = Callable[[Imported], "Op | Rewired"]


class Op(Exact):
    """Base of all operators. Subclasses are frozen dataclasses; their fields are their attributes.

    `operands` names the inputs in order: a trailing "?" marks an optional one, a trailing "*" on the last one any
    number (at least one) of inputs. Subclasses write `types` and `compute`, which get one argument per operand, None
    for an absent one.

    `name` is what graphs print, unique among operators. `from_onnx` maps an ONNX operator name, with its domain
    before it when it is not the standard one ("ai.onnx.ml.Binarizer"), to a decoder. `view` says that the output is
    the first input's elements in the same order under another shape (Reshape): the placement then lets both share
    memory and nothing is computed. `unmoved` says that an output of the first input's type is that input (Expand).
    `pure` is False when equal inputs may give other outputs (RandomNormal): such a node is neither folded nor merged
    with an equal one. `apart` says that it runs on the host between the stages of a model, because its values are no
    tensors (a sequence) or it runs nodes of its own (a loop). `selects` says that the outputs are elements of the
    inputs, which are read once each: a profile counts no more bytes read than written. `looks` is that of `Check`,
    `advice` that of `HostOperator`. `channels_last`, a field of operators on maps: the channels are the last axis.
    """

    name: ClassVar[str] = ""
    operands: ClassVar[tuple[str, ...]] = ()
    view: ClassVar[bool] = False
    unmoved: ClassVar[bool] = False
    pure: ClassVar[bool] = True
    apart: ClassVar[bool] = False
    selects: ClassVar[bool] = False
    looks: ClassVar[bool] = False
    advice: ClassVar[str] = ""
    channels_last: bool = False
    from_onnx: ClassVar[Mapping[str, Decoder]] = {}

    def types(self, *inputs: Any, **unused: Any) -> Types:
        """Check the operands' types and return those of the outputs: the only place for either.

        Raises ShapeError, DTypeError, ArgumentError or UnsupportedError; `ValueNeeded` when a constant is needed.
        """
        raise NotImplementedError(f"{type(self).__name__}.types")

    def compute(self, *inputs: Any, **unused: Any) -> Arrays:
        """The obvious NumPy, never optimised: the oracle, and what a host step runs.

        Works in float64 for float inputs and rounds once, to the dtype that `types` gives for the inputs' dtypes, so
        float64 inputs give the float64 answer. Floating-point warnings are off.
        """
        raise NotImplementedError(f"{type(self).__name__}.compute")

    def infer(self, *inputs: TensorType | None) -> Types:
        """Types of the outputs, as `types` returns them, after a check of the number of inputs."""
        return self.types(*self.arranged(inputs))

    def reference(self, *inputs: Array | None) -> Arrays:
        """Outputs of `compute` as row-major arrays, without NumPy's floating-point warnings."""
        with np.errstate(all="ignore"):
            outputs = self.compute(*self.arranged(inputs))
        return tuple(np.asarray(y, order="C") for y in outputs)

    def run_on_host(self, threads: int, *inputs: Array | None) -> Arrays:
        """Outputs where a model is cut at this operator: the reference, unless an operator whose output sizes depend
        on content overrides it with kernels on `threads` threads that return the same bits."""
        return self.reference(*inputs)

    def declared(self, *inputs: Array | None) -> Types:
        """The types `infer` gives for actual inputs: what a reference rounds to."""
        return self.infer(*(None if x is None else TensorType.known(x) for x in inputs))

    def shape_from_data(self, *inputs: TensorType | None) -> Types:
        """For outputs whose shape depends on content: run the reference where all content is known."""
        values = [None if x is None else x.value for x in inputs]
        if any(value is None and x is not None for value, x in zip(values, inputs, strict=True)):
            raise ShapeFromData(f"{self.name}: the output's shape depends on the content of its inputs")
        return tuple(TensorType(y.dtype, y.shape) for y in self.reference(*values))

    def open_shapes(self, *inputs: TensorType | None) -> tuple[OpenShape, ...] | None:
        """Shapes of the outputs of an operator that raises ShapeFromData, with None for extents that depend on content.

        None where not even the ranks are known, the default. Each known extent is one variable less in plans.
        """
        return None

    def arranged(self, inputs: Sequence[T | None]) -> list[Any]:
        """One entry per operand (absent optional ones are None); ShapeError for missing and surplus inputs."""
        if len(inputs) == len(self.operands) and all(x is not None for x in inputs):
            return [*inputs]
        variadic = bool(self.operands) and self.operands[-1].endswith("*")
        given = list(inputs)
        while len(given) > len(self.operands) and given[-1] is None:
            given.pop()
        if len(given) > len(self.operands) and not variadic:
            raise ShapeError(f"{self.name}: takes at most {len(self.operands)} inputs, got {len(given)}")
        given += [None] * (len(self.operands) - len(given))
        for index, x in enumerate(given):
            operand = self.operands[min(index, len(self.operands) - 1)]
            if x is None and not operand.endswith("?"):
                raise ShapeError(f"{self.name}: input {index} '{operand.rstrip('*')}' is missing")
        return given

    def folds_late(self, inputs: Sequence[TensorType | None]) -> bool:
        """Whether what it makes of these constants is computed only after passes have looked."""
        return False

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        """Lowerings to native code, none by default. `inputs` have passed `infer`."""
        return iter(())

    def aliases(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        """Ways to share memory instead of computing; by default `Alias.VIEW` for operators that are views."""
        if self.view:
            absent = (None,) * (len(inputs) - 1)
            yield Lowering.shared(Alias.VIEW, (PLAIN, *absent), (PLAIN,))

    def operations(self, outputs: Types, *inputs: Any, **unused: Any) -> int:
        """Number of arithmetic operations, a multiply-add counted as 2; by default one per element of the outputs."""
        return sum(y.size for y in outputs)

    def cost(self, inputs: Sequence[TensorType | None]) -> Cost:
        """Arithmetic operations, and the bytes of every input and output once."""
        outputs = self.infer(*inputs)
        moved = sum(x.nbytes for x in (*inputs, *outputs) if x is not None)
        return Cost(self.operations(outputs, *(self.arranged(inputs) if self.operands else inputs)), moved)

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        """The boxes of the inputs that a box of the first output needs; by default all of each input."""
        return tuple(None if x is None else Box.whole(x.shape) for x in inputs)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Op:
        """The operator that computes a box of its outputs from the boxes of its inputs that `region` gives, with the
        padding and divisors that this part has. Raises UnsupportedError where it cannot be computed in parts."""
        raise UnsupportedError(f"{self.name}: cannot be computed in parts")

    def reordered(self, index: int, order: tuple[int, ...]) -> Op | None:
        """The operator for input `index` given with its axes in this order; None where it has no choice."""
        return None

    def in_channels_last(self) -> Op | None:
        """The operator for maps whose channels come last; None where it takes no maps, or those already."""
        return None

    def in_float64(self) -> Op | None:
        """The operator with sums of floats taken in float64; None where it takes none, or has no choice."""
        return None

    def forwarded(self, inputs: Sequence[TensorType | None]) -> int | None:
        """Number of the input that the first output is, unchanged at all sizes; None where it is computed."""
        first, kept = inputs[0], self.view or self.unmoved
        return 0 if kept and first and self.infer(*inputs)[0].bare.key == first.bare.key else None

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Test cases chosen to break kernels: ragged channels, 1x1 maps, batch > 1, dimension 0, odd strides."""
        return ()

    def __str__(self) -> str:
        shown = []
        for item in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, item.name)
            default = item.default if item.default_factory is MISSING else item.default_factory()
            if value != default:
                shown.append(f"{item.name}={_compact(value)}")
        return f"{self.name}({', '.join(shown)})" if shown else self.name


@dataclass(frozen=True)
class Check(Op):
    """Operator in `Lowering.check`, without outputs: reads the findings of kernels, a row per item of work.

    A row starts with 0 where nothing is wrong; the rest of such a row is undefined. Subclasses raise the error in
    `raise_if_wrong`. Graphs never hold such an operator.
    """

    looks: ClassVar[bool] = True
    name: ClassVar[str] = "check"
    operands: ClassVar[tuple[str, ...]] = ("found",)

    def types(self, found: TensorType) -> Types:
        return ()

    def compute(self, found: Array) -> Arrays:
        if found[:, 0].any():
            self.raise_if_wrong(found)
        return ()

    def raise_if_wrong(self, found: Array) -> None:
        """Raise InputError for what was found: some row does not start with 0."""
        raise NotImplementedError(f"{type(self).__name__}.raise_if_wrong")


def _compact(value: object) -> str:
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, tuple):
        return "(" + ",".join(_compact(item) for item in value) + ")"
    return str(value)
