"""The options of processes without Python are those of the table."""

from __future__ import annotations

from delegate.options import OPTIONS


def test_keys_are_those_of_the_table(host):
    from tests.aot.models import rich_model

    err = host(rich_model(), nonsense="1").err
    assert f"valid: {', '.join(option.key for option in OPTIONS)};" in err
