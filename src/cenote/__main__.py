"""`python -m cenote`: the same as the command `cenote`."""

from __future__ import annotations

from cenote.cli import main

if __name__ == "__main__":
    main()
