"""Models as services: many callers on one model (`Batcher`), folders of models (`Repository`), a server (`serve`)."""

from __future__ import annotations

from cenote.serving.batcher import Batcher, Counters
from cenote.serving.repository import Found, Repository, Served
from cenote.serving.server import serve

__all__ = ["Batcher", "Counters", "Found", "Repository", "Served", "serve"]
