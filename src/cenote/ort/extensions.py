"""Operators in Python as onnxruntime-extensions declares them, for programs that use it and where it is not installed.

        from cenote.ort.extensions import PyCustomOpDef, get_library_path, onnx_op

        @onnx_op(op_type="Frobnicate", inputs=[PyCustomOpDef.dt_float], attrs={"alpha": PyCustomOpDef.dt_float})
        def frobnicate(x, alpha):
            return np.tanh(x * alpha)

        options = cenote.ort.SessionOptions()
        options.register_custom_ops_library(get_library_path())

While Cenote stands in for onnxruntime (`cenote.ort.install`), `import onnxruntime_extensions` gives this module where
the package is not installed. docs/from_onnxruntime.md describes the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from cenote.core.errors import shown
from cenote.ort import python_operators

__all__ = [
    "Opdef",
    "PyCustomOpDef",
    "PyOp",
    "default_opset_domain",
    "enable_py_op",
    "get_library_path",
    "onnx_op",
]


class PyCustomOpDef:
    """The declaration of an operator, and the numbers of its types, which are those of ONNX.

    `op_type`: its type, in the domain "ai.onnx.contrib" unless the text has one ("shop::Frobnicate"). `input_types`,
    `output_types`: numbers of types. `attrs`: the number of each attribute's type, dt_int64, dt_float or dt_string.
    """

    undefined = 0
    dt_float = 1
    dt_uint8 = 2
    dt_int8 = 3
    dt_uint16 = 4
    dt_int16 = 5
    dt_int32 = 6
    dt_int64 = 7
    dt_string = 8
    dt_bool = 9
    dt_float16 = 10
    dt_double = 11
    dt_uint32 = 12
    dt_uint64 = 13
    dt_complex64 = 14
    dt_complex128 = 15
    dt_bfloat16 = 16

    def __init__(self) -> None:
        self.op_type = ""
        self.obj_id = 0
        self.input_types: list[int] = []
        self.output_types: list[int] = []
        self.attrs: dict[str, int] = {}


PyOp = PyCustomOpDef


class Opdef:
    """An operator that a Python function computes. Calling it calls the function. `op_type`: its type; `body`: the
    function."""

    def __init__(self, op_type: str, func: Callable[..., Any]) -> None:
        self.op_type, self.body = op_type, func
        self._nativedef = PyCustomOpDef()

    @staticmethod
    def declare(*args: Any, **kwargs: Any) -> Callable[[Callable[..., Any]], Opdef]:
        """Return a decorator that declares an operator: `onnx_op`. Raises RuntimeError where it is used without
        parentheses."""
        if args and callable(args[0]):
            raise RuntimeError(f"@onnx_op takes arguments: @onnx_op(op_type=…), not {shown(args[0])}")
        return lambda function: Opdef.create(function, *args, **kwargs)

    @staticmethod
    def create(
        func: Callable[..., Any],
        op_type: str | None = None,
        inputs: Sequence[int] | None = None,
        outputs: Sequence[int] | None = None,
        attrs: Mapping[str, int] | Sequence[str] | None = None,
    ) -> Opdef:
        """Declare an operator, and make it known to the options that register the library from now on.

        op_type    type of its nodes; None: the function's name
        inputs     types of the inputs (`PyCustomOpDef.dt_float`, …); None: one of float32
        outputs    types of the outputs; None: one of float32
        attrs      types of the attributes that the function is given by name; a list of names: all are strings

        Raises ArgumentError for another name or type.
        """
        made = Opdef(op_type or func.__name__, func)
        of_names = dict.fromkeys(attrs or (), PyCustomOpDef.dt_string)
        definition = made._nativedef
        definition.op_type, definition.obj_id = made.op_type, id(made)
        definition.input_types = [PyCustomOpDef.dt_float] if inputs is None else [*inputs]
        definition.output_types = [PyCustomOpDef.dt_float] if outputs is None else [*outputs]
        definition.attrs = dict(attrs) if isinstance(attrs, Mapping) else of_names
        python_operators.declare(made)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.body(*args, **kwargs)


onnx_op = Opdef.declare


def get_library_path() -> str:
    """Return the path that `SessionOptions.register_custom_ops_library` knows as these operators."""
    return python_operators.OWN_LIBRARY


def default_opset_domain() -> str:
    """Return the domain of operators that are declared without one: "ai.onnx.contrib"."""
    return python_operators.DOMAIN


def enable_py_op(enabled: bool) -> bool:
    """Choose whether options that register the library from now on know the operators in Python. Return the choice
    before."""
    return python_operators.enable(enabled)


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"cenote.ort.extensions has no {name}: it has operators in Python, and nothing else of onnxruntime-extensions"
    )
