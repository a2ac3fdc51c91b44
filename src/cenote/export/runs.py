"""LLVM text of the functions that run an exported program.

They are straight code: a call of a kernel's body for every step, whose arguments are literals and addresses. So there
is no argument record, no step table, nothing to patch, and nothing as wide as another machine's pointer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from cenote.core.deferred import dataclass
from cenote.core.types import TensorType
from cenote.export.program import ALIGNMENT, ExportedProgram, ProgramEntry, padded
from cenote.export.targets import is_wasm
from cenote.runtime.steps import KernelStep, Slot, SlotKind

# Results of the C functions.
OK, NULL_POINTER, MISALIGNED = 0, 1, 2


@dataclass(frozen=True)
class Runs:
    """Functions of a program. `weights`: whether the constants are an argument, where they are not a symbol of the
    library."""

    program: ExportedProgram
    weights: bool = False

    @property
    def size(self) -> str:
        """LLVM's type of sizes on the target."""
        return "i32" if is_wasm(self.program.target) else "i64"

    @property
    def symbol_of_weights(self) -> str:
        return f"{self.program.name}_weights"

    @property
    def symbol_of_prepared(self) -> str:
        return f"{self.program.name}_prepared"

    # ---- C --------------------------------------------------------------------------------------------------------

    def c_module(self) -> str:
        """Return the module with all functions of a C library: for each entry `run`, `run_on`, `workspace` and
        `workspace_on`."""
        lines = [*self._declared()]
        for entry in self.program.entries:
            lines += self._run(entry)
            lines += self._run_on(entry)
            lines += self._sizes(entry)
        return "\n".join([*lines, ""])

    def function(self, entry: ProgramEntry, what: str) -> str:
        """Return the name of an entry's function: with the entry's sizes where the program has several."""
        several = len(self.program.entries) > 1
        return f"{self.program.name}_{entry.suffix}_{what}" if several else f"{self.program.name}_{what}"

    def _run(self, entry: ProgramEntry) -> Iterator[str]:
        arrays = arrays_of(entry)
        passed = ", ".join(f"ptr %{name}" for name in [*arrays, *self._own, "workspace"])
        yield f"define i32 @{self.function(entry, 'run')}({passed}) nounwind {{"
        yield from self._checked([*arrays, *self._own, "workspace"])
        yield from self._arena("%workspace")
        yield f"  %scratch = getelementptr i8, ptr %arena, {self.size} {padded(entry.arena_bytes)}"
        for number, step in enumerate(entry.steps):
            yield from self._call(number, step, ("0", str(step.items)))
        yield from (f"  ret i32 {OK}", "}")

    def _run_on(self, entry: ProgramEntry) -> Iterator[str]:
        """Yield `run_on`: the caller's threads share each step. A piece is a function of the job (addresses), its begin
        and end, and the number of the thread, whose scratch memory it uses."""
        bases = [*arrays_of(entry), *self._own, "arena"]
        for number, step in enumerate(entry.steps):
            yield from self._piece(entry, number, step, bases)
        given = [*bases[:-1], "workspace"]
        passed = ", ".join(f"ptr %{name}" for name in [*given, "parallel", "pool"])
        yield f"define i32 @{self.function(entry, 'run_on')}({passed}) nounwind {{"
        yield from self._checked([*given, "parallel"])
        yield from self._arena("%workspace")
        yield f"  %job = alloca [{len(bases)} x ptr]"
        for place, name in enumerate(bases):
            yield f"  %p.{name} = getelementptr ptr, ptr %job, {self.size} {place}"
            yield f"  store ptr %{name}, ptr %p.{name}"
        for number, step in enumerate(entry.steps):
            sizes = f"{self.size} {step.items}, {self.size} {max(1, step.grain)}"
            yield f"  call void %parallel(ptr %pool, ptr @{self._piece_name(entry, number)}, ptr %job, {sizes})"
        yield from (f"  ret i32 {OK}", "}")

    def _piece(
        self, entry: ProgramEntry, number: int, step: KernelStep, bases: Sequence[str]
    ) -> Iterator[str]:
        size = self.size
        name = self._piece_name(entry, number)
        yield f"define internal void @{name}(ptr %job, {size} %begin, {size} %end, {size} %thread) nounwind {{"
        for place, base in enumerate(bases):
            yield f"  %p.{base} = getelementptr ptr, ptr %job, {size} {place}"
            yield f"  %{base} = load ptr, ptr %p.{base}"
        yield from self._scratch_of(entry)
        yield from self._bounds()
        yield from self._call(number, step, ("%from", "%to"))
        yield from ("  ret void", "}")

    def _piece_name(self, entry: ProgramEntry, number: int) -> str:
        return f"{self.function(entry, 'piece')}{number}"

    def _sizes(self, entry: ProgramEntry) -> Iterator[str]:
        """Yield the functions that return the bytes of a workspace, at any address."""
        size, each = self.size, padded(entry.scratch_bytes)
        alone = entry.workspace_bytes() + ALIGNMENT
        yield f"define {size} @{self.function(entry, 'workspace')}() nounwind {{"
        yield from (f"  ret {size} {alone}", "}")
        yield f"define {size} @{self.function(entry, 'workspace_on')}({size} %threads) nounwind {{"
        yield f"  %own = mul {size} %threads, {each}"
        yield f"  %all = add {size} %own, {alone - each}"
        yield from (f"  ret {size} %all", "}")

    @property
    def _own(self) -> tuple[str, ...]:
        """Name of the argument of constants, where they are one."""
        return ("weights",) if self.weights else ()

    def _checked(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the return of an error for null pointers, and for constants that lie wrongly."""
        for name in names:
            yield f"  %null.{name} = icmp eq ptr %{name}, null"
            yield f"  br i1 %null.{name}, label %fails.{name}, label %given.{name}"
            yield from (f"fails.{name}:", f"  ret i32 {NULL_POINTER}", f"given.{name}:")
        if "weights" in names:
            yield f"  %place = ptrtoint ptr %weights to {self.size}"
            yield f"  %off = and {self.size} %place, {ALIGNMENT - 1}"
            yield f"  %lies = icmp eq {self.size} %off, 0"
            yield "  br i1 %lies, label %aligned, label %misaligned"
            yield from ("misaligned:", f"  ret i32 {MISALIGNED}", "aligned:")

    def _arena(self, workspace: str) -> Iterator[str]:
        """Yield the arena: the first aligned address of a workspace."""
        yield f"  %at = ptrtoint ptr {workspace} to {self.size}"
        yield f"  %negated = sub {self.size} 0, %at"
        yield f"  %gap = and {self.size} %negated, {ALIGNMENT - 1}"
        yield f"  %arena = getelementptr i8, ptr {workspace}, {self.size} %gap"

    # ---- WebAssembly ----------------------------------------------------------------------------------------------

    def places(self, threads: int = 1) -> list[tuple[str, int]]:
        """Return the memory that a WebAssembly module has for its runs: names and bytes of the arrays of each entry
        (`input0`, `e1_output0`, …) and of the arena and scratch memory that they share."""
        arrays = [
            (f"{self._prefix(number)}{name}", type.nbytes)
            for number, entry in enumerate(self.program.entries)
            for name, type in zip(arrays_of(entry), types_of(entry), strict=True)
        ]
        largest = max(entry.workspace_bytes(threads) for entry in self.program.entries)
        return [*arrays, (f"{self.program.name}_memory", max(largest, ALIGNMENT))]

    def in_place(self) -> str:
        """Return the module of `run`, `e1_run`, …: functions without arguments, on arrays at fixed places."""
        lines = [*self._declared(), *self._place_symbols(), *self._prepare()]
        for number, entry in enumerate(self.program.entries):
            lines.append(f"define void @{self._prefix(number)}run() nounwind {{")
            lines += self._placed(number, entry)
            lines.append(f"  %scratch = getelementptr i8, ptr %arena, i32 {padded(entry.arena_bytes)}")
            for position, step in enumerate(entry.steps):
                lines += self._call(position, step, ("0", str(step.items)))
            lines += ["  ret void", "}"]
        return "\n".join([*lines, ""])

    def by_steps(self) -> str:
        """Return the module of `run_step`, `e1_run_step`, …: functions of a step's number, the begin and end of a piece
        and the number of a thread."""
        lines = [*self._declared(), *self._place_symbols(), *self._prepare()]
        for number, entry in enumerate(self.program.entries):
            head = "i32 %number, i32 %begin, i32 %end, i32 %thread"
            lines.append(f"define void @{self._prefix(number)}run_step({head}) nounwind {{")
            lines += self._placed(number, entry)
            lines += self._scratch_of(entry)
            lines += self._bounds()
            cases = " ".join(f"i32 {i}, label %step{i}" for i in range(len(entry.steps)))
            lines.append(f"  switch i32 %number, label %done [{cases}]")
            for position, step in enumerate(entry.steps):
                lines += [
                    f"step{position}:",
                    *self._call(position, step, ("%from", "%to")),
                    "  br label %done",
                ]
            lines += ["done:", "  ret void", "}"]
        return "\n".join([*lines, ""])

    def placed_functions(self, by_steps: bool) -> list[str]:
        """Return the names of the functions of `by_steps` or `in_place`: an entry's each, and `prepare` where constants
        are."""
        name = "run_step" if by_steps else "run"
        runs = [f"{self._prefix(number)}{name}" for number in range(len(self.program.entries))]
        return [*runs, *(["prepare"] if self.program.preparation else [])]

    def _prepare(self) -> Iterator[str]:
        """Yield the function that makes a prepared constant, by its number, of a stored one."""
        if self.program.preparation:
            yield "define void @prepare(i32 %number) nounwind {"
            yield f"  %scratch = getelementptr i8, ptr @{self.program.name}_memory, i32 0"
            cases = " ".join(f"i32 {i}, label %step{i}" for i in range(len(self.program.preparation)))
            yield f"  switch i32 %number, label %done [{cases}]"
            for number, step in enumerate(self.program.preparation):
                yield f"step{number}:"
                yield from self._call(number, step, ("0", str(step.items)))
                yield "  br label %done"
            yield from ("done:", "  ret void", "}")

    def _prefix(self, number: int) -> str:
        """Return the start of the names of an entry's functions and places."""
        return f"e{number}_" if number else ""

    def _place_symbols(self) -> Iterator[str]:
        for name, _ in self.places():
            yield f"@{name} = external hidden global i8, align {ALIGNMENT}"

    def _placed(self, number: int, entry: ProgramEntry) -> Iterator[str]:
        """Yield the addresses of an entry's arrays and of the arena."""
        for name in arrays_of(entry):
            yield f"  %{name} = getelementptr i8, ptr @{self._prefix(number)}{name}, i32 0"
        yield f"  %arena = getelementptr i8, ptr @{self.program.name}_memory, i32 0"

    # ---- both -----------------------------------------------------------------------------------------------------

    def _declared(self) -> Iterator[str]:
        program = self.program
        for symbol, kernel in program.kernels.items():
            types = ", ".join([*kernel.body_parameters, "i64", "i64", "ptr"])
            yield f'declare hidden void @"{program.functions[symbol]}"({types})'
        if not self.weights:
            yield f"@{self.symbol_of_weights} = external hidden constant i8, align {ALIGNMENT}"
        if program.preparation:
            yield f"@{self.symbol_of_prepared} = external hidden global i8, align {ALIGNMENT}"

    def _scratch_of(self, entry: ProgramEntry) -> Iterator[str]:
        """Yield the scratch memory of a thread, behind the arena."""
        yield f"  %own = mul {self.size} %thread, {padded(entry.scratch_bytes)}"
        yield f"  %past = add {self.size} %own, {padded(entry.arena_bytes)}"
        yield f"  %scratch = getelementptr i8, ptr %arena, {self.size} %past"

    def _bounds(self) -> Iterator[str]:
        """Yield the bounds of a piece as kernels take them."""
        how = "zext i32 %{} to i64" if self.size == "i32" else "add i64 %{}, 0"
        yield from (f"  %from = {how.format('begin')}", f"  %to = {how.format('end')}")

    def _call(self, number: int, step: KernelStep, bounds: tuple[str, str]) -> Iterator[str]:
        """Yield a step's call of its kernel for some of its items."""
        kernel = self.program.kernels[step.symbol]
        passed = []
        for position, (word, type) in enumerate(zip(step.words, kernel.body_parameters, strict=True)):
            if isinstance(word, Slot):
                name = f"%s{number}.{position}"
                base, offset = self._place(word)
                yield f"  {name} = getelementptr i8, ptr {base}, {self.size} {offset}"
                passed.append(f"ptr {name}")
            else:
                passed.append(literal(word, type))
        passed += [f"i64 {bounds[0]}", f"i64 {bounds[1]}", "ptr %scratch"]
        yield f'  call void @"{self.program.functions[step.symbol]}"({", ".join(passed)})'

    def _place(self, slot: Slot) -> tuple[str, int]:
        """Return the start of the memory that a slot lies in, and the bytes from there."""
        if slot.kind == SlotKind.CONSTANT and slot.index in self.program.prepared:
            return f"@{self.symbol_of_prepared}", self.program.offsets[slot.index] + slot.offset
        if slot.kind == SlotKind.CONSTANT:
            start = "%weights" if self.weights else f"@{self.symbol_of_weights}"
            return start, self.program.offsets[slot.index] + slot.offset
        if slot.kind == SlotKind.ARENA:
            return "%arena", slot.offset
        return f"%{slot.kind.value}{slot.index}", slot.offset


def arrays_of(entry: ProgramEntry) -> list[str]:
    """Return the names of an entry's arrays: input0, …, output0, …"""
    return [
        *(f"input{i}" for i in range(len(entry.inputs))),
        *(f"output{i}" for i in range(len(entry.outputs))),
    ]


def types_of(entry: ProgramEntry) -> list[TensorType]:
    """Return the types of an entry's arrays, in the order of `arrays_of`."""
    return [each.type for each in (*entry.inputs, *entry.outputs)]


def literal(word: int, type: str) -> str:
    """Return a word that is no address as an argument: words of floats hold the bits of a double."""
    if type == "ptr":
        assert word == 0, "an address that is no place of the program"
        return "ptr null"
    if type == "i64":
        return f"i64 {word}"
    bits = word & (1 << 64) - 1
    if type == "float":
        (value,) = struct.unpack("<d", struct.pack("<Q", bits))
        (bits,) = struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<f", value))[0]))
    return f"{type} 0x{bits:016X}"
