"""How the daemon logs: for people on a terminal, as JSON lines elsewhere."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from structlog.typing import Processor


class LogFormat(StrEnum):
    """The looks of a log line."""

    AUTO = "auto"
    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """The least important lines that are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure_logs(log_format: LogFormat, level: LogLevel) -> None:
    """Set up structlog, and let what libraries log by `logging` pass through it from warnings on."""
    is_console = log_format is LogFormat.CONSOLE or (
        log_format is LogFormat.AUTO and sys.stderr.isatty()
    )
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    renderer: list[Processor] = (
        [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                # The usual one shows what local variables hold: tokens, and bodies with keys.
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
        if is_console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    numeric = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(numeric, logging.WARNING), force=True)
