"""``python -m bitmix.experiments.worker``: a cell a line in, its result a line out.

A worker touches no file it could lock: the parent keeps the results. When the parent is gone, in
whatever way, standard input ends, and the thread that reads it ends the process at once.
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
from bitmix.experiments.cells import Cell, canonical
from bitmix.experiments.tasks import run


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints must not get between the answers
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
        result = run(Cell(**json.loads(line)))
        return canonical({"result": result, "seconds": time.perf_counter() - start})
    except Exception as error:
        return canonical({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
