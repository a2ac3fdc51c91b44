"""Machines that the suite imagines: the package sees what they are said to have."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.arm import machine as arm_machine
from tests.arm.__main__ import LEFT_OUT, TESTS
from tests.machines import EMULATED, ROOT, Machine, cache_folder, chosen, covering, run_on

SEEN = (
    "from cenote.codegen import jit; from cenote.core.target import physical_cores\n"
    "seen = jit.host_target()\n"
    "print(seen.name, physical_cores(), seen.l1_bytes >> 10, seen.l2_bytes >> 10, seen.l3_bytes >> 10)"
)


def needs_mounts(folder: Path) -> None:
    if not shutil.which("unshare"):
        pytest.skip("util-linux's unshare is not installed")
    covered = covering(cache_folder({}, folder / "caches"), ["true"])
    if subprocess.run(covered, capture_output=True, check=False).returncode:
        pytest.skip("no mounts of its own for a process here")


def test_the_package_sees_the_machine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    needs_mounts(tmp_path)
    assert run_on(Machine("small", target="generic", cpus=1, l1="48K", l2="1M", l3="4M"), ["-c", SEEN]) == 0
    assert capfd.readouterr().out.split() == ["generic", "1", "48", "1024", "4096"]


def test_a_processor_without_avx(capfd: pytest.CaptureFixture[str]) -> None:
    if not shutil.which("qemu-x86_64"):
        pytest.skip("QEMU is not installed")
    assert run_on(Machine("old", cpu="Nehalem"), ["-c", SEEN]) == 0
    assert capfd.readouterr().out.split()[0] == "generic"


def test_emulated_tests_run_in_the_emulated_process() -> None:
    old = Machine("old", cpu="Nehalem")
    assert chosen(old, ["-n", "auto"]) == ["-m", "pytest", *EMULATED, "-n", "auto", "-n", "0"]
    assert chosen(old, ["tests/core"]) == ["-m", "pytest", "tests/core", "-n", "0"]
    assert all((ROOT / path).exists() for path in EMULATED)


def test_an_arm_machine_has_its_own_tests() -> None:
    arm = Machine("Arm", arm=True)
    *start, workers, count = chosen(arm, ["-n", "2"])
    assert start[:4] == ["-m", "pytest", "-p", "tests.arm.plugin"]
    assert [workers, count] == ["-n", "2"]
    assert {*TESTS, *LEFT_OUT} <= {*start}
    assert chosen(arm, ["tests/core"]) == [*start[:4], "tests/core"]
    for path in (*TESTS, *LEFT_OUT):
        file, _, name = path.partition("::")
        assert (ROOT / file).exists()
        assert not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_an_arm_machine_runs_arms_code(capfd: pytest.CaptureFixture[str]) -> None:
    if not arm_machine.is_prepared():
        pytest.skip("`python -m tests.arm --prepare` has not been called")
    say = (
        "import platform; from cenote.codegen import jit; print(platform.machine(), jit.host_target().triple)"
    )
    assert run_on(Machine("Arm", arm=True), ["-c", say]) == 0
    assert capfd.readouterr().out.split() == ["aarch64", "aarch64-unknown-linux-gnu"]
