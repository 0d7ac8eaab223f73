"""Representatives of groups against all pairs of rows."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bitmix import BitMatrix, TemplateMixture, TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture
from bitmix.errors import InputError
from bitmix.groups import medoids as medoids_module
from bitmix.groups.medoids import Members, medoids
from bitmix.metrics import isim, tanimoto_calinski_harabasz, tanimoto_davies_bouldin


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


def test_medoids_are_the_same_from_a_file_and_with_any_back_end(tmp_path, monkeypatch):
    X, labels = sparse_rows(3000, 130, 3)
    BitMatrix.from_dense(X).save(tmp_path / "x.bits")
    rows = {"memory": BitMatrix.from_dense(X), "file": BitMatrix.open(tmp_path / "x.bits")}
    found = []
    for kernels in ("reference", "compiled"):
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
