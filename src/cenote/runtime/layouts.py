"""Records of 64-bit words that Python and native code share, each word by its name.

`STEP.items` is the place of a word in the record: Python writes `table[:, STEP.items]`, the driver, which is in
`kernels/`, reads `step.items.load()`. Words that several threads write lie on cache lines of
their own.
"""

from __future__ import annotations

from cenote.core.settings import MAXIMUM_THREADS

_LINE = 8  # words of a cache line


class WordRecord:
    """Names of a record's words. Each text has those of one or several cache lines; `name*3` stands for three words
    in a row. `size`: words from one record of a table to the next, by default as many as there are."""

    def __init__(self, *texts: str, size: int = 0) -> None:
        self.places: dict[str, int] = {}
        place = 0
        for text in texts:
            place = -(-place // _LINE) * _LINE
            for word in text.split():
                name, _, count = word.partition("*")
                self.places[name] = place
                place += int(count or 1)
        self.size = size or place
        vars(self).update(self.places)

    def __getattr__(self, name: str) -> int:
        """Raise AttributeError: words are attributes already, this is for type checkers."""
        raise AttributeError(f"the record has no word {name}")


# A step of a program. `barrier`: all threads wait behind it until the items of all steps since `group`, the first one
# since the last barrier, are done. `flush`: denormals to zero (that of the first step counts for its table). `stride`:
# items of a call when a thread is alone. `taken`: chunks from the front and, from bit 16 on, from the back, below the
# job's number; `chunks`: how many there are; `done`: items, below the job's number.
STEP = WordRecord("kernel words items grain barrier group flush stride", "taken done chunks", size=2 * _LINE)

# What the threads of a team share. `sequence`: the job's number, odd while its description (`steps` to `last`, `stop`:
# the workers are to leave) is written. `generation`: changes when steps are done. `active`: workers that may be reading
# a step table. `step_at`, `item_at`: where an interrupted run goes on. `log`: where threads note what they do, or 0.
# `bound`: 1 if each thread has a CPU of its own already.
# Of a team of several alone: the CPU (plus 1) of the last caller, the CPUs that its workers were given (a bit for each
# of the 8,192 that Linux can have), and their thread ids.
CONTROL = WordRecord(
    "sequence",
    "generation",
    "active",
    "sleeping_workers",
    "sleeping_at_barrier",
    "threads steps first last scratch scratch_stride spin step_at item_at job stop caller_cpu log bound",
    f"cpus*128 thread_ids*{MAXIMUM_THREADS}",
)
CPU_WORDS = CONTROL.thread_ids - CONTROL.cpus

# Logs of a team's threads: the bytes from one to the next, then those logs, and in each the notes that there is room
# for, and how many there were. What has no room is counted, not kept.
LOGS = WordRecord("stride", size=_LINE)
LOG = WordRecord("count room", size=_LINE)
# A chunk, a wait (no items) or a native call (`NO_STEP`, and the step behind its last one in place of items). `what`:
# items, from bit 32 on the CPU, then whether denormal numbers were met (`UNTOLD`: the processor does not tell).
NOTE = WordRecord("begin end step what")
CPU_BITS = 28
NO_STEP = -1
UNTOLD = 2

# A kernel called on arrays, and behind it a patch for each word of its argument record that is an array's address:
# which word, which array, bytes from the array's start. `begin`: the first item that is left.
CALL = WordRecord("kernel words items scratch patches begin stride flush")
PATCH = WordRecord("word array offset")
CALL_ARRAYS = 4  # most arrays, absent ones are None

# A function that the interpreter calls (`kernels.builtin`), with the addresses of objects. `first`: its newest known
# call, or 0. `slow`: what is called for all others. `array`, `tuple`: types of what a known call takes.
FUNCTION = WordRecord("first slow array tuple none")
# A call that has been prepared, and behind it its inputs and its results as ARRAYs. `next`: the known call before it.
# `owner`: the object that keeps all of this alive. `busy`: the CALL `record` is in use. `short`: the GIL is kept.
# `arguments`: a tuple, or 0 where it holds what may change; `said`: the bytes of arguments and threads. `empty` makes
# results.
KNOWN = WordRecord("next owner busy record short given inputs results arguments threads said empty")
# `inputs`: the arrays among the items of the tuple, which has `given` items.
# An array that fits. `shape` and `dtype` are objects, side by side as the arguments of `empty`; `extents`: the address
# of numbers, behind which are the strides. `in_place`: the result may be written to this very array. With less than 0
# axes, no array but the very object at `shape`.
ARRAY = WordRecord("shape dtype axes extents nbytes in_place")

# A word that changes between rounds: its address, its value in even rounds and in odd ones, and what each round adds.
MOVE = WordRecord("word even odd step")

# An instruction of formulas (`core.formulas.instructions`): its number, and the slots of its operands.
INSTRUCTION = WordRecord("operation a b")
