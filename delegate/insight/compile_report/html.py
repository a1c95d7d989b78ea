"""The compile report as one self-contained page: no network, no other file.

The document goes into the page as JSON inside an inert script element; the script of the page draws
everything from it with text nodes, so names out of a model are never read as markup.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render_page(document: dict[str, Any]) -> str:
    """The page for ``page_document``."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    for character, escape in _UNSAFE.items():
        text = text.replace(character, escape)
    folder = resources.files(__package__)
    page = folder.joinpath("page.html").read_text(encoding="utf-8")
    parts = {
        "/*STYLE*/": folder.joinpath("page.css").read_text(encoding="utf-8"),
        "/*SCRIPT*/": folder.joinpath("page.js").read_text(encoding="utf-8"),
        "/*DOCUMENT*/": text,
    }
    for place, content in parts.items():
        page = page.replace(place, content, 1)
    return page
