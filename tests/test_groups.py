"""Representatives of groups against all pairs of rows."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import bitmix
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score

from bitmix import BitMatrix, TemplateMixture, TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture
from bitmix.errors import InputError
from bitmix.groups import medoids as medoids_module
from bitmix.groups.medoids import Members, medoids
from bitmix.metrics import isim, tanimoto_calinski_harabasz, tanimoto_davies_bouldin

BESIDE = Path(__file__).parents[2] / "shared" / "data" / "tables"
TABLES = Path(os.environ.get("BITMIX_TABLES", BESIDE))


def sparse_rows(m, n, k, seed=0, density=0.1):
    """Rows near k sparse templates."""
    rng = np.random.default_rng(seed)
    p = np.where(rng.random((k, n)) < density, 0.8, 0.02)
    labels = rng.integers(k, size=m)
    return (rng.random((m, n)) < p[labels]).astype(np.uint8), labels


def dense_rows(m, n, k, seed=0):
    truth = make_templates(k, n, separation=0.3, random_state=seed)
    rows, labels = sample_mixture(truth, np.full(k, 1 / k), 0.2, m, random_state=seed)
    return rows.to_dense(), labels


def sums_of_distances(X, metric):
    """Of each row from all rows, by SciPy: whole numbers for Hamming."""
    X = X.astype(float)
    if metric == "hamming":
        return cdist(X, X, "cityblock").sum(axis=1)
    return cdist(X.astype(bool), X.astype(bool), "jaccard").sum(axis=1)


def assert_medoids(found, X, labels, k, metric):
    for i in range(k):
        mine = np.flatnonzero(labels == i)
        if not mine.size:
            assert found.rows[i] == -1
            assert np.isnan(found.distances[i])
            continue
        sums = sums_of_distances(X[mine], metric)
        tied = mine[sums <= sums.min() + 1e-7 * len(mine)]  # Tanimoto is added in units of 2^-30
        assert found.rows[i] == tied[0] if metric == "hamming" else found.rows[i] in tied
        assert found.distances[i] == pytest.approx(sums.min() / len(mine), abs=1e-8)
        assert found.sizes[i] == len(mine)


@pytest.mark.parametrize("metric", ["hamming", "tanimoto"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 5, 1), (300, 64, 3), (301, 65, 40), (700, 200, 5)])
def test_medoids_are_those_of_all_pairs(metric, m, n, k):
    for rows in (sparse_rows, dense_rows):
        X, _ = rows(m, n, min(k, 8))
        labels = np.random.default_rng(1).integers(-1, k, size=m)
        found = medoids(Members.of(BitMatrix.from_dense(X), labels, k), metric)
        assert found.exact.all()
        assert_medoids(found, X, labels, k, metric)


def test_medoids_of_ten_thousand_rows_are_those_of_all_pairs():
    X, labels = sparse_rows(10_000, 256, 4)
    members = Members.of(BitMatrix.from_dense(X), labels, 4)
    for metric in ("hamming", "tanimoto"):
        found = medoids(members, metric)
        assert found.exact.all()
        assert_medoids(found, X, labels, 4, metric)


def test_equal_rows_give_the_lowest():
    X = np.array([[0, 0, 1], [1, 1, 0], [1, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=np.uint8)
    members = Members.of(BitMatrix.from_dense(X), np.zeros(5, dtype=int), 1)
    assert medoids(members, "hamming").rows.tolist() == [1]
    assert medoids(members, "tanimoto").rows.tolist() == [1]


def test_candidates_of_large_groups_are_nearly_as_close(monkeypatch):
    X, labels = sparse_rows(900, 128, 2)
    members = Members.of(BitMatrix.from_dense(X), labels, 2)
    exact = medoids(members, "tanimoto")
    monkeypatch.setattr(medoids_module, "MAX_PAIRS", 1000)
    some = medoids(members, "tanimoto")
    assert not some.exact.any()
    assert (some.distances >= exact.distances - 1e-9).all()
    for i in range(2):  # the mean distance that is given is that of the row that is given
        mine = np.flatnonzero(labels == i)
        own = cdist(X[[some.rows[i]]].astype(bool), X[mine].astype(bool), "jaccard").mean()
        assert some.distances[i] == pytest.approx(own, abs=1e-8)


def test_a_weighted_row_is_a_repeated_row():
    X, labels = dense_rows(60, 70, 2)
    weights = np.random.default_rng(0).integers(1, 5, size=60)
    weighted = Members.of(BitMatrix.from_dense(X).weighted(weights), labels, 2)
    repeated = Members.of(
        BitMatrix.from_dense(np.repeat(X, weights, axis=0)), np.repeat(labels, weights), 2
    )
    numbers = np.repeat(np.arange(60), weights)
    for metric in ("hamming", "tanimoto"):
        one, other = medoids(weighted, metric), medoids(repeated, metric)
        assert one.rows.tolist() == numbers[other.rows].tolist()
        assert one.distances == pytest.approx(other.distances)
        assert one.sizes.tolist() == other.sizes.tolist()


def test_a_missing_cell_differs_from_all_known_cells():
    X, labels = dense_rows(80, 70, 2)
    cells = X.astype(float)
    cells[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    found = medoids(
        Members.of(BitMatrix.from_dense(cells, missing=True), labels, 2), metric="hamming"
    )
    for i in range(2):
        mine = np.flatnonzero(labels == i)
        apart = cells[mine][:, None, :] != cells[mine][None, :, :]  # NaN differs from all
        sums = (apart & ~np.isnan(cells[mine])[None, :, :]).sum(axis=(1, 2))
        assert found.rows[i] == mine[sums.argmin()]
        assert found.distances[i] == pytest.approx(sums.min() / len(mine))


@pytest.mark.parametrize("metric", ["hamming", "tanimoto"])
def test_typical_and_odd_rows(metric):
    X, _ = sparse_rows(400, 100, 3)
    model = TemplateMixture(3, noise_model="cell", random_state=0).fit(X)
    labels = model.predict(X)
    for i in range(3):
        mine = np.flatnonzero(labels == i)
        sums = sums_of_distances(X[mine], metric)
        typical, odd = model.typical(X, i, 4, metric), model.odd(X, i, 4, metric)
        by_row = dict(zip(mine.tolist(), sums.tolist(), strict=True))
        assert [by_row[r] for r in typical] == pytest.approx(np.sort(sums)[:4], abs=1e-6)
        assert [by_row[r] for r in odd] == pytest.approx(np.sort(sums)[::-1][:4], abs=1e-6)
        assert typical[0] == model.medoids(X, metric).rows[i]


def test_the_metric_is_chosen_by_density():
    for rows, metric in ((sparse_rows(200, 100, 2, density=0.05), "tanimoto"),
                         (dense_rows(200, 100, 2), "hamming")):  # fmt: skip
        model = TwoRoundEM(2, n_seeds=20, random_state=0).fit(rows[0])
        assert model.medoids(rows[0]).metric == metric


def test_medoids_name_their_rows_and_refuse_what_makes_no_sense():
    X, _ = dense_rows(50, 40, 2)
    model = TemplateMixture(2, random_state=0).fit(X)
    names = [f"row {i}" for i in range(50)]
    found = model.medoids(X, ids=names)
    assert found.ids == tuple(names[row] for row in found.rows)
    with pytest.raises(InputError, match="metric must be one of"):
        model.medoids(X, metric="cosine")
    with pytest.raises(InputError, match="50 names"):
        model.medoids(X, ids=names[:3])
    with pytest.raises(InputError, match="groups 0 … 1, got 2"):
        model.typical(X, 2)
    with pytest.raises(InputError, match="n must be"):
        model.odd(X, 0, 0)


@pytest.mark.parametrize("other", ["reference", "compiled"])
def test_medoids_are_the_same_from_a_file_and_with_any_back_end(tmp_path, monkeypatch, other):
    X, labels = sparse_rows(3000, 130, 3)
    BitMatrix.from_dense(X).save(tmp_path / "x.bits")
    rows = {"memory": BitMatrix.from_dense(X), "file": BitMatrix.open(tmp_path / "x.bits")}
    found = []
    for kernels in ("reference", other):
        monkeypatch.setenv("BITMIX_KERNELS", kernels)
        for where in rows.values():
            for metric in ("hamming", "tanimoto"):
                each = medoids(Members.of(where, labels, 3), metric)
                found.append((metric, each.rows.tolist(), each.distances.tolist()))
    assert all(each in found[:2] for each in found)


def test_isim_is_the_ratio_of_sums_over_pairs():
    X, labels = sparse_rows(60, 80, 3)
    for i, value in enumerate(isim(X, labels)):
        rows = X[labels == i].astype(bool)
        pairs = [(x, y) for a, x in enumerate(rows) for y in rows[:a]]
        both, either = (sum(int(f(x, y).sum()) for x, y in pairs)
                        for f in (np.logical_and, np.logical_or))  # fmt: skip
        assert value == pytest.approx(both / either, rel=1e-13)
    assert np.isnan(isim(X[:1]))
    assert isim(np.zeros((3, 4), dtype=int)) == 1
    assert isim(BitMatrix.from_dense(X)) == isim(X)
    with pytest.raises(InputError, match="0 and 1"):
        isim([[2, 0]])


def test_tanimoto_measures_agree_with_bblean():
    bblean = pytest.importorskip("bblean")
    similarity = pytest.importorskip("bblean.similarity")
    measures = pytest.importorskip("bblean.metrics")
    X, labels = sparse_rows(300, 128, 4)
    assert isim(X) == pytest.approx(similarity.jt_isim(bblean.pack_fingerprints(X)), abs=1e-12)
    groups = [bblean.pack_fingerprints(X[labels == i]) for i in range(4)]
    expected = [similarity.jt_isim(group) for group in groups]
    assert isim(X, labels) == pytest.approx(expected, abs=1e-12)
    assert tanimoto_calinski_harabasz(X, labels) == pytest.approx(measures.jt_isim_chi(groups))
    theirs = measures.jt_dbi(groups) * 300 / 4  # it divides by rows, Davies and Bouldin by groups
    assert tanimoto_davies_bouldin(X, labels) == pytest.approx(theirs)


def test_tanimoto_measures_leave_out_rows_of_no_group():
    X, labels = sparse_rows(200, 64, 3)
    some = np.where(np.arange(200) < 20, -1, labels)
    for measure in (isim, tanimoto_calinski_harabasz, tanimoto_davies_bouldin):
        assert measure(X, some) == pytest.approx(measure(X[20:], labels[20:]))
    with pytest.raises(InputError, match="2 groups"):
        tanimoto_davies_bouldin(X, np.zeros(200, dtype=int))


def test_p_values_of_new_rows_are_uniform_if_the_model_is_right():
    """4,000 new rows: by Hoeffding's inequality, a share is off by .045 or more with probability
    below 10^-6 for each of the levels; 10,000 calibration rows add as little again."""
    for noise_model, rows in (("shared", dense_rows), ("cell", sparse_rows)):
        X, _ = rows(8000, 120, 3)
        model = TemplateMixture(3, noise_model=noise_model, random_state=0).fit(X[:4000])
        for p in (model.unlikeness(X[4000:]), model.calibrate(X[:4000]).unlikeness(X[4000:])):
            for level in (0.01, 0.05, 0.2):
                assert (p <= level).mean() < level + 0.045
                assert (p <= level).mean() > level - 0.045


def test_rows_that_are_unlike_all_are_rejected():
    X, _ = sparse_rows(1500, 200, 3)
    model = TemplateMixture(3, noise_model="cell", random_state=0).fit(X).calibrate(X)
    foreign, _ = sparse_rows(200, 200, 3, seed=9)  # other templates
    extremes = np.stack([np.zeros(200), np.ones(200)]).astype(np.uint8)
    assert (model.unlikeness(extremes) < 0.01).all()
    assert model.predict(extremes, reject=0.01).tolist() == [-1, -1]
    assert (model.predict(foreign, reject=0.01) == -1).mean() > 0.95
    kept = model.predict(X, reject=0.01)
    assert (kept == -1).mean() < 0.05
    assert np.array_equal(kept[kept >= 0], model.predict(X)[kept >= 0])
    with pytest.raises(InputError, match="reject must"):
        model.predict(X, reject=2)


@pytest.mark.parametrize(
    ("name", "labels"), [("molecules10", [-1, -1]), ("mnist4k", [-1, -1]), ("webkb", [0, -1])]
)
def test_rows_of_zeros_and_of_ones_in_real_tables(name, labels):
    """An empty page is not rejected: 14 of the pages of webkb are empty, and are in group 0."""
    path = TABLES / "suite" / f"{name}.npz"
    if not path.exists():
        pytest.skip("BITMIX_TABLES names no folder with real tables")
    arrays = np.load(path, allow_pickle=False)
    X = np.unpackbits(arrays["bits"], axis=1, bitorder="little")[:, : int(arrays["n"])]
    model = TemplateMixture(10, noise_model="cell", n_init=1, random_state=0).fit(X).calibrate(X)
    extremes = np.stack([np.zeros(X.shape[1]), np.ones(X.shape[1])]).astype(np.uint8)
    found = model.predict(extremes, reject=0.01)
    assert np.array_equal(found < 0, np.array(labels) < 0)
    if name == "webkb":
        assert (model.predict(X[X.sum(axis=1) == 0]) == found[0]).all()


def test_a_calibration_is_kept_in_the_file_and_forgotten_by_a_new_fit(tmp_path):
    X, _ = sparse_rows(300, 80, 2)
    model = TemplateMixture(2, random_state=0).fit(X).calibrate(X)
    model.representatives_ = ("a", "b")
    model.save(tmp_path / "m")
    again = TemplateMixture.load(tmp_path / "m")
    assert np.array_equal(again.unlikeness(X), model.unlikeness(X))
    assert again.representatives_ == ("a", "b")
    again.fit(X)
    assert again.calibration_ is None
    assert again.representatives_ is None


def test_calibration_refuses_what_it_cannot_use():
    X, _ = dense_rows(100, 60, 2)
    model = TwoRoundEM(2, n_seeds=20, random_state=0).fit(X)
    with pytest.raises(InputError, match="held_out_rows=True"):
        model.calibrate(X)
    assert model.calibrate(X, held_out_rows=True).calibration_.n_rows == 100
    with pytest.raises(InputError, match="20 rows or more, got 5"):
        model.calibrate(X[:5])


def test_rows_with_missing_cells_have_p_values():
    X, _ = dense_rows(600, 80, 2)
    cells = X.astype(float)
    cells[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = TemplateMixture(2, noise_model="cell", random_state=0).fit(cells).calibrate(cells)
    p = model.unlikeness(cells)
    assert np.isfinite(p).all()
    assert (p <= 0.05).mean() < 0.15
    model.unlikeness(np.full((1, 80), np.nan))  # nothing is known of it
    assert model.predict(np.full((1, 80), np.nan)).tolist() == [0]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    X, _ = sparse_rows(400, 60, 3)
    frame = pd.DataFrame(X, columns=[f"gene {i}" for i in range(60)])
    frame.insert(0, "who", [f"strain {i}" for i in range(400)])
    frame.to_csv(folder / "rows.csv", index=False)
    options = ("-k", "3", "--noise-model", "cell", "--id-column", "who", "-o", folder / "m")
    assert bitmix("fit", folder / "rows.csv", *options).returncode == 0
    return folder, frame.drop(columns="who")


def test_groups_are_written_with_their_representatives(fitted, tmp_path):
    folder, X = fitted
    target = tmp_path / "groups.csv"
    done = bitmix("groups", folder / "m", folder / "rows.csv", "-o", target)
    assert done.returncode == 0, done.stderr
    assert "3 groups written to" in done.stdout
    model, written = TemplateMixture.load(folder / "m"), pd.read_csv(target)
    assert written.columns.tolist() == [
        "group", "size", "weight", "representative", "mean_hamming_distance", "clear", "sets_apart",
    ]  # fmt: skip
    found = model.medoids(X)
    assert written["representative"].tolist() == [f"strain {row}" for row in found.rows]
    assert tuple(written["representative"]) == model.representatives_
    assert written["mean_hamming_distance"].tolist() == pytest.approx(found.distances, rel=1e-5)
    assert written["size"].sum() == 400
    assert written["sets_apart"].str.startswith("gene ").all()
    again = json.loads(bitmix("groups", folder / "m", folder / "rows.csv", "--json").stdout)
    assert [group["group"] for group in again["groups"]] == [0, 1, 2]


def test_predict_rejects_rows_and_names_representatives(fitted, tmp_path):
    folder, X = fitted
    odd = pd.DataFrame(np.ones((2, 60), dtype=int), columns=[f"gene {i}" for i in range(60)])
    odd.loc[1] = X.iloc[0]
    odd.insert(0, "who", ["odd", "even"])
    odd.to_csv(tmp_path / "new.csv", index=False)
    done = bitmix("predict", folder / "m", tmp_path / "new.csv", "--reject", ".01", cwd=tmp_path)
    assert "unlike all at level 0.01: 1" in done.stdout, done.stderr
    written = pd.read_csv(tmp_path / "new.labels.csv", keep_default_na=False)
    model = TemplateMixture.load(folder / "m")
    label = int(model.predict(X[:1])[0])
    assert written["label"].tolist() == [-1, label]
    assert written["representative"].tolist() == ["", model.representatives_[label]]


def test_rows_made_in_another_way_are_refused(fitted, tmp_path):
    folder, X = fitted
    X = X.to_numpy()
    np.save(tmp_path / "narrow.npy", X[:, :40])
    for command in ("predict", "groups"):
        done = bitmix(command, folder / "m", tmp_path / "narrow.npy", cwd=tmp_path)
        assert done.returncode == 2
        assert "narrow.npy" in done.stderr
    for name, radius in (("a", 2), ("b", 3)):
        lines = [f"{np.packbits(row, bitorder='little').tobytes().hex()}\t{i}"
                 for i, row in enumerate(X[:, :56])]  # fmt: skip
        head = f"#FPS1\n#num_bits=56\n#type=RDKit-Morgan/1 radius={radius}\n"
        (tmp_path / f"{name}.fps").write_text(head + "\n".join(lines) + "\n")
    fit = bitmix("fit", tmp_path / "a.fps", "-k", "2", "-o", tmp_path / "a.model")
    assert fit.returncode == 0, fit.stderr
    assert bitmix("predict", tmp_path / "a.model", tmp_path / "a.fps", cwd=tmp_path).returncode == 0
    done = bitmix("predict", tmp_path / "a.model", tmp_path / "b.fps", cwd=tmp_path)
    assert done.returncode == 2
    assert "radius=3" in done.stderr


def test_a_background_takes_the_rows_that_are_like_no_group(tmp_path):
    """Rows of independent columns are assigned to it, rows of templates are not."""
    X, labels = sparse_rows(600, 200, 3)
    rng = np.random.default_rng(5)
    leftovers = (rng.random((60, 200)) < X.mean(axis=0)).astype(np.uint8)
    both = np.concatenate([X, leftovers])
    model = TemplateMixture(3, noise_model="cell", background=True, random_state=0).fit(both)
    assert model.templates_.shape == (4, 200)
    found = model.predict(both)
    assert (found[600:] == -1).mean() > 0.9
    assert (found[:600] == -1).mean() < 0.01
    assert adjusted_rand_score(labels, found[:600]) > 0.98
    assert model.weights_[-1] == pytest.approx(60 / 660, abs=0.02)
    shares = (both.sum(axis=0) + 0.5) / 661
    assert model.probabilities_[-1] == pytest.approx(shares)
    assert model.n_parameters_ == 3 * 200 + 3
    gains = np.diff([entry.log_likelihood for entry in model.history_])
    assert model.converged_
    assert gains.sum() > 0
    model.save(tmp_path / "m")
    assert np.array_equal(TemplateMixture.load(tmp_path / "m").predict(both), found)
    assert model.medoids(both).rows[3] == -1
    with pytest.raises(InputError, match="noise_model='cell'"):
        TemplateMixture(3, noise_model="shared", background=True).fit(both)


def test_a_background_on_the_command_line(tmp_path):
    X, _ = sparse_rows(300, 100, 3)
    np.save(tmp_path / "x.npy", X)
    options = ("-k", "3", "--background", "-o", tmp_path / "m", "--report", tmp_path / "r.html")
    done = bitmix("fit", tmp_path / "x.npy", *options)
    assert done.returncode == 0, done.stderr
    assert "Class 3: none of these" in (tmp_path / "r.html").read_text(encoding="utf-8")
    done = bitmix("predict", tmp_path / "m", tmp_path / "x.npy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
