"""Without numba the same bits; without the extras everything but what they are for."""

import json
import subprocess
import sys

import numpy as np
import pytest

from bitmix.datasets import make_templates, sample_mixture

EXTRAS = {
    "cli": ["typer", "rich"],
    "images": ["PIL"],
    "plot": ["matplotlib", "jinja2"],
    "dask": ["dask", "distributed", "zarr"],
    "files": ["pyarrow"],
    "cells": ["h5py"],
    "chem": ["rdkit"],
}
OTHERS = ["pandas", "polars", "IPython"]  # which somebody's environment may have, or not

WORK = """
import hashlib
from bitmix import BitMatrix, ClassicEM, TemplateMixture, TwoRoundEM

complete, partial = (BitMatrix.open(name) for name in ("rows.bits", "partial.bits"))
digest = hashlib.sha256()
models = [TwoRoundEM(3, random_state=0), ClassicEM(3, random_state=0)]
for noise_model in ("auto", "updown", "component", "feature", "cell"):
    models.append(TemplateMixture(3, noise_model=noise_model, n_init=2, random_state=0))
for model in models:
    for rows in (complete, partial) if isinstance(model, TemplateMixture) else (complete,):
        model.fit(rows).save("my.model")
        again = type(model).load("my.model")
        for part in (again.means_, again.predict_proba(rows), again.score_samples(rows)):
            digest.update(part.tobytes())
        assert (again.predict(rows) == model.predict(rows)).all()
assert models[0].certify(complete).issued
print(digest.hexdigest())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows enough for the compiled kernels to be loaded, and the same with gaps and weights."""
    folder = tmp_path_factory.mktemp("without")
    truth = make_templates(3, 520, separation=0.4, random_state=0)
    rows, _ = sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, 4200, 0)
    rows.save(folder / "rows.bits")
    gaps = np.random.default_rng(1).random(rows.shape) < 0.1
    rows.masked(gaps).weighted(np.arange(4200) % 4).save(folder / "partial.bits")
    return folder


def without(libraries, code, folder):
    """Runs code where libraries cannot be imported."""
    absent = f"import sys; sys.modules.update(dict.fromkeys({libraries!r}))\n"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", absent + code],
        capture_output=True, text=True, cwd=folder, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def with_all(folder):
    pytest.importorskip("numba")
    result = without([], WORK + "assert 'numba' in sys.modules", folder)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.system
def test_the_same_bits_without_numba(folder, with_all):
    result = without(["numba", "llvmlite"], WORK, folder)
    assert (result.stderr, result.stdout) == ("", with_all)


@pytest.mark.system
def test_the_same_bits_without_extras(folder, with_all):
    result = without(sum(EXTRAS.values(), OTHERS), WORK, folder)
    assert (result.stderr, result.stdout) == ("", with_all)


def test_every_extra_has_its_libraries_here():
    """A library that a module of ours imports is required, or belongs to an extra and is named."""
    from bitmix.support import extras

    named = {name: extra for extra, names in EXTRAS.items() for name in names}
    assert named == extras._EXTRA_OF


CALLS = {
    "matplotlib": [
        "bitmix.plots.plot_templates(model)",
        "bitmix.plots.plot_margins(model, rows)",
        "bitmix.plots.save_domain('domain.png', q=0.1)",
        "bitmix.select_components(rows, range(1, 4), random_state=0).plot()",
    ],
    "PIL": [
        "bitmix.features.GaborSketch().fit_transform(['photo.png'])",
        "bitmix.features.GaborSketch().fit_transform(np.zeros((2, 90, 90), np.uint8))",
    ],
    "jinja2": ["bitmix.report.write(model, rows, 'report.html')"],
    "pyarrow": ["open_table(Path('rows.parquet'))", "open_table(Path('rows.arrow'))"],
    "zarr": ["open_table(Path('rows.zarr'))"],
    "h5py": ["open_table(Path('rows.h5ad'))"],
    "rdkit": ["open_table(Path('rows.smi'))"],
}


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    """What each call says where its library is missing."""
    folder = tmp_path_factory.mktemp("refusals")
    for name in ("rows.parquet", "rows.arrow", "rows.h5ad", "rows.smi", "photo.png"):
        (folder / name).write_bytes(b"PAR1")
    (folder / "rows.zarr").mkdir()
    (folder / "rows.zarr" / "zarr.json").write_text("{}")
    calls = [call for several in CALLS.values() for call in several]
    code = f"""
import json
from pathlib import Path
import numpy as np
import bitmix
from bitmix.rows.files import open_table
rows = np.repeat([[0] * 9, [1] * 9], 60, axis=0)
model = bitmix.TwoRoundEM(2, n_seeds=10, random_state=0).fit(rows)
said = {{}}
for call in {calls!r}:
    try:
        said[call] = repr(eval(call))
    except (ModuleNotFoundError, ValueError) as error:
        said[call] = str(error)
print(json.dumps(said))
"""
    before = sorted(path.name for path in folder.rglob("*"))
    result = without(list(CALLS), code, folder)
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in folder.rglob("*")) == before
    return json.loads(result.stdout)


@pytest.mark.parametrize("library", CALLS)
def test_a_missing_library_is_named_with_its_extra(refusals, library):
    extra = next(extra for extra, names in EXTRAS.items() if library in names)
    for call in CALLS[library]:
        assert f"needs {library}" in refusals[call], call
        assert f"pip install 'bitmix[{extra}]'" in refusals[call], call


@pytest.mark.parametrize("library", EXTRAS["cli"] + ["distributed"])
def test_a_missing_library_ends_the_command_line_with_code_2(folder, library):
    extra = next(extra for extra, names in EXTRAS.items() if library in names)
    code = """
sys.argv = ["bitmix", "fit", "rows.bits", "-k", "2", "--cluster", "local"]
from bitmix.__main__ import main; main()
"""
    result = without([library], code, folder)
    assert result.returncode == 2
    assert result.stderr == f"bitmix: this needs {library}: pip install 'bitmix[{extra}]'\n"


def test_a_library_that_is_broken_itself_is_not_called_missing(monkeypatch, tmp_path):
    from bitmix.support.extras import need

    (tmp_path / "halfthere.py").write_text("import no_such_thing")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="^No module named 'no_such_thing'$"):
        need("halfthere")
