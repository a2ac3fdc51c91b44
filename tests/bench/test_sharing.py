"""The sums of memory over processes, from what the kernel says."""

from __future__ import annotations

import pytest

from bench.sharing import Usage, markdown

ROLLUP = """\
00400000-7ffd2d5e6000 ---p 00000000 00:00 0                              [rollup]
Rss:              204800 kB
Pss:               30720 kB
Pss_Dirty:         20480 kB
Shared_Clean:     184320 kB
Private_Clean:      1024 kB
Private_Dirty:     20480 kB
"""


def test_sums_are_of_all_processes() -> None:
    usage = Usage.of("net", "engine", [ROLLUP, ROLLUP])
    assert (usage.resident, usage.proportional, usage.private) == (400.0, 60.0, 42.0)
    assert usage.each == 30.0
    assert markdown([usage]).splitlines()[-1] == "| net | engine | 2 | 400 | 60 | 42 | 30 |"


def test_a_missing_field_is_an_error() -> None:
    with pytest.raises(KeyError):
        Usage.of("net", "engine", [ROLLUP.replace("Pss:", "Other:")])
