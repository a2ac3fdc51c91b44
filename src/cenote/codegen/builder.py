"""Staged SIMD builder: Python's loops and conditions run now and unroll, `k.range` and `k.when` are emitted.

    k = Kernel("scale", target, [Parameter("x", F32, pointer=True), Parameter("y", F32, pointer=True)])
    for i in k.range(k.begin, k.end):                # emitted loop over the pieces of work
        for j in range(4):                           # unrolled now
            place = i * 32 + j * 8
            k.pointer("y").store(k.pointer("x").load(place, 8) * 2.0, place)

What a body may hold is in `code`; here is what makes it a kernel: the record of arguments, which it shares with its
callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from cenote.codegen.code import Code
from cenote.codegen.tiles import Tiles, tiles
from cenote.codegen.values import F32, F64, I64, U8, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import EMULATED, TILE, Target

# Attributes of functions for `llvm.switched_as_wanted`, as the fields of `Kernel` say; LLVM itself ignores them.
MOVES_ADDRESSES, ADDS_IN_ORDER, KEEPS_ORDER = '"moves-addresses"', '"adds-in-order"', '"keeps-order"'


@dataclass(frozen=True)
class Parameter:
    """One word of the argument record: a pointer to elements of a type, or a number (i64, or a float passed as f64).

    `may_alias` is for pointers that a caller may hand the same memory as another (in-place kernels).
    """

    name: str
    type: Scalar = I64
    pointer: bool = False
    may_alias: bool = False


class Kernel(Code):
    """Kernel under construction. `k.pointer("x")` and `k.number("n")` are its parameters; `begin`, `end` and
    `scratch` come with every call.

    `moves_addresses`: LLVM shall not look for better addresses in the loops. For kernels whose hot loops move cursors
    or add one counter to fixed addresses; it saves more than half of their compile time. `adds_in_order`: nor trees for
    chains of integer additions. `keeps_order`: nor another order of instructions, for formulas of several vectors.
    """

    def __init__(self, symbol: str, target: Target, parameters: Sequence[Parameter]) -> None:
        super().__init__(target)
        self.symbol, self.parameters = symbol, tuple(parameters)
        self.moves_addresses, self.adds_in_order, self.keeps_order = False, False, False
        self.extensions: list[str] = []
        self.begin, self.end = Value(self, I64, 1, "%begin"), Value(self, I64, 1, "%end")
        self.scratch = Pointer(self, U8, "%scratch")
        self.arguments = {each.name: self._argument(each) for each in parameters}

    # ---- parameters -------------------------------------------------------------------------------------------

    def _argument(self, parameter: Parameter) -> Value | Pointer:
        type, text = parameter.type, f"%p.{parameter.name}"
        return Pointer(self, type, text) if parameter.pointer else Value(self, type, 1, text)

    def pointer(self, name: str) -> Pointer:
        """Return the pointer parameter with a name. Raises KeyError where there is none, TypeError for a number."""
        parameter = self._named(name)
        if not isinstance(parameter, Pointer):
            raise TypeError(f"word '{name}' is a number")
        return parameter

    def number(self, name: str) -> Value:
        """Return the number parameter with a name. Raises KeyError where there is none, TypeError for a pointer."""
        parameter = self._named(name)
        if not isinstance(parameter, Value):
            raise TypeError(f"word '{name}' is a pointer")
        return parameter

    def _named(self, name: str) -> Value | Pointer:
        if name not in self.arguments:
            raise KeyError(f"no word '{name}' among {', '.join(self.arguments) or 'none'}")
        return self.arguments[name]

    # ---- extensions -------------------------------------------------------------------------------------------

    def extend(self, *extensions: str) -> None:
        """Use extensions of the instruction set beside those of the target's level."""
        self.extensions += [each for each in extensions if each not in self.extensions]

    def tiles(self, kind: str, way: str) -> AbstractContextManager[Tiles]:
        """Use tile registers in the body: `codegen.tiles`. `way` is one of `Target.tiles`."""
        if way != EMULATED:
            self.extend(TILE, way)
        return tiles(self, kind, way)

    # ---- text -------------------------------------------------------------------------------------------------

    def emit(self, target: Target) -> Kernel:
        """Return the kernel itself: a finished kernel can be compiled wherever a spec can."""
        return self

    def module(self) -> str:
        """Return the LLVM module: the body, and the entry that unpacks the argument record and calls it."""
        return self._text([*self._body(f'internal void @"{self.symbol}.body"'), *self._unpacking()])

    def body_module(self, name: str) -> str:
        """Return the LLVM module of the body alone, as a hidden function `name` that other objects of a library call:
        its parameters are those of the words (`body_parameters`), then begin, end (i64) and scratch (ptr)."""
        return self._text(self._body(f'hidden void @"{name}"'))

    @property
    def body_parameters(self) -> tuple[str, ...]:
        """LLVM's types of the body's parameters for the words: ptr, i64, float or double."""
        return tuple("ptr" if each.pointer else each.type.ir for each in self.parameters)

    def _text(self, functions: Sequence[str]) -> str:
        metadata = ["!0 = !{i32 1}"] if self._has_metadata else []
        return "\n".join([*self._declarations.values(), *functions, *metadata, ""])

    def _body(self, defined: str) -> list[str]:
        declared = [
            f"ptr {'' if p.may_alias else 'noalias '}%p.{p.name}" if p.pointer else f"{p.type.ir} %p.{p.name}"
            for p in self.parameters
        ]
        signature = ", ".join([*declared, "i64 %begin", "i64 %end", "ptr noalias %scratch"])
        head = f"define {defined}({signature}) {self._attributes()} {{"
        return [head, "entry:", *self._entry, *self._lines, "  ret void", "}"]

    def _attributes(self) -> str:
        features = f' "target-features"="{",+".join([self.target.features, *self.extensions])}"'
        marks = [
            (MOVES_ADDRESSES, self.moves_addresses),
            (ADDS_IN_ORDER, self.adds_in_order),
            (KEEPS_ORDER, self.keeps_order),
        ]
        wanted = "".join(f" {mark}" for mark, is_wanted in marks if is_wanted)
        return "noinline nounwind" + wanted + features * bool(self.extensions)

    def _unpacking(self) -> list[str]:
        lines = [f'define void @"{self.symbol}"(ptr %words, i64 %begin, i64 %end, ptr %scratch) nounwind {{']
        passed = []
        for index, parameter in enumerate(self.parameters):
            lines.append(f"  %a{index} = getelementptr i64, ptr %words, i64 {index}")
            wire = "ptr" if parameter.pointer else "double" if parameter.type.is_float else "i64"
            lines.append(f"  %w{index} = load {wire}, ptr %a{index}, align 8")
            text, final = f"%w{index}", wire
            if parameter.type is F32 and not parameter.pointer:
                lines.append(f"  %n{index} = fptrunc double %w{index} to float")
                text, final = f"%n{index}", "float"
            elif not parameter.pointer and parameter.type not in (I64, F64):
                raise TypeError(f"parameter {parameter.name}: numbers are i64, f32 or f64")
            passed.append(f"{final} {text}")
        arguments = ", ".join([*passed, "i64 %begin", "i64 %end", "ptr %scratch"])
        return [*lines, f'  call void @"{self.symbol}.body"({arguments})', "  ret void", "}"]
