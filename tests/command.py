"""The bitmix command within the process of the tests, which saves starting Python each time."""

import contextlib
import io
import os
import sys
import warnings
from dataclasses import dataclass
from unittest import mock

from bitmix.__main__ import main


@dataclass(frozen=True)
class Finished:
    """What a command that has ended printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


def bitmix(*arguments, input="", cwd=".", encoding="utf-8"):
    """Run a command as the shell would. An error that would print a traceback is raised here."""
    stdin = io.TextIOWrapper(io.BytesIO(input.encode()), encoding="utf-8")
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    code = None
    with (
        contextlib.chdir(cwd),
        mock.patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=stderr),
        mock.patch.dict(os.environ, COLUMNS="80"),
        mock.patch("signal.signal"),  # pytest keeps its own handlers
        mock.patch("bitmix.support.progress.LOG_SECONDS", 1e6),  # however slow the machine is
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
    texts = []
    for stream in (stdout, stderr):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode(encoding))
    return Finished(code or 0, *texts)
