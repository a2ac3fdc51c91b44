"""`python -m bundle`: see `bundle.build`."""

from __future__ import annotations

from bundle.build import main

if __name__ == "__main__":
    main()
