"""Fits in many threads and processes at once: the same bits, and an end."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

from bitmix import BitMatrix, ClassicEM, TemplateMixture, TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture

SECONDS = 120  # long for a loaded machine, short for a deadlock

MODELS = (
    TwoRoundEM(3, n_init=2, random_state=0),
    ClassicEM(3, max_iter=6, random_state=1),
    TemplateMixture(3, n_init=3, random_state=2),
    TemplateMixture(3, noise_model="cell", n_init=3, random_state=3),
)


@pytest.fixture(scope="module")
def rows():
    truth = make_templates(3, 150, separation=0.4, random_state=0)
    return sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, 6000, random_state=0)[0]


@pytest.fixture(scope="module")
def want(rows):
    return [fitted(i, rows) for i in range(len(MODELS))]


def fitted(i, rows):
    """The bits of a fit; the estimator is made anew, as each caller has its own."""
    model = type(MODELS[i])(**MODELS[i].get_params()).fit(rows)
    return model.means_.tobytes(), model.predict(rows).tobytes(), model.score(rows)


def test_eight_threads_at_once(rows, want):
    gate = threading.Barrier(8, timeout=SECONDS)

    def run(i):
        gate.wait()
        return fitted(i % len(MODELS), rows)

    with ThreadPoolExecutor(8) as pool:
        found = [future.result(SECONDS) for future in [pool.submit(run, i) for i in range(8)]]
    assert found == want + want


COLD = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import test_concurrency as it
from bitmix.datasets import make_templates, sample_mixture
truth = make_templates(3, 150, separation=0.4, random_state=0)
rows = sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, 6000, random_state=0)[0]
gate, found = threading.Barrier(4), {}
def run(i):
    gate.wait()
    found[i] = it.fitted(i, rows)
threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
import pickle; sys.stdout.buffer.write(pickle.dumps([found[i] for i in range(4)]))
"""


@pytest.mark.parametrize("kernels", ["", "compiled"])
def test_threads_that_are_the_first_to_load_the_kernels(want, kernels):
    """Modules, kernels and tables are loaded when first used: here by four threads at once."""
    done = subprocess.run(
        [sys.executable, "-c", COLD, os.path.dirname(__file__)], capture_output=True,
        timeout=SECONDS, env={**os.environ, "BITMIX_KERNELS": kernels}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert pickle.loads(done.stdout) == want


def test_eight_threads_read_one_file(rows, want, tmp_path):
    rows.save(tmp_path / "x.bits")
    stored = BitMatrix.open(tmp_path / "x.bits")
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(fitted, i % len(MODELS), stored) for i in range(8)]
        assert [future.result(SECONDS) for future in futures] == want + want


def test_eight_threads_share_one_fitted_model(rows):
    model = TemplateMixture(3, random_state=0).fit(rows)
    labels = model.predict(rows)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(model.predict, rows) for _ in range(8)]
        assert all(np.array_equal(future.result(SECONDS), labels) for future in futures)


@pytest.mark.parametrize("kind", ["threading", pytest.param("loky", marks=pytest.mark.system)])
def test_inside_joblib(rows, want, kind):
    joblib = pytest.importorskip("joblib")
    jobs = [joblib.delayed(fitted)(i, rows) for i in range(len(MODELS))]
    assert joblib.Parallel(n_jobs=2, backend=kind, timeout=SECONDS)(jobs) == want


FORKED = """
import multiprocessing, os, sys
sys.path.insert(0, sys.argv[1])
import test_concurrency as it
from bitmix.datasets import make_templates, sample_mixture

truth = make_templates(3, 150, separation=0.4, random_state=0)
rows = sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, 6000, random_state=0)[0]
want = [it.fitted(i, rows) for i in range(len(it.MODELS))]  # its threads are running now
child = os.fork()
if child == 0:
    same = [it.fitted(i, rows) for i in range(len(it.MODELS))] == want
    os._exit(0 if same else 1)
assert os.waitpid(child, 0)[1] == 0, "after os.fork"
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.starmap(it.fitted, [(i, rows) for i in range(len(it.MODELS))]) == want
assert [it.fitted(i, rows) for i in range(len(it.MODELS))] == want, "in the parent"
print("the same bits")
"""


@pytest.mark.posix
def test_after_fork():
    """In a process of its own: that of the tests has threads that are not ours."""
    here = os.path.dirname(__file__)
    environment = {**os.environ, "BITMIX_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, here],
        capture_output=True, text=True, timeout=SECONDS, env=environment,
    )  # fmt: skip
    assert done.stdout == "the same bits\n", done.stderr


@pytest.mark.system
def test_in_processes_that_were_spawned(rows, want):
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        futures = [pool.submit(fitted, i, rows) for i in range(len(MODELS))]
        assert [future.result(SECONDS) for future in futures] == want
