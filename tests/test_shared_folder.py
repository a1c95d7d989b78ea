"""The folder beside the repository is known in one place, so that hiding it hides it from all."""

import re
from pathlib import Path

from tests.shared_readers import readers

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


FILES = {
    "shared_folder": "SHARED = 1\nMODELS = [SHARED]\nOWN = 2\ndef files():\n  return MODELS",
    "helper": "from tests.shared_folder import files as found, OWN\n"
    "if found:\n  NAMES = found()\ndef own(): return OWN",
    "conftest": "from tests import helper\ndef named(): return helper.NAMES\ndef two(): return 2",
    "test_parts": "from tests.helper import NAMES, own\nfrom tests.shared_folder import OWN\n"
    "needs = mark(NAMES)\n@needs\ndef test_marked(): pass\ndef test_own(): own(OWN)\n"
    "def test_fixture(named): pass\ndef test_other_fixture(two): pass\n"
    "PLACES = [place for place in NAMES]\ndef test_variable(place): pass\n"
    "def test_places(): PLACES\n"
    "def test_inside():\n  from tests.shared_folder import SHARED as folder\n  return folder",
    "test_whole": "from tests.shared_folder import OWN, MODELS\npytestmark = MODELS\n"
    "def test_any(): pass",
}


def test_readers_are_found_by_what_they_mention(tmp_path):
    (tmp_path / "tests").mkdir()
    for name, text in FILES.items():
        (tmp_path / "tests" / f"{name}.py").write_text(text)
    found = {name for module, name in readers(tmp_path) if module == "tests.test_parts"}
    assert {name for name in found if name.startswith("test_")} == {
        "test_marked", "test_fixture", "test_places", "test_inside",
    }  # fmt: skip
    assert ("tests.test_whole", "pytestmark") in readers(tmp_path)
    assert ("tests.test_whole", "test_any") not in readers(tmp_path)
