"""`python -m tests.arm [arguments of pytest]`: see the package. `--prepare`: only prepare; `--python`: run the emulated
Python with the arguments behind it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.arm import machine

# The loader, the driver, the builder and its mathematics, every operator's kernels against their references, models.
TESTS = (
    "tests/test_smoke.py", "tests/test_model.py", "tests/codegen", "tests/kernels", "tests/runtime", "tests/core",
    "tests/contract/test_operators.py", "tests/contract/test_lowerings.py",
)  # fmt: skip
# What fails for what QEMU is, not for what Cenote does on Arm.
LEFT_OUT = {
    "tests/codegen/test_worker.py": "counts and ends processes that compile, which are not this machine's",
    "tests/codegen/test_loader.py::test_workers_compile_what_the_caller_would": "its workers are this machine's",
    "tests/runtime/test_threads_interrupts.py::test_a_function_is_interrupted": "a kernel of seconds takes minutes",
    "tests/runtime/test_threads.py::test_a_real_limit_of_address_space_makes_a_smaller_team": "QEMU has no limits",
}


def arguments_of_pytest(given: Sequence[str]) -> list[str]:
    """What pytest is called with: the tests above if none are named."""
    named = any((machine.ROOT / each.partition("::")[0]).exists() for each in given)
    left_out = [word for test in LEFT_OUT for word in ("--deselect", test)]
    plugin = ["-m", "pytest", "-p", "tests.arm.plugin"]
    return [*plugin, *(() if named else TESTS), *(() if named else left_out), *given]


def main(given: Sequence[str]) -> int:
    if not machine.is_prepared():
        if missing := machine.missing():
            print(f"not run: install {' and '.join(missing)} (Debian)")
            return 0
        machine.prepare()
    if given[:1] == ["--prepare"]:
        return 0
    return machine.run(given[1:] if given[:1] == ["--python"] else arguments_of_pytest(given))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
