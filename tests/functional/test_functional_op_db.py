"""The list of PyTorch's samples that pass (data/op_db_counts.txt) against what there is to count."""

from __future__ import annotations

import re

from tests.functional import op_db_table
from tests.functional.op_db.database import op_db, torch


def test_every_function_that_op_db_has_is_counted() -> None:
    """No entry with the name of one of our functions is without a comparison, and each has passed samples."""
    assert not list(op_db_table.unmapped())
    head, *rows = op_db_table.COUNTS.read_text(encoding="utf-8").splitlines()
    counted = {row.partition(":")[0] for row in rows}
    if head.endswith(f"torch {torch.__version__.partition('+')[0]}"):
        wanted = {op_db_table.function_of(op) for op in op_db if op_db_table.family_of(op) is not None}
        assert counted == wanted
    for row in rows:
        found = re.match(r"(\w+): (\d+) samples of (\d+) types, (\d+) errors", row)
        assert found, row
        assert int(found[2]) >= int(found[3]) >= 1


def test_the_head_adds_up_the_rows() -> None:
    """Also where only some functions were counted anew."""
    assert op_db_table.table(op_db_table.kept()) == op_db_table.COUNTS.read_text(encoding="utf-8")


def test_a_difference_is_counted_as_one() -> None:
    """What the table is made with does see a wrong answer and an error that is none."""
    from tests.functional.op_db import elementwise as family

    op = next(op for op in op_db if op.name == "neg")
    sample = next(iter(op.sample_inputs("cpu", torch.float32)))
    into = op_db_table.Count()
    original = family.F.neg
    try:
        family.F.neg = family.F.abs
        assert (
            op_db_table._tried(lambda: family.compare(op, "float32", sample), into, "a wrong answer") is None
        )
    finally:
        family.F.neg = original
    assert len(into.differences) == 1
    assert op_db_table._tried(lambda: family.compare(op, "float32", sample), into, "a right one") == ""
