"""Each fault of `cluster_faults.py` once, the rounds in turn."""

import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("distributed")
import cluster_faults as faults

pytestmark = [
    pytest.mark.system,
    pytest.mark.posix,
    pytest.mark.filterwarnings("ignore"),  # Dask warns of what is broken on purpose
]
POISONED = ["raises", "holds a 2", "lacks a column", "lacks a row", "is no array"]


@pytest.fixture(scope="module")
def cluster():
    with faults.Cluster() as cluster:
        yield cluster


def end(name, cluster, at):
    """How the fit ends, the fault having come in time."""
    for _ in range(20):
        cluster.wait_for_workers()
        found = faults.outcome(faults.FAULTS[name], cluster, at)
        if found != "too late":
            return found
    raise AssertionError("the pass is always over before the fault")


@pytest.mark.parametrize("at", range(1, faults.ROUNDS + 1))
def test_a_killed_worker_changes_no_bit(cluster, at):
    assert end("a worker is killed", cluster, at) == "right bits"


@pytest.mark.parametrize("what", POISONED)
def test_a_poisoned_block_is_one_clear_error(cluster, what):
    assert end(f"a block {what}", cluster, 0) == "clear error"


def test_a_silent_scheduler_keeps_nobody_waiting(cluster):
    try:
        assert end("the scheduler falls silent", cluster, 3) == "clear error"
    finally:
        os.kill(cluster.process.pid, signal.SIGCONT)


def test_another_scheduler_may_take_the_place_of_a_dead_one(cluster):
    assert end("the scheduler dies, another takes its place", cluster, 2) == "right bits"


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("a block is too large for a worker", 0),
        ("workers have no memory left", 0),
        ("the workers leave", 1),
    ],
)
def test_workers_that_do_not_come_back_are_one_clear_error(name, at):
    assert faults.struck(name, at, 1) == {"clear error": 1}


def test_the_judge_sees_what_is_wrong(cluster, monkeypatch):
    """Other bits, an error that says something else, and one that is not ours."""
    fault = faults.Fault()
    monkeypatch.setattr(faults, "wanted", lambda: ())
    assert faults.outcome(fault, cluster, 0) == "OTHER BITS"
    fault = faults.Fault(poison=lambda block: 2 * block, says="something else")
    assert faults.outcome(fault, cluster, 0).startswith("ERROR X must hold 0 and 1")
    monkeypatch.setattr(faults, "fitted", lambda X: 1 // 0)
    assert faults.outcome(fault, cluster, 0).startswith("RAW ERROR ZeroDivisionError")


def test_the_command_line_ends_with_code_2(tmp_path):
    """The scheduler dies while `bitmix fit --cluster` works."""
    faults.rows().save(tmp_path / "x.bits")
    settings = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"}

    def busy(dask_scheduler):
        return any("_folded" in str(key) for key in dask_scheduler.tasks)

    with faults.Cluster() as cluster:
        command = [sys.executable, "-m", "bitmix", "fit", "x.bits", "-k", "3", "-o", "my.model"]
        process = subprocess.Popen(
            [*command, "--cluster", cluster.address, "--starts", "1000", "--method", "two-round"],
            cwd=tmp_path, env={**os.environ, **settings}, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while not cluster.client.run_on_scheduler(busy):
            assert process.poll() is None, process.communicate()
        cluster.process.kill()
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 2, said
    assert "bitmix: the Dask scheduler is gone" in said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["x.bits"]
