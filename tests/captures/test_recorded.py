"""The captures of this repository stand for all that there are."""

import pytest

from tests.captures.features import features
from tests.shared_folder import RECORDED, SHARED

LIMIT_BYTES = 3_000_000
FILES = sorted(RECORDED.glob("*.npz"))
ALL = sorted((SHARED / "captures").glob("*.npz"))
needs_all = pytest.mark.skipif(not ALL, reason=f"no other captures: {SHARED} has none")


def test_the_selection_is_small_and_says_where_it_comes_from():
    assert FILES
    assert sum(path.stat().st_size for path in FILES) <= LIMIT_BYTES
    text = (RECORDED / "README.md").read_text(encoding="utf-8")
    for words in ("Apache License 2.0", "Mesa", "TensorFlow Lite's reference kernels"):
        assert words in text
    origins = {path.stem.partition("-")[0] for path in FILES}
    assert origins == {"mesa_mb", "mesa_mobiledet", "mesa_yolox"}
    assert all(f"`{origin}-*`" in text for origin in origins)


@needs_all
def test_the_selection_has_every_feature_of_all_captures():
    everyone = {path: features(path) for path in ALL}
    chosen = {path for path in ALL if path.name in {file.name for file in FILES}}
    assert len(chosen) == len(FILES)
    for file in FILES:
        assert file.read_bytes() == (SHARED / "captures" / file.name).read_bytes()
    wanted = frozenset().union(*everyone.values())
    found = frozenset().union(*(everyone[path] for path in chosen))
    assert sorted(wanted - found) == []


@needs_all
def test_a_capture_less_would_leave_a_feature_out():
    """No file is there for nothing, and the check above can fail."""
    having = {path: features(path) for path in FILES}
    wanted = frozenset().union(*having.values())
    for path in FILES:
        others = frozenset().union(*(found for other, found in having.items() if other != path))
        assert others < wanted, path.name
