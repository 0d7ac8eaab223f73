"""Small changes to the source, one at a time: the tests should notice each.

    python benchmarks/mutants.py [--sample 100] [--seed 0] [--only theory] [--again]

Prints the changes that survive. What was tried stands in mutants.sqlite and is not tried again as
long as the file stays the same; `--again` tries the survivors once more, after tests were added.

A change lives in memory only, in a forked process. Only the tests that reach the changed line are
run, the quickest first, up to `--seconds` of them. Commands that a test starts see no change.
"""

import argparse
import ast
import hashlib
import importlib.abc
import importlib.util
import json
import math
import os
import random
import resource
import signal
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import hypothesis
import numba
import pandas
import polars
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
import sklearn.utils.estimator_checks

PRELOADED = (numba, pandas, polars, scipy, sklearn)  # so that no forked process has to
ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "bitmix"
TESTS = {
    "theory": ["test_theory_exact.py", "test_theory.py", "test_certify.py"],
    "em": ["test_em_exact.py", "test_algorithm.py", "test_template_mixture.py", "test_large.py"],
    "kernels/reference.py": ["test_kernels.py", "test_algorithm.py"],
}
NEGATED = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SHIFTED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OTHER = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Mod: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
    ast.And: ast.Or, ast.Or: ast.And, ast.MatMult: ast.Mult,
}  # fmt: skip


class Mutant(NamedTuple):
    """The change with number `change` of the node with number `node` of a file."""

    path: str
    digest: str
    node: int
    change: int
    line: int
    text: str


def changes(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left, [op, *ops], others):
            for table in (NEGATED, SHIFTED):
                if type(op) in table:
                    yield ast.Compare(left, [table[type(op)](), *ops], others)
        case ast.BinOp(left, op, right):
            yield ast.BinOp(left, OTHER[type(op)](), right)
        case ast.AugAssign(target, op, value):
            yield ast.AugAssign(target, OTHER[type(op)](), value)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(OTHER[type(op)](), values)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.IfExp(test, body, otherwise):
            yield ast.IfExp(test, otherwise, body)
        case ast.If(ast.Name() | ast.Call() | ast.Attribute() as test, body, otherwise):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, otherwise)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Return(ast.AST() as value) if ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))


def behaviour(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that do something: no types, no decorators, no texts."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            quiet = isinstance(child, ast.JoinedStr) or getattr(child, "arg", "") == "stacklevel"
            if isinstance(child, ast.AST) and not quiet:
                yield child
                yield from behaviour(child)


def mutants_of(path: Path) -> Iterator[Mutant]:
    text = path.read_text()
    name, digest = str(path.relative_to(SOURCE)), hashlib.sha256(text.encode()).hexdigest()[:16]
    for i, node in enumerate(behaviour(ast.parse(text))):
        for j, changed in enumerate(changes(node)):
            words = f"{ast.unparse(node)} → {ast.unparse(changed)}".splitlines()[0]
            yield Mutant(name, digest, i, j, getattr(node, "lineno", 0), words)


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the changed module to whoever imports it."""

    def __init__(self, mutant: Mutant) -> None:
        self.path = SOURCE / mutant.path
        self.name = module_of(self.path)
        tree = ast.parse(self.path.read_text())
        old = list(behaviour(tree))[mutant.node]
        new = list(changes(old))[mutant.change]

        class Swap(ast.NodeTransformer):
            def visit(self, node: ast.AST) -> Any:
                return ast.copy_location(new, node) if node is old else self.generic_visit(node)

        self.tree = ast.fix_missing_locations(Swap().visit(tree))

    def find_spec(self, name: str, *_: Any) -> Any:
        if name == self.name:
            return importlib.util.spec_from_loader(name, self, origin=str(self.path))
        return None

    def exec_module(self, module: Any) -> None:
        module.__file__ = str(self.path)
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)


class Watch:
    """Notes which lines each test reaches. What a shared fixture reaches, its whole file does."""

    def __init__(self) -> None:
        self.coverage = coverage.Coverage(data_file=None, source=[str(SOURCE)], config_file=False)
        self.seconds: dict[str, float] = defaultdict(float)
        self.now = ""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        start, self.now = time.process_time(), item.nodeid
        self.coverage.switch_context(self.now)
        yield
        self.seconds[self.now] = time.process_time() - start
        self.seconds[file_of(self.now)] += self.seconds[self.now]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        shared = fixturedef.scope != "function"
        self.coverage.switch_context(file_of(self.now) if shared else self.now)
        yield
        self.coverage.switch_context(self.now)

    def reached(self) -> dict[str, dict[int, list[str]]]:
        data = self.coverage.get_data()
        return {
            str(Path(path).relative_to(SOURCE)): data.contexts_by_lineno(path)
            for path in data.measured_files()
        }


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def file_of(test: str) -> str:
    return test.split("::")[0]


def run(tests: list[str], *plugins: object) -> int:
    quick = set(hypothesis.Phase) - {hypothesis.Phase.shrink, hypothesis.Phase.explain}
    hypothesis.settings.register_profile("once", derandomize=True, database=None, phases=quick)
    hypothesis.settings.load_profile("once")
    options = [
        "-x",
        "-q",
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--assert=plain",
    ]
    return int(pytest.main([*options, *tests], plugins=plugins))


def reach(paths: list[Path], tests: list[str], out: str) -> int:
    """Writes down who reaches what; what runs on import is nobody's in particular."""
    watch = Watch()
    watch.coverage.start()
    for path in paths:
        importlib.import_module(module_of(path))
    status = run(tests, watch)
    watch.coverage.stop()
    Path(out).write_text(json.dumps([watch.reached(), watch.seconds]))
    return status


def attempt(mutant: Mutant, tests: list[str]) -> int:
    sys.meta_path.insert(0, Mutated(mutant))
    return run(tests)


def forked(work: Callable[[], int], seconds: float) -> int | None:
    """What the work returns in a process of its own; None if it needs more of the processor."""
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds)))
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        status = 1
        try:
            status = work()
        finally:
            os._exit(status)
    end = time.monotonic() + 20 * seconds  # for what waits and will not end
    done = 0
    while not done and time.monotonic() < end:
        time.sleep(0.02)
        done, status = os.waitpid(child, os.WNOHANG)
    if not done:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None
    code = os.waitstatus_to_exitcode(status)
    return None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=100, help="changes to try of each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=30, help="of tests for each change")
    parser.add_argument("--only", choices=TESTS, action="append", help="parts; default all")
    parser.add_argument("--again", action="store_true", help="try the survivors once more")
    options = parser.parse_args()
    os.chdir(ROOT)
    store = sqlite3.connect("mutants.sqlite", isolation_level=None)
    columns = (
        "path, digest, node, change, line, text, outcome, PRIMARY KEY (path, digest, node, change)"
    )
    store.execute(f"CREATE TABLE IF NOT EXISTS tried ({columns})")
    for part in options.only or TESTS:
        attempt_part(part, options, store)


def attempt_part(part: str, options: argparse.Namespace, store: sqlite3.Connection) -> None:
    paths = sorted((SOURCE / part).glob("*.py")) or [SOURCE / part]
    every = [mutant for path in paths for mutant in mutants_of(path)]
    sample = random.Random(options.seed).sample(every, min(options.sample, len(every)))
    tried = {Mutant(*row[:-1]): row[-1] for row in store.execute("SELECT * FROM tried")}
    again = ("survived", "unreached") if options.again else ()
    todo = [mutant for mutant in sample if tried.get(mutant, again) in (again, *again)]
    if todo:
        with tempfile.NamedTemporaryFile() as file:
            tests = [f"tests/{name}" for name in TESTS[part]]
            if forked(lambda: reach(paths, tests, file.name), 3600) != 0:
                sys.exit(f"{part}: the tests fail without any change")
            reached, seconds = json.loads(file.read())
        print(f"{part}: {len(seconds)} tests, {len(todo)} changes to try", flush=True)
    for mutant in todo:
        lines = reached.get(mutant.path, {})
        outcome = judged(mutant, lines.get(str(mutant.line), []), seconds, options.seconds)
        tried[mutant] = outcome
        store.execute("REPLACE INTO tried VALUES (?, ?, ?, ?, ?, ?, ?)", (*mutant, outcome))
        print(f"{outcome:9} {mutant.path}:{mutant.line}: {mutant.text}", flush=True)
    outcomes = [tried[mutant] for mutant in sample]
    counts = {name: outcomes.count(name) for name in sorted(set(outcomes))}
    print(f"{part}: {len(sample)} of {len(every)} changes: {counts}")
    for mutant in sample:
        if tried[mutant] in ("survived", "unreached"):
            print(f"  {tried[mutant]:9} {mutant.path}:{mutant.line}: {mutant.text}")


def judged(mutant: Mutant, tests: list[str], seconds: dict[str, float], most: float) -> str:
    """What came of it. A line that runs on import is everybody's."""
    if not tests:
        return "unreached"
    chosen, total = [], 0.0
    for test in sorted(set(tests) - {""} or seconds, key=seconds.__getitem__):
        if chosen and total + seconds[test] > most:
            break
        chosen, total = [*chosen, test], total + seconds[test]
    status = forked(lambda: attempt(mutant, chosen), 15 + 3 * total)
    return "timeout" if status is None else "killed" if status else "survived"


if __name__ == "__main__":
    main()
