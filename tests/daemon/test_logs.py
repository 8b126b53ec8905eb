import json
import logging

import pytest
import structlog

from hamid.daemon.logs import LogFormat, LogLevel, configure_logs
from hamid.errors import SettingsError


@pytest.fixture(autouse=True)
def _logging_is_put_back():
    """What tests of other rooms rely on: nobody has configured anything."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def lines(capsys):
    """What was logged, line by line."""

    def read():
        return capsys.readouterr().err.splitlines()

    return read


def configure(log_format=LogFormat.JSON, level=LogLevel.INFO):
    # Inside a test: pytest exchanges stderr between fixture and test.
    configure_logs(log_format, level)
    return structlog.get_logger("test")


def test_elsewhere_than_on_a_terminal_a_line_is_json(lines):
    log = configure(LogFormat.AUTO)

    log.info("pod placed", pod="a/b", memory_mib=3)

    (line,) = lines()
    entry = json.loads(line)
    assert entry.pop("timestamp").endswith("Z")
    assert entry == {"event": "pod placed", "level": "info", "pod": "a/b", "memory_mib": 3}


def test_for_people_a_line_is_words(lines):
    configure(LogFormat.CONSOLE).warning("pod placed", pod="a/b")

    (line,) = lines()
    assert "pod placed" in line
    assert "pod=a/b" in line
    assert not line.startswith("{")


def test_lines_below_the_level_are_not_shown(lines):
    log = configure(level=LogLevel.WARNING)

    log.info("small")
    log.warning("large")

    assert [json.loads(line)["event"] for line in lines()] == ["large"]


def test_what_libraries_log_looks_the_same_from_warnings_on(lines):
    configure(level=LogLevel.DEBUG)

    logging.getLogger("aiohttp.server").info("a request")
    logging.getLogger("aiohttp.server").error("Unhandled %s", "exception")

    (line,) = lines()
    entry = json.loads(line)
    assert entry.pop("timestamp")
    assert entry == {"event": "Unhandled exception", "level": "error", "logger": "aiohttp.server"}


def test_a_traceback_is_in_its_line(lines):
    log = configure()
    error = SettingsError("no good", hint="do it")

    log.error("daemon failed", exc_info=error)

    (line,) = lines()
    assert "SettingsError: no good" in json.loads(line)["exception"]


def test_any_value_can_be_logged(lines):
    configure().info("odd", value={"a": {1}, "b": object})

    assert json.loads(lines()[0])["event"] == "odd"


def use(token):
    raise ValueError(f"no good: {len(token)}")


@pytest.mark.parametrize("log_format", [LogFormat.CONSOLE, LogFormat.JSON])
def test_a_traceback_does_not_show_what_variables_hold(lines, log_format):
    log = configure(log_format)

    try:
        use("secret")
    except ValueError:
        log.exception("step failed")

    said = "\n".join(lines())
    assert "no good: 6" in said
    assert "'secret'" not in said
