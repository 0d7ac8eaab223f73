import importlib.util
import os
import signal

import numpy as np
import pytest

from bitmix.datasets import make_templates, sample_mixture
from bitmix.rows.packed import BitMatrix

# A shell starts what runs in its background with Ctrl+C ignored, and children inherit that: a
# command that a test interrupts would not hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Where numba is missing, its kernels are not tested; on Windows, what needs POSIX is not."""
    if os.name != "posix":
        for item in items:
            if item.get_closest_marker("posix"):
                item.add_marker(pytest.mark.skip("this system has no fork, users or mounts"))
    if importlib.util.find_spec("numba") is None:
        for item in items:
            case = getattr(item, "callspec", None)
            names = [] if case is None else map(str, case.params.values())
            if "compiled" in names:
                item.add_marker(pytest.mark.skip("numba is missing"))


@pytest.fixture(params=["reference", "compiled"])
def kernels(request, monkeypatch):
    """Runs a test once on each back end."""
    monkeypatch.setenv("BITMIX_KERNELS", request.param)
    return request.param


@pytest.fixture(scope="session")
def planted():
    """600 rows of 3 well separated templates: rows, labels, templates."""
    truth = make_templates(3, 200, separation=0.3, random_state=1)
    rows, labels = sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, 600, random_state=2)
    return rows, labels, truth


def random_bits(m: int, n: int, seed: int, density: float = 0.5) -> BitMatrix:
    return BitMatrix.from_dense(np.random.default_rng(seed).random((m, n)) < density)
