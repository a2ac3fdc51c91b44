"""Not in this distribution."""

from cenote.core.errors import left_out

raise left_out(__name__)
