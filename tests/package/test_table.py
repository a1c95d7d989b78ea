"""Tables, shares and the progress bar."""

import io
import sys

import pytest

from delegate.cli.table import WIDTH, format_pairs, format_table, nodes_text, share, thousands
from delegate.progress import progress


def test_columns_are_aligned() -> None:
    text = format_table(("n", "name"), [(5, "five"), (1000, "thousand")], right=(0,))
    assert text == "   n  name\n   5  five\n1000  thousand"


def test_last_column_wraps_under_itself() -> None:
    lines = format_table(("a", "text"), [("x", "word " * 40)]).splitlines()
    assert len(lines) == 4
    assert all(len(line) <= WIDTH for line in lines)
    assert all(line.startswith("   word") for line in lines[2:])


def test_last_column_is_cut_or_kept_on_demand() -> None:
    row = [("x", "y" * 200)]
    assert format_table(("a", "b"), row, last="elide").splitlines()[1].endswith("y...")
    assert len(format_table(("a", "b"), row, last="elide").splitlines()[1]) == WIDTH
    assert format_table(("a", "b"), row, last="keep").splitlines()[1] == "x  " + "y" * 200


def test_line_breaks_in_cells_do_not_break_the_table() -> None:
    assert format_table(("a", "b"), [("x\ny", "z")]).splitlines()[1] == "x y  z"


def test_pairs_are_aligned() -> None:
    assert format_pairs([("a", 1), ("long", 2)]) == "a     1\nlong  2"


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(1, 2, "50.000 %"), (999_999, 1_000_000, "99.999 %"), (5, 5, "100.000 %"), (0, 0, "-")],
)
def test_share_never_rounds_up(part: int, whole: int, text: str) -> None:
    assert share(part, whole) == text


def test_thousands() -> None:
    assert thousands(1234567) == "1 234 567"


def test_nodes_are_written_as_runs() -> None:
    assert nodes_text((0, 1, 2, 5, 7, 8)) == "0-2 5 7-8"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_bar_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delegate.progress._SHOW_AFTER_S", -1.0)
    for stream, shows in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("working", 2) as bar:
            bar.advance()
        text = stream.getvalue()
        assert ("working" in text and "50 %" in text) == shows
        assert text.endswith("\r\x1b[K") == shows


def test_progress_elsewhere_is_a_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("delegate.progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("working", 100) as bar:
        for _ in range(25):
            now[0] += 1
            bar.advance()
    assert stream.getvalue() == "working: 11 %\nworking: 22 %\n"


def test_progress_bar_stays_away_from_short_work(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("working", 1) as bar:
        bar.advance()
    assert stream.getvalue() == ""
