"""Not in this distribution."""

from cenote.core.packages import left_out

raise left_out(__name__)
