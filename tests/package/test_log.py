"""Logging stays within the "delegate" logger."""

import logging

import pytest

from delegate.log import LOGGER_NAME, configure, get_logger


@pytest.fixture(autouse=True)
def restore_logging() -> object:
    root, logger = logging.getLogger(), logging.getLogger(LOGGER_NAME)
    saved = (list(root.handlers), root.level, list(logger.handlers), logger.level)
    yield
    root.handlers[:], logger.handlers[:] = saved[0], saved[2]
    root.setLevel(saved[1])
    logger.setLevel(saved[3])


def test_level_follows_the_option_and_root_is_untouched(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    root.handlers.clear()
    before = root.level
    configure("info")
    get_logger("partition").info("two\nlines")
    get_logger("partition").debug("hidden")
    assert capsys.readouterr().err == "rk3588-delegate: info: two lines\n"
    assert root.level == before
    assert root.handlers == []


def test_configuring_twice_does_not_repeat_messages(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().handlers.clear()
    configure("debug")
    configure("warning")
    get_logger().warning("once")
    assert capsys.readouterr().err.count("once") == 1


def test_application_handlers_take_over(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    root.handlers[:] = [logging.NullHandler()]
    configure("warning")
    get_logger().warning("to the application only")
    assert "to the application only" not in capsys.readouterr().err
