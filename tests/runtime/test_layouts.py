"""Records of words that Python and native code share."""

from __future__ import annotations

import pytest

from cenote.runtime import layouts
from cenote.runtime.layouts import CALL, CONTROL, LOG, LOGS, MOVE, NOTE, STEP, WordRecord

LINE = 8


def test_words_have_places_in_their_lines() -> None:
    record = WordRecord("a b*3 c", "d", size=3 * LINE)
    assert (record.a, record.b, record.c, record.d, record.size) == (0, 1, 4, 8, 24)
    assert WordRecord("a b").size == 2


def test_a_word_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no word grains"):
        _ = STEP.grains


def test_words_of_a_record_do_not_share_a_place() -> None:
    every = [each for each in vars(layouts).values() if isinstance(each, WordRecord)]
    assert {STEP, CONTROL, LOGS, LOG, NOTE, CALL, MOVE} <= {*every}
    for record in every:
        places = list(record.places.values())
        assert len({*places}) == len(places)
        assert max(places) < record.size


def test_what_several_threads_write_lies_on_lines_of_its_own() -> None:
    """A line that a thread writes is taken from all others."""
    contended = [CONTROL.sequence, CONTROL.generation, CONTROL.active, CONTROL.sleeping_workers]
    lines = [
        place // LINE for place in (*contended, CONTROL.sleeping_at_barrier, CONTROL.threads, CONTROL.cpus)
    ]
    assert len({*lines}) == len(lines)
    assert STEP.items // LINE != STEP.taken // LINE == STEP.done // LINE
    assert STEP.size % LINE == 0
