"""The folder beside the repository is known in one place, so that hiding it hides it from all."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
# A path to it, put together or written out; prose and skip messages name it without quotes.
MENTION = re.compile(r"""/\s*["']shared["']|["']\.\./shared""")


def test_only_one_file_says_where_the_folder_is():
    mentions = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if MENTION.search(path.read_text(encoding="utf-8"))
    }
    assert mentions == {"shared_folder.py"}
