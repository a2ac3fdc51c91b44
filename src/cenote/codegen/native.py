"""Functions of native code beside kernels: they call each other and the C library, and count and wait across threads.

    @native
    def length(f: Native, text: Bytes) -> Int64:
        at = f.variable(f.integer(0))
        with f.loop() as loop:                       # for ever, but for ways out of it
            loop.leave_if(text.load(at.value).equals(0))
            at.value += 1
        return at.value

    NativeModule(length, target).module()            # its text, and that of whatever functions it calls

A function's Python body runs once per module, and what it returns is what the native function returns. Its types stand
in its annotations; a parameter that is a dataclass of operands is passed field by field. A call of the function in
another body emits a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Annotated, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, get_args, get_type_hints

from cenote.codegen.code import Code
from cenote.codegen.values import BOOL, I8, I32, I64, U8, Pointer, Scalar, Value
from cenote.core.deferred import cached_property, dataclass
from cenote.core.target import Target

# Types of parameters and results: a value of a type, or an address of elements.
Int64 = Annotated[Value, I64]
Int32 = Annotated[Value, I32]
Bool = Annotated[Value, BOOL]
Words = Annotated[Pointer, I64]
Bytes = Annotated[Pointer, U8]

# Orders of atomic accesses, as LLVM calls them.
MONOTONIC, ACQUIRE, SEQUENTIAL = "monotonic", "acquire", "seq_cst"

Operand = Value | Pointer
P = ParamSpec("P")
R = TypeVar("R", bound=Operand | None)

# Result of functions that return nothing: a value that nothing may use.
VOID = Scalar("void", "void", 0, "void")


@dataclass(frozen=True)
class OperandType:
    """Type of a parameter or result: an address of elements, or a scalar."""

    is_pointer: bool
    scalar: Scalar

    @staticmethod
    def of(operand: Operand) -> OperandType:
        if isinstance(operand, Pointer):
            return OperandType(True, operand.element)
        return OperandType(False, operand.type)

    @staticmethod
    def annotated(hint: object) -> OperandType:
        """Return the type that an annotation (`Int64`, `Words`, None) says."""
        if hint is type(None):
            return OperandType(False, VOID)
        kind, scalar = get_args(hint)
        return OperandType(kind is Pointer, scalar)

    @property
    def ir(self) -> str:
        """LLVM type."""
        return "ptr" if self.is_pointer else self.scalar.ir

    def operand(self, f: Native, text: str) -> Operand:
        """Return an operand of this type that has a name in LLVM's text."""
        return Pointer(f, self.scalar, text) if self.is_pointer else Value(f, self.scalar, 1, text)


class NativeFunction(Generic[P, R]):
    """Native function whose body is written in Python; the decorator `native` makes one."""

    def __init__(self, body: Callable[Concatenate[Native, P], R]) -> None:
        self.body, self.name, self.__doc__ = body, body.__name__, body.__doc__

    def __call__(self, f: Native, *arguments: P.args, **named: P.kwargs) -> R:
        """Emit a call in the body `f`, and define the function in that body's module. Arguments have no names."""
        assert not named, f"{self.name}: arguments of a native call go by their places"
        f.module.define(self)
        operands = [operand for argument in arguments for operand in _operands(argument)]
        types = [type for hint in self.parameters for type in _types(hint)]
        passed = [OperandType.of(operand) for operand in operands]
        assert passed == types, f"{self.name} takes {types}, not {passed}"
        return cast(R, f.call_text(f"@{self.name}", self.result, operands))

    @cached_property
    def parameters(self) -> list[Any]:
        """Annotations of the parameters behind the body's."""
        _, *parameters, _ = get_type_hints(self.body, include_extras=True).values()
        return parameters

    @cached_property
    def result(self) -> OperandType:
        """Type of the result."""
        return OperandType.annotated(get_type_hints(self.body, include_extras=True)["return"])


def native(body: Callable[Concatenate[Native, P], R]) -> NativeFunction[P, R]:
    """Make a native function of a Python function that emits its body."""
    return NativeFunction(body)


class NativeModule:
    """Function that others find by its name, and all functions that it calls, as a thing to compile.

    None is inlined: their code is small, and a profile tells them apart.
    """

    def __init__(self, function: NativeFunction[..., Any], target: Target) -> None:
        self.symbol, self.target = function.name, target
        self._functions: dict[str, list[str]] = {}
        self._declarations: dict[str, str] = {}
        self.define(function)

    def define(self, function: NativeFunction[..., Any]) -> None:
        """Define a function unless it is there; those that it calls come before it."""
        if function.name in self._functions:
            return
        f, types = Native(self), [_types(hint) for hint in function.parameters]
        operands = [type.operand(f, f"%p{index}") for index, type in enumerate(chain(*types))]
        following = iter(operands)
        groups = [list(islice(following, len(each))) for each in types]
        f.return_now(function.body(f, *map(_argument, function.parameters, groups)))
        listed = ", ".join(map(_typed, operands))
        linkage = "" if function.name == self.symbol else "internal "
        head = f"define {linkage}{function.result.ir} @{function.name}({listed}) nounwind noinline {{"
        self._functions[function.name] = [head, *f.lines(), "}"]
        self._declarations |= f.declarations()

    def module(self) -> str:
        """Return the LLVM module."""
        lines = [line for function in self._functions.values() for line in function]
        return "\n".join([*self._declarations.values(), *lines, ""])


class NativeLoop:
    """Loop without an end, but for ways out of it."""

    def __init__(self, f: Native, head: str, after: str) -> None:
        self._f, self._head, self._after = f, head, after

    def leave(self) -> None:
        self._f.jump(self._after)

    def leave_if(self, condition: Value) -> None:
        self._f.jump_if(condition, self._after)

    def leave_unless(self, condition: Value) -> None:
        self._f.jump_unless(condition, self._after)

    def again_if(self, condition: Value) -> None:
        self._f.jump_if(condition, self._head)


class Native(Code):
    """Body of a native function under construction."""

    def __init__(self, module: NativeModule) -> None:
        super().__init__(module.target)
        self.module = module

    def lines(self) -> list[str]:
        """The function's blocks; the last one is the unreachable one behind the last return."""
        return ["entry:", *self._entry, *self._lines, "  unreachable"]

    def declarations(self) -> dict[str, str]:
        return self._declarations

    # ---- the machine ------------------------------------------------------------------------------------------

    @property
    def is_x86(self) -> bool:
        return self.target.triple.startswith(("x86_64", "amd64"))

    @property
    def is_arm(self) -> bool:
        return self.target.triple.startswith(("aarch64", "arm64"))

    @property
    def is_linux(self) -> bool:
        return "linux" in self.target.triple

    # ---- control flow -----------------------------------------------------------------------------------------

    def jump(self, label: str) -> None:
        """Go on at a label. The block of what is emitted next is unreachable, and LLVM removes it."""
        self.line(f"br label %{label}")
        self.open_block(self.label("unreached"))

    def jump_if(self, condition: Value, label: str) -> None:
        following = self.label("on")
        self._branch(condition, label, following)
        self.open_block(following)

    def jump_unless(self, condition: Value, label: str) -> None:
        following = self.label("on")
        self._branch(condition, following, label)
        self.open_block(following)

    @contextmanager
    def loop(self) -> Iterator[NativeLoop]:
        """Emit the body as a loop, which `NativeLoop.leave` and others leave."""
        head, after = self.label("loop"), self.label("done")
        self.line(f"br label %{head}")
        self.open_block(head)
        yield NativeLoop(self, head, after)
        self.line(f"br label %{head}")
        self.open_block(after)

    def either(self, condition: Value) -> Iterator[bool]:
        """Emit the body twice: `for holds in f.either(condition)` runs its Python body with False and with True, and
        generated code does the one or the other."""
        otherwise, then, after = self.label("else"), self.label("then"), self.label("endif")
        self._branch(condition, then, otherwise)
        for holds, label in ((False, otherwise), (True, then)):
            self.open_block(label)
            yield holds
            self.line(f"br label %{after}")
        self.open_block(after)

    def cases(self, number: Value, count: int) -> Iterator[int]:
        """Emit the body `count` times: `for case in f.cases(number, count)` runs its Python body with each number from
        0 on, and generated code does the one of `number`, for other numbers none."""
        cases, after = [self.label("case") for _ in range(count)], self.label("done")
        listed = " ".join(f"i64 {index}, label %{label}" for index, label in enumerate(cases))
        self.line(f"switch i64 {number.text}, label %{after} [{listed}]")
        for index, label in enumerate(cases):
            self.open_block(label)
            yield index
            self.line(f"br label %{after}")
        self.open_block(after)

    def return_now(self, value: Operand | None = None) -> None:
        self.line("ret void" if value is None else f"ret {_typed(value)}")
        self.open_block(self.label("unreached"))

    def return_if(self, condition: Value, value: Operand | None = None) -> None:
        with self.when(condition):
            self.return_now(value)

    # ---- calls ------------------------------------------------------------------------------------------------

    def call_text(self, function: str, result: OperandType, arguments: Sequence[Operand]) -> Operand:
        """Call what LLVM's text names: "@name", the address "%v5", inline assembly."""
        text = f"call {result.ir} {function}({', '.join(map(_typed, arguments))})"
        if result.scalar is VOID:
            self.line(text)
            return Value(self, VOID, 1, "")
        return result.operand(self, self.assign(text, result.scalar, 1).text)

    def call_address(self, address: Pointer, *arguments: Operand, result: Scalar = VOID) -> Value:
        """Call a function by its address."""
        return self._value_of_call(address.text, result, arguments)

    def external(
        self, name: str, *arguments: Operand, result: Scalar = VOID, fixed: int | None = None
    ) -> Value:
        """Call a function of the C library, or an intrinsic of LLVM. One that takes any number of arguments has so many
        `fixed` ones."""
        types = [OperandType.of(each).ir for each in arguments[:fixed]] + ["..."] * (fixed is not None)
        listed = f"({', '.join(types)})"
        self.declare(name, f"{result.ir} {listed}")
        return self._value_of_call(f"{listed if fixed is not None else ''} @{name}", result, arguments)

    def external_address(self, name: str, *arguments: Operand) -> Pointer:
        """Call a function outside that returns an address."""
        number = self.external(name, *arguments, result=I64)
        return Pointer(self, U8, self.assign(f"inttoptr i64 {number.text} to ptr", I64, 1).text)

    def assembly(self, text: str, constraints: str = "", result: Scalar = VOID) -> Value:
        """Insert instructions, which LLVM neither removes nor repeats."""
        return self._value_of_call(f'asm sideeffect "{text}", "{constraints}"', result, ())

    def _value_of_call(self, function: str, result: Scalar, arguments: Sequence[Operand]) -> Value:
        return cast(Value, self.call_text(function, OperandType(False, result), arguments))

    def pause(self) -> None:
        """Tell the core that this thread spins. (Arm's instruction by LLVM's name for it, not as text: LLVM has an
        assembler for the machine that it runs on only, and code for Arm can be compiled elsewhere.)"""
        if self.is_arm:
            self.external("llvm.aarch64.hint", self.constant(I32, 1))  # YIELD
        else:
            self.assembly("pause" if self.is_x86 else "")

    def system_register(self, name: str) -> Value:
        """Read a register of Arm's system, now."""
        function = "llvm.read_volatile_register.i64"
        self.declare(function, "i64 (metadata)")
        return self.assign(f'call i64 @{function}(metadata !{{!"{name}"}})', I64, 1)

    # ---- addresses --------------------------------------------------------------------------------------------

    def null(self, element: Scalar = I64) -> Pointer:
        return Pointer(self, element, "null")

    def is_null(self, pointer: Pointer) -> Value:
        return self.assign(f"icmp eq ptr {pointer.text}, null", BOOL, 1)

    def select_pointer(self, condition: Value, a: Pointer, b: Pointer) -> Pointer:
        """Return a where the condition holds, else b."""
        text = f"select i1 {condition.text}, ptr {a.text}, ptr {b.text}"
        return Pointer(self, a.element, self.assign(text, I64, 1).text)

    def load_pointer(self, place: Pointer, element: Scalar = I64) -> Pointer:
        """Load an address of elements of a type."""
        return Pointer(self, element, self.assign(f"load ptr, ptr {place.text}, align 8", I64, 1).text)

    def store_pointer(self, pointer: Pointer, place: Pointer) -> None:
        self.line(f"store ptr {pointer.text}, ptr {place.text}, align 8")

    def array(self, words: int) -> Pointer:
        """Words on the stack, which hold anything."""
        return Pointer(self, I64, self.stack_slot(f"[{words} x i64]"))

    def clear(self, words: Pointer, count: int) -> None:
        """Set words to 0."""
        zero, is_volatile = self.constant(I8, 0), self.constant(BOOL, 0)
        self.external("llvm.memset.p0.i64", words, zero, self.integer(count * 8), is_volatile)

    def copy(self, source: Pointer, target: Pointer, count: int) -> None:
        """Copy words."""
        is_volatile = self.constant(BOOL, 0)
        self.external("llvm.memcpy.p0.p0.i64", target, source, self.integer(count * 8), is_volatile)

    # ---- memory that threads share ----------------------------------------------------------------------------

    def load_atomic(self, place: Pointer, order: str = SEQUENTIAL) -> Value:
        type = place.element
        text = f"load atomic {type.ir}, ptr {place.text} {order}, align {type.nbytes}"
        return self.assign(text, type, 1)

    def store_atomic(self, value: Value, place: Pointer, order: str = SEQUENTIAL) -> None:
        self.line(f"store atomic {_typed(value)}, ptr {place.text} {order}, align {value.type.nbytes}")

    def order_stores(self) -> None:
        """Let what this thread has read and written so far be seen before any store that follows. x86 has no
        instruction for it, its stores are ordered; on Arm a store may be seen before an addition in one step (a pair
        of LDAXR and STLXR) that comes before it, even a sequential one."""
        self.line("fence release")

    def fetch_add(self, place: Pointer, amount: Value | int) -> Value:
        """Add to a number in one step, and return what it was before (sequential order)."""
        type = place.element
        added = amount if isinstance(amount, Value) else self.constant(type, amount)
        return self.assign(f"atomicrmw add ptr {place.text}, {_typed(added)} {SEQUENTIAL}", type, 1)

    def compare_exchange(self, place: Pointer, expected: Value, new: Value) -> tuple[Value, Value]:
        """Write the new number if the expected one is there, in one step; return the number that was there, and whether
        it was the expected one. Other accesses are not ordered by it (monotonic)."""
        text = f"cmpxchg ptr {place.text}, {_typed(expected)}, {_typed(new)} {MONOTONIC} {MONOTONIC}"
        return self.parts(self.assign(text, expected.type, 1), expected.type, BOOL)

    def checked(self, operation: str, a: Value, b: Value) -> tuple[Value, Value]:
        """Return the result of an operation on signed numbers ("add", "sub", "mul"), and whether it does not fit."""
        name, pair = f"llvm.s{operation}.with.overflow.{a.ir}", f"{{ {a.ir}, i1 }}"
        self.declare(name, f"{pair} ({a.ir}, {b.ir})")
        text = f"call {pair} @{name}({_typed(a)}, {_typed(b)})"
        return self.parts(self.assign(text, a.type, 1), a.type, BOOL)

    def parts(self, pair: Value, first: Scalar, second: Scalar) -> tuple[Value, Value]:
        """Return both parts of what an instruction has returned as a pair."""
        type = f"{{ {first.ir}, {second.ir} }}"
        return (
            self.assign(f"extractvalue {type} {pair.text}, 0", first, 1),
            self.assign(f"extractvalue {type} {pair.text}, 1", second, 1),
        )


def _typed(operand: Operand) -> str:
    return f"{OperandType.of(operand).ir} {operand.text}"


def _types(hint: type[Any]) -> list[OperandType]:
    """Types of the operands that an annotated parameter stands for: one, or those of a dataclass."""
    if get_args(hint):
        return [OperandType.annotated(hint)]
    return [OperandType.annotated(each) for each in get_type_hints(hint, include_extras=True).values()]


def _operands(argument: object) -> list[Operand]:
    """Operands that are passed for an argument."""
    return [argument] if isinstance(argument, Operand) else list(vars(argument).values())


def _argument(hint: type[Any], operands: list[Operand]) -> Any:
    """Return the argument that a body gets for a parameter."""
    return operands[0] if get_args(hint) else hint(*operands)
