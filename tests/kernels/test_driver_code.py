"""Code of the driver: which accesses are atomic, in which order, and what its loops hold."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from cenote.codegen import jit, llvm
from cenote.kernels.driver import DRIVER, Driver
from cenote.runtime import layouts
from cenote.runtime.layouts import CONTROL, STEP

ATOMIC = re.compile(
    r"(load atomic|store atomic|atomicrmw add|cmpxchg|fence)\b.*?(monotonic|acquire|release|seq_cst)"
)
# Atomic accesses of each function and their orders: what makes the driver right, and what no test run shows.
ACCESSES = {
    "change": {"atomicrmw add seq_cst": 1, "load atomic seq_cst": 1},
    "wait_while": {"load atomic acquire": 1, "atomicrmw add seq_cst": 2, "load atomic seq_cst": 1},
    "restamp": {"store atomic monotonic": 2},
    "finished": {"load atomic acquire": 1},
    "walk": {
        "load atomic monotonic": 1,
        "cmpxchg monotonic": 1,
        "atomicrmw add seq_cst": 1,
        "load atomic acquire": 2,
    },
    "keep_apart": {"load atomic seq_cst": 2, "load atomic monotonic": 1, "store atomic seq_cst": 1},
    "give_way": {"store atomic seq_cst": 1, "load atomic seq_cst": 1},
    "cenote_run": {"atomicrmw add seq_cst": 1, "fence release": 1},
    "cenote_work": {
        "load atomic acquire": 1,
        "atomicrmw add seq_cst": 3,
        "load atomic seq_cst": 2,
        "fence seq_cst": 1,
    },
    "cenote_halt": {"atomicrmw add seq_cst": 1, "fence release": 1, "load atomic seq_cst": 1},
}


def functions(symbol: str, triple: str = "x86_64-linux-gnu", optimized: bool = False) -> dict[str, str]:
    """Bodies of a module's functions by name."""
    target = replace(jit.named_target("generic"), triple=triple)
    text = Driver(symbol).emit(target).module()
    if optimized:
        text = str(llvm.optimized_module(text, target))
    return dict(re.findall(r"^define .*?@(\w+)\(.*?\{\n(.*?)^\}", text, re.M | re.S))


@pytest.mark.parametrize("triple", ["x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu"])
def test_each_function_has_its_atomic_accesses(triple: str) -> None:
    seen = dict[str, dict[str, int]]()
    for source in DRIVER:
        for name, body in functions(source.symbol, triple).items():
            found = Counter(" ".join(pair) for pair in ATOMIC.findall(body))
            if found:
                assert seen.setdefault(name, dict(found)) == found
    assert seen == ACCESSES


@pytest.mark.parametrize("symbol", ["cenote_run", "cenote_halt"])
def test_a_job_is_described_after_its_number_is_odd(symbol: str) -> None:
    """Without the fence an Arm core may show the new description beside the old number, which a worker that is late
    takes for the old job's."""
    body = functions(symbol, "aarch64-linux-gnu")[symbol]
    odd = body.index("atomicrmw add")
    assert "store" not in body[odd : body.index("fence release")]
    assert odd < body.index("fence release") < body.index("@restamp")


def test_a_chunk_is_known_before_it_is_claimed() -> None:
    """LLVM moves what is used once behind the exchange, where it waits for it: 0.3 to 0.5 ns a chunk."""
    walk = functions("cenote_work", jit.host_target().triple, optimized=True)["walk"]
    blocks = re.split(r"^[\w.]+:.*$", walk, flags=re.M)
    (claim,) = (block for block in blocks if "cmpxchg" in block)
    before, after = claim.split("cmpxchg")
    assert before.count(" mul ") == 2, "the first item, and how many"
    assert before.count("@llvm.smin") == 2, "the number of chunks, and the end"
    assert " mul " not in after


def test_words_are_found_where_the_layout_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of a step reads the words of the record at whatever places they have."""
    before = {name: functions(name) for name in ("cenote_run", "cenote_work")}
    monkeypatch.setitem(layouts.STEP.places, "group", STEP.places["flush"])
    monkeypatch.setitem(layouts.CONTROL.places, "job", CONTROL.places["log"])
    after = {name: functions(name) for name in before}
    assert before["cenote_run"]["walk"] != after["cenote_run"]["walk"]
    assert before["cenote_run"]["cenote_run"] != after["cenote_run"]["cenote_run"]
    assert before["cenote_work"]["cenote_work"] == after["cenote_work"]["cenote_work"], (
        "it reads no such word"
    )
