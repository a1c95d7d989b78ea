"""The options of processes without Python are those of the table, and take the same values."""

import ctypes
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from delegate.errors import OptionError
from delegate.model.tflite_operators import BUILTIN_OPERATORS
from delegate.options import ENVIRONMENT_PREFIX, OPTIONS, OPTIONS_BY_KEY, Options

ROOT = Path(__file__).resolve().parents[2]
LOADER = ROOT / "native" / "loader"

Verdict = str | None
"""The value's text, or None for a refusal."""

Parse = Callable[[str, "bytes | None"], Verdict]

# 20,000 before a release: OPTION_VALUES=20000 pytest tests/hosts/test_native_options.py
VALUES_PER_KEY = int(os.environ.get("OPTION_VALUES", "2000"))


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Parse:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    library = tmp_path_factory.mktemp("options") / "options.so"
    sources = [LOADER / "native_options.cpp", LOADER / "option_kinds.cpp",
               Path(__file__).with_name("options_shim.cpp")]  # fmt: skip
    subprocess.run(
        [compiler, "-std=c++17", "-O1", "-fPIC", "-shared", f"-I{LOADER}", f"-I{LOADER.parent}",
         *sources, "-o", library],
        check=True, timeout=300,
    )  # fmt: skip
    function = ctypes.CDLL(str(library)).parse
    function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    buffer = ctypes.create_string_buffer(1 << 16)

    def parse(key: str, value: bytes | None) -> Verdict:
        code = function(key.encode(), value, buffer, len(buffer))
        assert code >= 0
        if code == 1:
            assert key in buffer.value.decode("utf-8", "replace").lower()
            return None
        return buffer.value.decode()

    return parse


def in_python(key: str, value: bytes) -> Verdict:
    """Return what the plugin makes of it: bytes that are no UTF-8 arrive as surrogates."""
    try:
        text = value.decode("utf-8", "surrogateescape")
        return Options.from_mapping({key: text}, {}).to_strings()[key]
    except OptionError:
        return None


def plausible(key: str) -> list[str]:
    """Values near the border of what is taken, for any key."""
    row = OPTIONS_BY_KEY[key]
    words = re.findall(r"[\w/]+", row.kind.values)
    numbers = [
        "0 1 2 3 5 +5 -5 -0 +0 + ++5 007 1e3 1_0 0x5 0X7 0x 0x8 0x07 0x007 0x0007 0xG 1-2 2-1 0-0",
        "0,1 0,,1 ,0 0, 0+2 3600000 3600001 1000000 1000001 999999999999 1000000000000",
        "000000000001 0000000000001 999999999 1000000000 \u0663 \uff11 \xb2",
    ]
    spaced = [
        " ",
        "\t",
        "\n",
        "0, 1",
        "0 2",
        "0\t1",
        "0\v1",
        "0\xa01",
        "0\u20281",
        " off ",
        " /dev/x ",
    ]
    others = [
        "off OFF o\ufb00 on ON yes TRUE tRuE auto all \u0130 \u0131 \u212a fal\u017fe ADD",
        "add,conv_2d ADD+3 CONV_2 custom / /dev/x ~/x ./off dev/ \ufeffauto \xe9 \U0001f600",
    ]
    unusual = ["", "\x1f", "\x85", "\xa0", "\u2003", "ADD\u00a0SUB", "sim\u200bulator", "true\0"]
    split = " ".join([*numbers, *others]).split(" ")
    return [*words, *(word.upper() for word in words), *split, *spaced, *unusual]


def mutated(rng: random.Random, values: list[str]) -> bytes:
    value = rng.choice(values)
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        position = rng.randint(0, len(value))
        kind = rng.randrange(5)
        if kind == 0:
            value = (
                value[:position]
                + rng.choice(" \t\n\v\f\r,+-0129xXaAfF/\u0130\xa0")
                + value[position:]
            )
        elif kind == 1:
            value = value[:position] + value[position + 1 :]
        elif kind == 2:
            value = value[:position] + chr(rng.randrange(1, 0x250)) + value[position:]
        elif kind == 3:
            value += rng.choice([",", "+", " ", ", ", ""]) + rng.choice(values)
        else:
            value = rng.choice([value.upper, value.lower, value.swapcase, value.title])()
    content = value.encode()
    if rng.random() < 0.1:  # bytes that are no UTF-8, and some that are
        position = rng.randint(0, len(content))
        content = content[:position] + rng.randbytes(rng.randint(1, 4)) + content[position:]
    return content.replace(b"\0", b"")


@pytest.mark.parametrize("key", OPTIONS_BY_KEY)
def test_both_parsers_give_the_same_verdict_and_value(native: Parse, key: str) -> None:
    rng = random.Random(f"options {key}")
    values = plausible(key)
    taken = refused = 0
    given = [text.encode().replace(b"\0", b"") for text in values]
    given += [mutated(rng, values) for _ in range(VALUES_PER_KEY)]
    for value in given:
        verdict = in_python(key, value)
        assert native(key, value) == verdict, value
        taken, refused = taken + (verdict is not None), refused + (verdict is None)
    assert taken > 20
    assert refused > 20


@pytest.mark.parametrize("key", OPTIONS_BY_KEY)
def test_a_value_given_back_is_the_same_value(native: Parse, key: str) -> None:
    for text in plausible(key):
        value = in_python(key, text.encode())
        if value is not None:
            assert in_python(key, value.encode()) == value
            assert native(key, value.encode()) == value


def test_every_operator_can_be_denied(native: Parse) -> None:
    for name in BUILTIN_OPERATORS:
        assert native("deny_ops", name.lower().encode()) == name


def test_environment_and_defaults_are_the_same(
    native: Parse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for option in OPTIONS:
        monkeypatch.delenv(option.environment, raising=False)
        assert native(option.key, None) == Options.from_mapping({}, {}).to_strings()[option.key]
        for text in (*plausible(option.key), "nonsense"):
            if "\0" in text:
                continue
            monkeypatch.setenv(option.environment, text)
            try:
                expected = Options.from_mapping({}, os.environ).to_strings()[option.key]
            except OptionError:
                expected = None
            assert native(option.key, None) == expected, (option.key, text)
            explicit = option.default or "ADD"
            assert native(option.key, explicit.encode()) == explicit  # wins
        monkeypatch.delenv(option.environment)


def test_unknown_variables_are_refused_by_both(
    native: Parse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{ENVIRONMENT_PREFIX}DEVISE", "null")
    with pytest.raises(OptionError):
        Options.from_mapping({}, os.environ)
    assert native("device", b"null") is None


def test_an_option_that_does_not_steer_the_compiler_is_used_without_python() -> None:
    text = (LOADER / "native_options.cpp").read_text(encoding="utf-8")
    used = set(re.findall(r'texts\.at\("(\w+)"\)', text))
    compiling = {o.key for o in OPTIONS if o.changes_programs}
    # The chip is also what the board has to be.
    assert used == set(OPTIONS_BY_KEY) - (compiling - {"chip"})


def test_keys_are_those_of_the_table(host):
    from tests.aot.models import rich_model

    err = host(rich_model(), nonsense="1").err
    assert f"valid: {', '.join(option.key for option in OPTIONS)}\n" in err
