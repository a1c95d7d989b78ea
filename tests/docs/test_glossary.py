"""The words of docs/glossary.md are those of the code."""

import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_ROW = re.compile(r"^\| (.+?) \| .+ \| (.*?) \| (.*?) ?\|$", re.MULTILINE)
_COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def names() -> set[str]:
    """All names in the code and of its files; what comments and texts say does not count."""
    found: set[str] = set()
    for path in [*ROOT.glob("delegate/**/*.py"), *ROOT.glob("native/**/*.[ch]*")]:
        found.update(path.with_suffix("").relative_to(ROOT).parts)
        if path.suffix == ".py":
            with tokenize.open(path) as file:
                tokens = tokenize.generate_tokens(file.readline)
                found.update(t.string for t in tokens if t.type == tokenize.NAME)
        else:
            text = _COMMENT_OR_TEXT.sub(" ", path.read_text(encoding="utf-8"))
            found.update(re.findall(r"\w+", text))
    return found


def test_glossary_names_what_is_there_and_nothing_that_went() -> None:
    rows = _ROW.findall((ROOT / "docs/glossary.md").read_text(encoding="utf-8"))[2:]
    words = [word for word, _, _ in rows]
    assert len(rows) > 25
    assert words == sorted(set(words), key=str.casefold)
    code = names()
    for word, used, gone in rows:
        assert set(re.findall(r"`(\w+)`", used)) <= code, word
        assert not set(re.findall(r"`(\w+)`", gone)) & code, word
