"""The test suite on machines other than this one: `python -m tests.machines [arguments of pytest]`

Each of MACHINES is imagined in turn: an instruction set, a number of CPUs, caches, and loops that keep the CPUs busy
meanwhile. Options imagine one machine instead: `--target avx2 --cpus 1 --l3 4M --busy 2`. What the system says of
caches is covered up in a namespace of mounts, so processes that tests start see the same; it takes Linux, `unshare`,
and root or user namespaces. `--cpu Haswell` runs the tests under QEMU (`qemu-x86_64`, of Debian's qemu-user), whose
processors are asked by their own CPUID and fault on instructions that they lack: for a few tests, as it takes ten times
as long. Processes that tests start run on the real one there.

The last machine has an Arm CPU that QEMU emulates, with its own system, Python and choice of tests (`tests.arm`). It is
left out until `python -m tests.arm --prepare` has made it.

Ends with a line for each machine; the exit code is 1 where a test failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.arm import machine as arm_machine
from tests.arm.__main__ import arguments_of_pytest as arguments_on_arm
from tests.targets import runnable

ROOT = Path(__file__).resolve().parents[1]
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
# Tests that look at the machine, or ask a peer that does: what runs under QEMU if nothing is named.
EMULATED = (
    "tests/core/machine/test_cpuid.py", "tests/codegen/test_loader.py", "tests/codegen/test_llvm_spills.py",
    "tests/codegen/test_dots.py", "tests/frontends/microsoft/test_operators.py",
    "tests/ops/quantization/test_quantize.py", "tests/test_model.py",
)  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """How a machine differs from this one; empty and 0: not."""

    name: str
    target: str = ""
    cpus: int = 0
    l1: str = ""
    l2: str = ""
    l3: str = ""
    busy: int = 0
    cpu: str = ""  # QEMU's name of a processor
    arm: bool = False  # the one of `tests.arm`

    def __str__(self) -> str:
        fields = {key: value for key, value in vars(self).items() if value and key != "name"}
        return f"{self.name} ({', '.join(f'{key} {value}' for key, value in fields.items()) or 'as it is'})"

    @property
    def caches(self) -> dict[int, str]:
        """Sizes by level, those that differ."""
        sizes = {1: self.l1, 2: self.l2, 3: self.l3}
        return {level: size for level, size in sizes.items() if size}


# Few machines, each unlike the others in everything: a fault shows on one of them, and options say what it is due to.
MACHINES = (
    Machine("laptop", target="avx2", cpus=1, l1="48K", l2="256K", l3="4M"),
    Machine("server", l1="32K", l2="2M", l3="512M"),
    Machine("old server", target="generic", l2="512K", l3="16M", busy=2),
    Machine("Arm", arm=True),
)


def cache_folder(sizes: dict[int, str], folder: Path) -> Path:
    """The folder of a CPU's caches as Linux shows it, with these sizes in place of this machine's."""
    for level, usual in ((1, "32K"), (2, "512K"), (3, "16M")):
        shown = {"level": str(level), "type": "Data" if level == 1 else "Unified", "size": usual}
        for place in CACHES.glob("index*"):
            if (place / "level").read_text().strip() == shown["level"]:
                shown["size"] = (place / "size").read_text().strip()
        made = folder / f"index{level}"
        made.mkdir(parents=True)
        for name, text in {**shown, "size": sizes.get(level, shown["size"])}.items():
            (made / name).write_text(f"{text}\n")
    return folder


def covering(folder: Path, command: Sequence[str]) -> list[str]:
    """The command, run where the folder lies over what the system says of caches."""
    alone = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    return [*alone, "sh", "-c", f'mount --bind "$0" {CACHES} && exec "$@"', str(folder), *command]


@contextmanager
def kept_busy(loops: int) -> Iterator[None]:
    """As many processes that never rest, while this lasts."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def run_on(machine: Machine, arguments: Sequence[str]) -> int:
    """Run this Python with these arguments on a machine; its exit code."""
    if machine.arm:
        return arm_machine.run(arguments)
    command = [*(["qemu-x86_64", "-cpu", machine.cpu] if machine.cpu else []), sys.executable, *arguments]
    forced = "" if machine.cpu else os.environ.get("CENOTE_TARGET", "")  # another CPU may not have it
    environment = {**os.environ, "CENOTE_TARGET": machine.target or forced}
    allowed = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as folder, kept_busy(machine.busy):
        if machine.caches:
            command = covering(cache_folder(machine.caches, Path(folder)), command)
        try:
            os.sched_setaffinity(0, sorted(allowed)[: machine.cpus or None])
            return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        finally:
            os.sched_setaffinity(0, allowed)


def chosen(machine: Machine, arguments: Sequence[str]) -> list[str]:
    """The arguments of Python that run the tests: under QEMU a few tests if none are named, in one process, as others
    are not emulated."""
    if machine.arm:
        return arguments_on_arm(arguments)
    if not machine.cpu:
        return ["-m", "pytest", *arguments]
    named = any((ROOT / argument.partition("::")[0]).exists() for argument in arguments)
    return ["-m", "pytest", *(() if named else EMULATED), *arguments, "-n", "0"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--target", default="", help="instruction set: avx512, avx2, generic")
    parser.add_argument("--cpus", type=int, default=0, help="CPUs that processes may use")
    for level in ("l1", "l2", "l3"):
        parser.add_argument(f"--{level}", default="", help=f"size of the {level} cache: 32K, 4M")
    parser.add_argument("--busy", type=int, default=0, help="processes that keep CPUs busy")
    parser.add_argument("--cpu", default="", help="QEMU's name of a processor: Haswell, Nehalem, EPYC-Milan")
    options, arguments = parser.parse_known_args()
    machines = (Machine("this machine", **vars(options)),) if any(vars(options).values()) else MACHINES
    results = {}
    for machine in machines:
        if machine.target and runnable(machine.target) is None:
            results[machine] = "not run: this CPU lacks the instruction set"
            continue
        if machine.arm and not arm_machine.is_prepared():
            results[machine] = "not run: `python -m tests.arm --prepare` makes it"
            continue
        print(machine, flush=True)
        results[machine] = "FAILED" if run_on(machine, chosen(machine, arguments)) else "passed"
    for machine, result in results.items():
        print(f"{machine}: {result}")
    return "FAILED" in results.values()


if __name__ == "__main__":
    sys.exit(main())
