"""The table of options: precedence, refusals and their texts."""

import dataclasses
from pathlib import Path

import pytest

from delegate.errors import OptionError
from delegate.options import ENVIRONMENT_PREFIX, OPTIONS, OPTIONS_BY_KEY, Options


def options(environ: dict[str, str] | None = None, **explicit: object) -> Options:
    return Options.from_mapping(explicit, environ or {})


def test_table_and_dataclass_have_the_same_keys_and_defaults() -> None:
    fields = [f.name for f in dataclasses.fields(Options) if f.name != "origins"]
    assert fields == [option.key for option in OPTIONS]
    assert options() == Options()


def test_design_lists_every_key() -> None:
    assert set(OPTIONS_BY_KEY) == {
        "device", "cores", "chip", "numerics", "float", "cache_dir", "deny_ops", "strict",
        "timeout_ms", "verify", "stats_dir", "log_level",
    }  # fmt: skip


def test_explicit_wins_over_environment_over_default() -> None:
    environ = {"RK3588_DELEGATE_TIMEOUT_MS": "4", "RK3588_DELEGATE_STRICT": "on"}
    chosen = options(environ, timeout_ms="7")
    assert (chosen.timeout_ms, chosen.origins["timeout_ms"]) == (7, "option")
    assert (chosen.strict, chosen.origins["strict"]) == (True, "environment")
    assert (chosen.cores, chosen.origins["cores"]) == ("auto", "default")
    assert options({"RK3588_DELEGATE_DEVICE": ""}).origins["device"] == "default"  # as unset


def test_process_environment_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RK3588_DELEGATE_DEVICE", "null")
    assert Options.from_mapping({}).device == "null"


def test_unknown_key_lists_the_valid_ones_and_the_closest() -> None:
    with pytest.raises(OptionError) as error:
        options(devcie="simulator")
    text = str(error.value)
    assert "unknown option 'devcie' (did you mean 'device'?)" in text
    assert all(key in text for key in OPTIONS_BY_KEY)
    assert "\n" not in text


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("device", "simulater", "did you mean 'simulator'"),
        ("device", "", "expected auto, rocket"),
        ("timeout_ms", "three", "an integer"),
        ("timeout_ms", "1_000", "an integer"),
        ("timeout_ms", "9" * 500, "an integer"),
        ("timeout_ms", "-1", "an integer from 0"),
        ("strict", "maybe", "true or false"),
        ("timeout_ms", "1.5", "an integer"),
        ("timeout_ms", "-0", "an integer"),
        ("timeout_ms", "\N{ARABIC-INDIC DIGIT FIVE}", "an integer"),
        ("deny_ops", "ADD,CONV_2", "did you mean 'CONV_2D'"),
        ("deny_ops", "-1", "node numbers"),
        ("log_level", "verbose", "error, warning, info or debug"),
        ("cores", "3", "auto, all"),
        ("cores", "2-0", "auto, all"),
        ("cores", "0x0", "auto, all"),
        ("verify", "gpu", "off, sim or sample"),
        ("cache_dir", " ", "a path"),
        ("device", "nu\0ll", "NUL"),
    ],
)
def test_malformed_value_names_key_value_and_expectation(
    key: str, value: str, expected: str
) -> None:
    with pytest.raises(OptionError) as error:
        options(**{key: value})
    text = str(error.value)
    assert f"option '{key}'" in text
    assert expected in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"RK3588_DELEGATE_STRICT": "si"}, "variable RK3588_DELEGATE_STRICT is 'si'"),
        ({"RK3588_DELEGATE_DEVISE": "simulator"}, r"RK3588_DELEGATE_DEVISE.*did you mean"),
    ],
)
def test_error_names_the_environment_variable_it_came_from(environ, words) -> None:
    with pytest.raises(OptionError, match=words):
        options(environ)


@pytest.mark.parametrize(
    ("key", "value", "taken"),
    [
        ("strict", True, True),
        ("timeout_ms", 3, 3),
        ("deny_ops", ["add", "CONV_2D"], ("ADD", "CONV_2D")),
        ("deny_ops", "ADD+conv_2d 12", ("12", "ADD", "CONV_2D")),  # as benchmark_model leaves it
        ("deny_ops", "007,7", ("7",)),
        ("cache_dir", Path("/tmp/somewhere"), "/tmp/somewhere"),
    ],
)
def test_values_are_taken_as_users_write_them(key: str, value: object, taken: object) -> None:
    assert getattr(options(**{key: value}), key) == taken


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, r"option 'cache_dir' is .*; expected text"),
        (b"/tmp/somewhere", r"option 'cache_dir' is .*; expected text"),
        ("/tmp/\udcff", "UTF-8"),
    ],
)
def test_values_that_are_no_text_are_no_names_of_folders(value: object, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        options(cache_dir=value)


def test_strings_give_the_same_options_again() -> None:
    chosen = options(deny_ops="ADD,CONV_2D", strict="1", device="null")
    strings = chosen.to_strings()
    assert all(isinstance(value, str) for value in strings.values())
    assert Options.from_mapping(strings, {}) == chosen


def test_environment_names_follow_the_design() -> None:
    assert [o.environment for o in OPTIONS] == [ENVIRONMENT_PREFIX + o.key.upper() for o in OPTIONS]
