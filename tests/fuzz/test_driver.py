"""The watchdog of the fuzz: what works too long is found, and what others keep from the CPU is not."""

from __future__ import annotations

import time

import pytest

from tests.fuzz import driver


class Slow:
    """The cases of seeds 1 and 2 compute or sleep for some seconds; that of seed 0 does nothing."""

    name = "slow"
    limit = 0.2

    def __init__(self, computes: float, sleeps: float) -> None:
        self.computes, self.sleeps = computes, sleeps

    def prepare(self) -> None:
        pass

    def run(self, seed: int) -> str:
        end = time.process_time() + self.computes * seed
        while time.process_time() < end:
            pass
        time.sleep(self.sleeps * seed)
        return "done"

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("computes", "sleeps", "hangs"),
    [(30, 0, True), (0, 30, True), (0, 0.5, False)],
    ids=["computes", "waits for ever", "waits"],
)
def test_what_hangs(computes: float, sleeps: float, hangs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Others may keep a case that is to end from the CPU for seconds; one that waits for ever need not be waited for.
    monkeypatch.setattr(driver, "PATIENCE", 2 if sleeps > 1 else 1000)
    report = driver.run(Slow(computes, sleeps), range(3), 1e9, 1)
    assert [seed for seed, _ in report.findings] == [1, 2] * hangs
