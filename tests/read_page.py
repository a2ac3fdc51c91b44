"""What a page written by Cenote holds, read by Python's own parser."""

from __future__ import annotations

from html.parser import HTMLParser


class Read(HTMLParser):
    """A page: its balanced tags, its texts, its links and what they may lead to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.links: set[str] = set()
        self.marks: set[str] = set()
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links |= {link[1:] for link in [given.get("href") or ""] if link.startswith("#")}
        self.marks |= {mark for mark in [given.get("id") or ""] if mark}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
