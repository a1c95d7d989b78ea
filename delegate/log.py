"""Logging: one logger named "delegate", which leaves the root logger alone.

Messages reach the application's handlers as usual. Where the application configured none, they go
to stderr, one line each, so that a user of a bare interpreter sees warnings and what ``log_level``
asks for.
"""

from __future__ import annotations

import logging
import sys

LOGGER_NAME = "delegate"

_MOST_CHARACTERS = 4000  # of a line: what somebody gave as a path may be of any length
_LEVELS = {
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}


class _FallbackHandler(logging.Handler):
    """Writes to the present ``sys.stderr``, but only while the root logger has no handlers."""

    def emit(self, record: logging.LogRecord) -> None:
        if logging.getLogger().handlers or sys.stderr is None:
            return
        try:
            text = " ".join(self.format(record).splitlines())
            if len(text) > _MOST_CHARACTERS:
                text = f"{text[:_MOST_CHARACTERS]}... ({len(text)} characters)"
            sys.stderr.write(f"rk3588-delegate: {record.levelname.lower()}: {text}\n")
            sys.stderr.flush()
        except Exception:  # a closed stderr must not break an inference
            self.handleError(record)


def get_logger(name: str = "") -> logging.Logger:
    """The project's logger, or a child of it."""
    return logging.getLogger(f"{LOGGER_NAME}.{name}" if name else LOGGER_NAME)


def configure(log_level: str) -> logging.Logger:
    """Sets the level of the "delegate" logger (error, warning, info, debug) and its fallback to
    stderr.

    May be called any number of times; the last level holds for the process.
    """
    logger = logging.getLogger(LOGGER_NAME)
    logger.setLevel(_LEVELS[log_level])
    if not any(isinstance(handler, _FallbackHandler) for handler in logger.handlers):
        logger.addHandler(_FallbackHandler())
    return logger
