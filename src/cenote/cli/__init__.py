"""The command `cenote`. It uses the public package only: whatever it does, a program can do too."""

from __future__ import annotations

from cenote.cli.app import main

__all__ = ["main"]
