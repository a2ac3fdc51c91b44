"""What the system refuses, and values that callers gave, in errors."""

from __future__ import annotations

import errno
import os

import pytest

from cenote.core.errors import CapacityError, ModelError, refusals, shown
from tests.runtime.long_runs import in_a_process


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_what_the_system_refuses_is_ours(number: int) -> None:
    with pytest.raises(CapacityError, match="loading a thing: "), refusals("loading a thing"):
        raise OSError(number, os.strerror(number))
    with pytest.raises(PermissionError), refusals("loading a thing"):
        raise PermissionError(errno.EACCES, "no")
    with pytest.raises(ModelError), refusals("loading a thing"):
        raise ModelError("as it was")


def test_no_descriptor_for_what_loading_imports() -> None:
    code = (
        "import resource, cenote\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "try:\n"
        "    cenote.load(b'no model')\n"
        "except cenote.CenoteError as error:\n"
        "    print(type(error).__name__)\n"
    )
    result = in_a_process(code)
    assert result.stdout.strip() == "CapacityError", result.stderr


def test_values_are_shown_cut() -> None:
    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shown([1, "a"]) == "[1, 'a']"
    assert shown(10**5000) == "an integer of 16610 bits"
    assert shown(Silent()) == "a Silent that cannot be printed"
    assert len(shown(list(range(10**4)))) < 200
