"""Runs cases in worker processes under a watchdog, and collects what they find.

A worker is forked off, so that what a kind has prepared is there at once. It notes the seed of the case it works on in
memory that it shares with the driver: when it dies or takes too long, the driver knows the seed, writes down a finding,
and forks another that goes on behind it.
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import resource
import selectors
import signal
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.fuzz.case import STACKS, Belongings, Finding, Kind, die_with_parent, told

FEW = 2000  # cases after which a worker makes place for a fresh one: kernels that it loaded stay in memory
MEMORY = 6 << 30  # bytes of address space of a worker
PATIENCE = 10  # limits that a case may take while others have the CPU
_TICK = 0.1  # seconds between two looks of the watchdog
_TOLD = 120.0  # seconds between two counts of a long run


@dataclass
class Report:
    """Outcomes by name, and findings as (seed, what)."""

    kind: str
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[int, str]] = field(default_factory=list)

    def find(self, seed: int, what: str) -> None:
        """Keep a finding, and tell it at once."""
        self.findings.append((seed, what))
        print(f"\nFOUND {self.kind} {seed}\n{what}\n", flush=True)

    @property
    def cases(self) -> int:
        return sum(self.outcomes.values())

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.outcomes.most_common())
        return f"{self.cases} cases: {counts}"


class Worker:
    """One process that works on every `step`-th of some seeds, and what the driver knows about it."""

    def __init__(self, kind: Kind, seeds: Sequence[int], place: int, step: int, end: float) -> None:
        self.kind, self.seeds, self.step, self.end = kind, seeds, step, end
        self.shared = mmap.mmap(-1, 24)
        self.stacks = tempfile.TemporaryFile()  # noqa: SIM115  # faulthandler writes there as long as the worker lives
        self.content = b""
        self.late = 0.0  # when it was found to hang
        self._note(place)
        self.reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.reader)
            self._live(writer, place)
        os.close(writer)

    @property
    def place(self) -> int:
        """Among the seeds, of the case that it works on."""
        place: int = struct.unpack_from("<q", self.shared, 0)[0]
        return place

    @property
    def seed(self) -> int:
        return self.seeds[min(self.place, len(self.seeds) - 1)]

    def hangs(self) -> bool:
        """Has it worked on that for too long? The system's time of the CPU counts, so that other programs do not; one
        that waits for what does not come has no such time, and more patience."""
        started: float = struct.unpack_from("<d", self.shared, 8)[0]
        spent: float = struct.unpack_from("<d", self.shared, 16)[0]
        waited, limit = time.monotonic() - started, self.kind.limit
        return waited > limit and (waited > PATIENCE * limit or _cpu_seconds(self.pid) - spent > limit)

    def _note(self, place: int) -> None:
        # Numbers at once: `pack_into` writes byte by byte, and a worker that others displaced meanwhile seemed to hang.
        self.shared[:] = struct.pack("<qdd", place, time.monotonic(), time.process_time())

    def _live(self, writer: int, place: int) -> None:
        status = 1
        die_with_parent()
        try:
            faulthandler.enable(self.stacks)
            faulthandler.register(STACKS, self.stacks, chain=False)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            self._work(writer, place)
            status = 0
        except BaseException as error:
            _say(writer, {"finding": [self.seed, f"the worker failed: {told(error)}"]})
        finally:
            os._exit(status)

    def _work(self, writer: int, place: int) -> None:
        before, start, outcomes = Belongings.now(), place, Counter[str]()
        last = min(len(self.seeds), start + FEW * self.step)
        while place < last and time.monotonic() < self.end:
            self._note(place)
            seed = self.seeds[place]
            try:
                outcomes[self.kind.run(seed)] += 1
            except Finding as finding:
                _say(writer, {"finding": [seed, str(finding)]})
                outcomes["finding"] += 1
            except Exception as error:
                _say(writer, {"finding": [seed, f"not an error of Cenote: {told(error)}"]})
                outcomes["finding"] += 1
            place += self.step
            if sum(outcomes.values()) >= 16:
                _say(writer, {"outcomes": outcomes})
                outcomes.clear()
        self._note(place)
        self.kind.close()
        _say(writer, {"outcomes": outcomes})
        try:
            before.check(
                f"one of {(place - start) // self.step} cases from {self.seeds[start]}, {self.step} apart,"
            )
        except Finding as finding:
            _say(writer, {"finding": [self.seeds[start], str(finding)]})

    def read(self, report: Report) -> bool:
        """Take in what the worker says; False when it has said all."""
        piece = os.read(self.reader, 1 << 16)
        *lines, self.content = (self.content + piece).split(b"\n")
        for line in map(json.loads, lines):
            report.outcomes.update(line.get("outcomes", {}))
            if "finding" in line:
                report.find(*line["finding"])
        return bool(piece)

    def watch(self) -> None:
        """Ask a worker that hangs where it is, then end it."""
        if not self.late:
            if self.hangs():
                self.late = time.monotonic()
                os.kill(self.pid, STACKS)
        elif time.monotonic() > self.late + 1:
            os.kill(self.pid, signal.SIGKILL)

    def close(self, report: Report) -> int:
        """Bury it: the place to go on at."""
        os.close(self.reader)
        _, status = os.waitpid(self.pid, 0)
        self.stacks.seek(0)
        stacks = self.stacks.read().decode(errors="replace")
        self.stacks.close()
        if status == 0:
            return self.place
        what = f"hangs: over {self.kind.limit:g} s" if self.late else f"died: {_named(status)}"
        report.find(self.seed, f"{what}\n{stacks}")
        report.outcomes["finding"] += 1
        return self.place + self.step


def _cpu_seconds(pid: int) -> float:
    """What a process has had of the CPU, by field 14 and 15 of its line in /proc (proc(5)); 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _named(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"status {os.waitstatus_to_exitcode(status)}"


def _say(writer: int, what: dict[str, object]) -> None:
    line = json.dumps(what).encode() + b"\n"
    while line:
        line = line[os.write(writer, line) :]


def run(kind: Kind, seeds: Sequence[int], seconds: float, jobs: int) -> Report:
    """Run the cases of these seeds, as many as the seconds allow, on so many workers."""
    kind.prepare()
    report, end = Report(kind.name), time.monotonic() + seconds
    tell = time.monotonic() + _TOLD
    watched = selectors.DefaultSelector()

    def start(place: int) -> None:
        if place < len(seeds) and time.monotonic() < end:
            worker = Worker(kind, seeds, place, jobs, end)
            watched.register(worker.reader, selectors.EVENT_READ, worker)

    for index in range(jobs):
        start(index)
    while watched.get_map():
        for key, _ in watched.select(_TICK):
            worker: Worker = key.data
            if not worker.read(report):
                watched.unregister(worker.reader)
                start(worker.close(report))
        for key in list(watched.get_map().values()):
            key.data.watch()
        if time.monotonic() > tell:
            print(f"so far {report}", flush=True)
            tell += _TOLD
    watched.close()
    return report
