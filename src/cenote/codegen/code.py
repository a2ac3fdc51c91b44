"""Code of one function under construction: values, memory and control flow, as LLVM text.

The text is clean SSA: only variables live in stack slots, which LLVM's SROA pass turns into registers. No fast-math
flag is ever set, so NaN and infinities behave as IEEE 754 says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cenote.codegen import half
from cenote.codegen.values import BOOL, I32, I64, Number, Pointer, Scalar, Value, index_vector
from cenote.codegen.variables import Cursor, Variable
from cenote.core.target import Target


class Code:
    """Body of a function that is being written: each method appends instructions for the target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._lines, self._entry = list[str](), list[str]()
        self._declarations: dict[str, str] = {}
        self._count, self._block = 0, "entry"
        self._has_metadata = False

    # ---- raw emission -----------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Append one instruction that has no result."""
        self._lines.append("  " + text)

    def assign(self, text: str, type: Scalar, lanes: int) -> Value:
        """Append one instruction and name its result."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {text}")
        return Value(self, type, lanes, name)

    def declare(self, name: str, signature: str) -> None:
        """Declare an external function once: `signature` is "result (argument types)"."""
        result, _, arguments = signature.partition(" (")
        self._declarations[name] = f"declare {result} @{name}({arguments}"

    def table(self, name: str, type: Scalar, numbers: Sequence[int]) -> Pointer:
        """Return the address of constants that lie beside the code, in one place for each name."""
        text = ", ".join(f"{type.ir} {number}" for number in numbers)
        self._declarations[name] = (
            f"@{name} = private unnamed_addr constant [{len(numbers)} x {type.ir}] [{text}], align 8"
        )
        return Pointer(self, type, f"@{name}")

    def call(self, name: str, type: Scalar, lanes: int, arguments: Sequence[Value]) -> Value:
        """Call a function, declared in the same module (an LLVM intrinsic)."""
        result = type.vector(lanes)
        self.declare(name, f"{result} ({', '.join(a.ir for a in arguments)})")
        inner = ", ".join(f"{a.ir} {a.text}" for a in arguments)
        return self.assign(f"call {result} @{name}({inner})", type, lanes)

    def intrinsic(self, name: str, *arguments: Value, flags: str = "") -> Value:
        """Call an LLVM intrinsic overloaded on its operands' one type ("fma", "sqrt", "maximum" …)."""
        first = arguments[0]
        suffix = (f"v{first.lanes}" if first.lanes > 1 else "") + _suffix(first.type)
        full = f"llvm.{name}.{suffix}"
        self.declare(full, f"{first.ir} ({', '.join(a.ir for a in arguments)})")
        inner = ", ".join(f"{a.ir} {a.text}" for a in arguments)
        return self.assign(
            f"call {flags}{' ' if flags else ''}{first.ir} @{full}({inner})", first.type, first.lanes
        )

    def stack_slot(self, ir: str) -> str:
        """A stack slot of an LLVM type, allocated at entry."""
        self._count += 1
        name = f"%s{self._count}"
        self._entry.append(f"  {name} = alloca {ir}")
        return name

    def label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def open_block(self, label: str) -> None:
        """Start a basic block; the one before must have ended in a branch."""
        self._lines.append(f"{label}:")
        self._block = label

    # ---- values -----------------------------------------------------------------------------------------------

    def constant(self, type: Scalar, value: Number, lanes: int = 1) -> Value:
        """A constant, the same in every lane."""
        one = type.literal(value)
        text = one if lanes == 1 else f"<{', '.join([f'{type.ir} {one}'] * lanes)}>"
        return Value(self, type, lanes, text, value)

    def integer(self, value: int) -> Value:
        return self.constant(I64, value)

    def lanes_constant(self, type: Scalar, values: Sequence[Number]) -> Value:
        """A vector constant with different lanes."""
        inner = ", ".join(f"{type.ir} {type.literal(value)}" for value in values)
        return Value(self, type, len(values), f"<{inner}>" if len(values) > 1 else type.literal(values[0]))

    def iota(self, lanes: int, type: Scalar = I32) -> Value:
        """Return 0, 1, 2 … in the lanes."""
        return self.lanes_constant(type, range(lanes))

    def splat(self, value: Value, lanes: int) -> Value:
        """Return a scalar in every lane; a vector of that many lanes as it is."""
        if value.lanes == lanes:
            return value
        if value.lanes != 1:
            raise TypeError(f"cannot splat {value.lanes} lanes to {lanes}")
        if value.constant is not None:
            return self.constant(value.type, value.constant, lanes)
        ir = value.type.vector(lanes)
        one = self.assign(f"insertelement {ir} poison, {value.ir} {value.text}, i32 0", value.type, lanes)
        return self.shuffle(one, one, [0] * lanes)

    def shuffle(self, a: Value, b: Value, indices: Sequence[int]) -> Value:
        """Return lanes picked from a (0 …) and b (a.lanes …)."""
        if len(indices) == 1:
            return a.lane(indices[0]) if indices[0] < a.lanes else b.lane(indices[0] - a.lanes)
        text = f"shufflevector {a.ir} {a.text}, {b.ir} {b.text}, {index_vector(indices)}"
        return self.assign(text, a.type, len(indices))

    def joined(self, values: Sequence[Value]) -> Value:
        """Concatenate the lanes of equal vectors: by halves where that is possible, one behind the other elsewhere."""
        while len(values) > 1 and len(values) % 2 == 0:
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [self.shuffle(a, b, range(2 * a.lanes)) for a, b in pairs]
        lanes, joined = values[0].lanes, values[0]
        for value in values[1:]:
            done = joined.lanes
            widened = self.shuffle(value, value, [*range(lanes), *[-1] * (done - lanes)])
            joined = self.shuffle(joined, widened, range(done + lanes))
        return joined

    def select(self, condition: Value, a: Value, b: Value | Number) -> Value:
        """Return a where the condition holds, else b."""
        if not isinstance(condition, Value):
            raise TypeError(
                "the condition is no value: == and != compare objects of Python; .equals and .differs, values"
            )
        a, b = a.paired(b)
        lanes = max(condition.lanes, a.lanes, b.lanes)
        a, b = self.splat(a, lanes), self.splat(b, lanes)
        return self.assign(
            f"select {condition.ir} {condition.text}, {a.ir} {a.text}, {b.ir} {b.text}", a.type, lanes
        )

    def convert_half(self, value: Value, type: Scalar) -> Value:
        """Convert where one side is bfloat16, or float16 without hardware support."""
        return half.convert(self, value, type)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Return a * b + c, rounded once where the target has the instruction, else twice."""
        if not self.target.has_fma and not self.target.contracts:
            return a * b + c
        lanes = max(a.lanes, b.lanes, c.lanes)
        name = "fma" if self.target.has_fma else "fmuladd"
        return self.intrinsic(name, *(self.splat(x, lanes) for x in (a, b, c)))

    def maximum(self, a: Value, b: Value | Number) -> Value:
        """Return the larger; NaN if either is NaN. Which zero wins among +0 and -0 is unspecified (3 instructions,
        not 5)."""
        a, b = a.paired(b)
        if a.type.is_float:
            return self.intrinsic("maximum", a, b, flags="nsz")
        return self.intrinsic("smax" if a.type.kind == "int" else "umax", a, b)

    def minimum(self, a: Value, b: Value | Number) -> Value:
        """Return the smaller; NaN if either is NaN."""
        a, b = a.paired(b)
        if a.type.is_float:
            return self.intrinsic("minimum", a, b, flags="nsz")
        return self.intrinsic("smin" if a.type.kind == "int" else "umin", a, b)

    def max_drop_nan(self, a: Value, b: Value) -> Value:
        """Return a if a > b else b: one instruction; b where either is NaN."""
        return self.select(a > b, a, b)

    def min_drop_nan(self, a: Value, b: Value) -> Value:
        """Return a if a < b else b: one instruction; b where either is NaN."""
        return self.select(a < b, a, b)

    def absolute(self, a: Value) -> Value:
        if a.type.is_float:
            return self.intrinsic("fabs", a)
        return self.select(a < 0, -a, a) if a.type.kind == "int" else a

    def square_root(self, a: Value) -> Value:
        return self.intrinsic("sqrt", a)

    def reduce(self, a: Value, combine: str) -> Value:
        """Combine all lanes into one by halves, always in the same order: `combine` is a method of Kernel, or "add"."""
        while a.lanes > 1:
            half_lanes = a.lanes // 2
            low = self.shuffle(a, a, range(half_lanes))
            high = self.shuffle(a, a, range(half_lanes, a.lanes))
            a = low + high if combine == "add" else getattr(self, combine)(low, high)
        return a

    # ---- memory -----------------------------------------------------------------------------------------------

    def load(self, pointer: Pointer, lanes: int, mask: Value | None = None) -> Value:
        type = pointer.element
        ir = type.vector(lanes)
        if mask is not None and lanes == 1:
            return self._load_one(pointer, mask)
        _check_mask(mask, lanes)
        if mask is None:
            return self.assign(f"load {ir}, ptr {pointer.text}, align {type.nbytes}", type, lanes)
        name = f"llvm.masked.load.v{lanes}{_suffix(type)}.p0"
        self.declare(name, f"{ir} (ptr, i32 immarg, {mask.ir}, {ir})")
        arguments = f"ptr {pointer.text}, i32 {type.nbytes}, {mask.ir} {mask.text}, {ir} zeroinitializer"
        return self.assign(f"call {ir} @{name}({arguments})", type, lanes)

    def _load_one(self, pointer: Pointer, condition: Value) -> Value:
        """Load an element under a condition: LLVM's masked loads are for vectors alone."""
        loaded = self.variable(self.constant(pointer.element, 0))
        with self.when(condition):
            loaded.value = self.load(pointer, 1)
        return loaded.value

    def gather(self, pointer: Pointer, offsets: Value, mask: Value | None = None) -> Value:
        """Load elements at offsets (i64), one per lane; lanes outside the mask are not read and become zero."""
        type, lanes = pointer.element, offsets.lanes
        _check_mask(mask, lanes)
        ir, places = type.vector(lanes), f"<{lanes} x ptr>"
        at = self.assign(f"getelementptr {type.ir}, ptr {pointer.text}, {offsets.ir} {offsets.text}", I64, 1)
        mask = self.constant(BOOL, 1, lanes) if mask is None else mask
        name = f"llvm.masked.gather.v{lanes}{_suffix(type)}.v{lanes}p0"
        self.declare(name, f"{ir} ({places}, i32 immarg, {mask.ir}, {ir})")
        arguments = f"{places} {at.text}, i32 {type.nbytes}, {mask.ir} {mask.text}, {ir} zeroinitializer"
        return self.assign(f"call {ir} @{name}({arguments})", type, lanes)

    def store(self, value: Value, pointer: Pointer, mask: Value | None = None) -> None:
        type = pointer.element
        if value.type is not type:
            raise TypeError(f"storing {value.type.name} through a pointer to {type.name}")
        ir = type.vector(value.lanes)
        _check_mask(mask, value.lanes)
        if mask is not None and value.lanes == 1:
            with self.when(mask):
                self.store(value, pointer)
            return
        if mask is None:
            self.line(f"store {ir} {value.text}, ptr {pointer.text}, align {type.nbytes}")
            return
        name = f"llvm.masked.store.v{value.lanes}{_suffix(type)}.p0"
        self.declare(name, f"void ({ir}, ptr, i32 immarg, {mask.ir})")
        self.line(
            f"call void @{name}({ir} {value.text}, ptr {pointer.text}, i32 {type.nbytes}, {mask.ir} {mask.text})"
        )

    def store_nontemporal(self, value: Value, pointer: Pointer, alignment: int = 0) -> None:
        """Write whole registers to an address that is a multiple of `alignment` bytes (0: of the value's size), without
        reading the cache line first and without keeping it: for results larger than the last cache. `fence` before
        other threads read them."""
        nbytes = alignment or value.lanes * value.type.nbytes
        self._has_metadata = True
        self.line(f"store {value.ir} {value.text}, ptr {pointer.text}, align {nbytes}, !nontemporal !0")

    def fence(self) -> None:
        """Complete all stores, those past the caches too, before any that follow."""
        self.line("fence seq_cst")

    def misaligned(self, pointer: Pointer, nbytes: int) -> Value:
        """Return the bytes from the multiple of `nbytes` (a power of two) at or before the address."""
        return self.assign(f"ptrtoint ptr {pointer.text} to i64", I64, 1) & (nbytes - 1)

    def tail_mask(self, count: Value | int, lanes: int) -> Value:
        """Return a mask of the first `count` lanes (i64 count; 0 or less: none)."""
        count = count if isinstance(count, Value) else self.integer(count)
        return self.iota(lanes, I32) < self.splat(count.to(I32), lanes)

    def store_first(self, value: Value, pointer: Pointer, count: Value) -> None:
        """Store the first `count` lanes of a vector (0 or less: none), in halves: masked stores of AVX2 take Zen 3 15
        cycles. AVX-512 has masked stores that cost nothing."""
        if self.target.cpu == "x86-64-v4":
            self.store(value, pointer, self.tail_mask(count, value.lanes))
            return
        size, at = value.lanes, self.integer(0)
        with self.when(count >= size):
            self.store(value, pointer)
        with self.when((count > 0) & (count < size)):
            while size > 1:
                size //= 2
                low, high = (self.shuffle(value, value, range(part, part + size)) for part in (0, size))
                taken = (count & size).differs(0)
                with self.when(taken):
                    self.store(low, pointer + at)
                value, at = self.select(taken, high, low), at + (count & size)

    def prefetch(
        self, pointer: Pointer, offset: Value | int = 0, write: bool = False, level: int = 1
    ) -> None:
        """Prefetch the cache line of the element `offset` after the pointer's, to be read (or written) soon, into the
        cache of this level. It may lie outside the memory that the pointer belongs to."""
        self.declare("llvm.prefetch.p0", "void (ptr, i32 immarg, i32 immarg, i32 immarg)")
        place = pointer.offset_unchecked(offset)
        self.line(f"call void @llvm.prefetch.p0(ptr {place.text}, i32 {int(write)}, i32 {4 - level}, i32 1)")

    # ---- control flow -----------------------------------------------------------------------------------------

    def variable(self, initial: Value) -> Variable:
        """Return a value that generated code may change."""
        return Variable(self, initial)

    def cursor(self, start: Pointer) -> Cursor:
        """Return an address that generated code may move."""
        return Cursor(self, start)

    def range(self, start: Value | int, stop: Value | int, step: Value | int = 1) -> Iterator[Value]:
        """Emit a loop: `for i in k.range(...)` runs its Python body once and emits it once."""
        start, stop, step = (x if isinstance(x, Value) else self.integer(x) for x in (start, stop, step))
        if start.constant is not None and stop.constant is not None and start.constant >= stop.constant:
            return
        before, body, after = self._block, self.label("loop"), self.label("done")
        if start.constant is not None and stop.constant is not None:
            self.line(f"br label %{body}")
        else:
            self._branch(start < stop, body, after)
        self.open_block(body)
        self._count += 1
        counter, position = f"%i{self._count}", len(self._lines)
        self._lines.append("")  # for the phi, once the end of the loop is known
        yield Value(self, I64, 1, counter)
        following = self.assign(f"add nsw i64 {counter}, {step.text}", I64, 1)
        incoming = f"[ {start.text}, %{before} ], [ {following.text}, %{self._block} ]"
        self._lines[position] = f"  {counter} = phi i64 {incoming}"
        self._branch(following < stop, body, after)
        self.open_block(after)

    def steps(self, count: int, step: int) -> Iterator[Value]:
        """Return `range` from 0 to a known count; without a loop where one step is enough."""
        return self.range(0, count, step) if step < count else iter([self.integer(0)])

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Emit the body under a condition."""
        then, after = self.label("then"), self.label("endif")
        self._branch(condition, then, after)
        self.open_block(then)
        yield
        self.line(f"br label %{after}")
        self.open_block(after)

    @contextmanager
    def unless(self, condition: Value) -> Iterator[None]:
        """Emit the body where the condition does not hold."""
        with self.when(~condition):
            yield

    def _branch(self, condition: Value, then: str, otherwise: str) -> None:
        self.line(f"br i1 {condition.text}, label %{then}, label %{otherwise}")


def _check_mask(mask: Value | None, lanes: int) -> None:
    if mask is not None and (mask.type is not BOOL or mask.lanes != lanes):
        raise TypeError(f"a mask of {mask.lanes} lanes of {mask.type.name} for {lanes} lanes of memory")


def _suffix(type: Scalar) -> str:
    return {"double": "f64", "float": "f32", "half": "f16"}.get(type.ir, type.ir)
