"""Pages as a reader without a browser sees them: elements, texts, charts."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """A page, parsed.

    ``elements`` are tags with their attributes, ``texts`` what stands in each kind of element.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br"):
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"<{tag}> is closed in the wrong place"

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of the elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def charts(self) -> list[dict[str, Any]]:
        """The charts with their data."""
        for attributes, text in zip(self.all("script"), self.texts.get("script", []), strict=True):
            if attributes.get("type") == "application/json":
                charts: list[dict[str, Any]] = json.loads(text)
                return charts
        return []

    @property
    def cells(self) -> list[str]:
        """Texts of the cells of all tables."""
        return self.texts.get("td", [])
