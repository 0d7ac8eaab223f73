"""``python -m reproduction.worker``: reads one run per line, writes one result per line.

A worker opens no file for writing. Once the parent process has ended, however it ended, standard
input is closed, and the thread that reads it ends this process at once.
"""

import json
import os
import queue
import sys
import threading
import time
import warnings
from typing import IO

from bitmix.errors import BitmixWarning
from reproduction.runs import Run, canonical_json
from reproduction.tasks import execute


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints goes to standard error, not between the answers
    warnings.simplefilter("ignore", BitmixWarning)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin, lines), daemon=True).start()
    while True:
        answers.write(_answer(lines.get()) + "\n")
        answers.flush()


def _read(source: IO[str], lines: "queue.SimpleQueue[str]") -> None:
    for line in source:
        lines.put(line)
    os._exit(0)


def _answer(line: str) -> str:
    start = time.perf_counter()
    try:
        result = execute(Run(**json.loads(line)))
        return canonical_json({"result": result, "seconds": time.perf_counter() - start})
    except Exception as error:
        return canonical_json({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
