"""Trees of components, and fits by levels."""

import html
import re
import warnings

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster

from bitmix import BitMatrix, TemplateMixture, TemplateTree, report
from bitmix.datasets import make_templates, sample_mixture
from bitmix.em import candidates as among
from bitmix.em import dendrogram, levels, predict
from bitmix.em.noise import Noise
from bitmix.em.step import expect
from bitmix.errors import InputError
from bitmix.estimators.load import load_model
from bitmix.estimators.until import fit_until
from bitmix.metrics import templates_recovered
from bitmix.models.mixture import Mixture
from bitmix.models.tree import Tree


def planted(k=40, n=256, rows_each=50, seed=0):
    truth = np.random.default_rng(seed).integers(0, 2, (k, n)).astype(np.uint8)
    X, labels = sample_mixture(truth, np.full(k, 1 / k), 0.1, rows_each * k, random_state=seed)
    return truth, X, labels


def nested(n_families=8, each=8, n=512, seed=0):
    """Templates in families: those of one family differ in a tenth of the columns."""
    rng = np.random.default_rng(seed)
    parents = rng.integers(0, 2, (n_families, 1, n))
    flips = rng.random((n_families, each, n)) < 0.1
    truth = (parents ^ flips).reshape(-1, n).astype(np.uint8)
    k = len(truth)
    X, labels = sample_mixture(truth, np.full(k, 1 / k), 0.02, 60 * k, random_state=seed)
    return truth, X, labels


@pytest.fixture(scope="module")
def family_fit():
    truth, X, labels = nested()
    return truth, X, labels, TemplateTree(64, random_state=0).fit(X)


def random_tree(k, rng):
    alive, merges = list(range(k)), []
    for t in range(k - 1):
        i, j = rng.choice(len(alive), 2, replace=False)
        pair = sorted((alive[i], alive[j]))
        alive = [node for node in alive if node not in pair] + [k + t]
        merges.append(pair)
    weights = rng.dirichlet(np.ones(k))
    return Tree(np.array(merges, dtype=np.int64).reshape(-1, 2), rng.random(k - 1), weights)


@pytest.mark.parametrize("k", [1, 2, 3, 17])
def test_cuts_are_nested_and_ordered(k):
    tree = random_tree(k, np.random.default_rng(k))
    before = np.zeros(k, dtype=int)
    for n_groups in range(1, k + 1):
        groups = tree.cut(n_groups)
        sizes = np.bincount(groups, tree.weights)
        assert len(sizes) == n_groups
        assert np.all(np.diff(sizes) <= 1e-12)
        for group in range(n_groups):  # a group is part of one group of the cut before
            assert len(set(before[groups == group])) == 1
        before = groups


def test_a_threshold_cuts_as_scipy_does():
    rng = np.random.default_rng(0)
    tree = random_tree(30, rng)
    for threshold in (0.0, 0.3, 0.9, 2.0):
        ours, theirs = (
            tree.cut(threshold=threshold),
            fcluster(tree.linkage(), threshold, "distance"),
        )
        assert len(set(zip(ours, theirs, strict=True))) == len(set(ours)) == len(set(theirs))


def test_a_renumbered_tree_has_the_same_groups():
    rng = np.random.default_rng(1)
    tree, order = random_tree(12, rng), rng.permutation(12)
    assert np.array_equal(tree.renumbered(order).cut(5), tree.cut(5)[order])


@pytest.mark.parametrize("call", [{}, {"k": 2, "threshold": 0.1}, {"k": 0}, {"k": 13}])
def test_a_cut_needs_one_rule_that_can_be_kept(call):
    with pytest.raises(InputError):
        random_tree(12, np.random.default_rng(0)).cut(**call)


@pytest.mark.parametrize(
    "change",
    [
        {"tree_merges": np.array([[0, 1], [2, 2]])},
        {"tree_merges": np.array([[0, 3], [1, 2]])},
        {"tree_merges": np.array([[0.0, 1.0], [2.0, 3.0]])},
        {"tree_losses": np.array([0.1, np.nan])},
        {"tree_weights": np.array([0.5, 0.5])},
    ],
)
def test_a_damaged_tree_is_refused(change):
    arrays = Tree(np.array([[0, 1], [2, 3]]), np.array([0.1, 0.2]), np.array([0.2, 0.3, 0.5]))
    assert np.array_equal(Tree.from_arrays(arrays.arrays()).cut(2), arrays.cut(2))
    with pytest.raises(InputError):
        Tree.from_arrays(arrays.arrays() | change)


def test_losses_are_those_of_the_likelihood():
    """Of two components with all their rows: n ln n, written out in floats."""
    truth, X, _ = planted(k=6, n=70, rows_each=30)
    dense, tree = X.to_dense(), None
    statistics = expect(X, Mixture(0.1 + 0.8 * truth, np.full(6, 1 / 6), None))
    tree = dendrogram.tree_of(statistics)

    def likelihood(mass, ones):
        p = np.clip(ones / mass, 1e-300, 1)
        q = np.clip(1 - ones / mass, 1e-300, 1)
        return float((ones * np.log(p) + (mass - ones) * np.log(q)).sum())

    mass, ones = list(statistics.mass / 2.0**30), list(statistics.sums / 2.0**30)
    for (i, j), loss in zip(tree.merges, tree.losses, strict=True):
        mass.append(mass[i] + mass[j])
        ones.append(ones[i] + ones[j])
        pairs = zip((mass[i], mass[j], mass[-1]), (ones[i], ones[j], ones[-1]), strict=True)
        a, b, both = (likelihood(*pair) for pair in pairs)
        assert loss * len(dense) == pytest.approx(a + b - both, rel=1e-6, abs=1e-2)


def test_merging_by_near_components_equals_merging_by_all(monkeypatch):
    """With families of 8, the 16 nearest components hold the best one."""
    truth, X, _ = nested()
    statistics = expect(X, Mixture(0.02 + 0.96 * truth, np.full(len(truth), 1 / 64), None))
    near = dendrogram.tree_of(statistics)
    monkeypatch.setattr(dendrogram, "NEAR", 64)
    everything = dendrogram.tree_of(statistics)
    for k in (2, 8, 30):
        assert np.array_equal(near.cut(k), everything.cut(k))


def test_families_are_the_groups_of_a_cut(family_fit):
    truth, X, labels, model = family_fit
    assert templates_recovered(model.templates_, truth) == 1
    groups = model.tree_.cut(8)[model.predict(X)]
    assert len(set(zip(groups, labels // 8, strict=True))) == 8
    flat = TemplateMixture(64, noise_model="shared", init=truth, random_state=0).fit(X)
    assert len(set(zip(flat.tree().cut(8)[flat.predict(X)], labels // 8, strict=True))) == 8


def test_a_cut_is_a_fitted_model(family_fit, tmp_path):
    _, X, labels, model = family_fit
    cut = model.cut(8)
    assert type(cut) is TemplateMixture
    assert cut.n_components == len(cut.weights_) == 8
    assert len(set(zip(cut.predict(X), labels // 8, strict=True))) == 8
    cut.save(tmp_path / "cut.model")
    again = load_model(tmp_path / "cut.model")
    assert np.array_equal(again.predict(X), cut.predict(X))


def test_planted_templates_come_back_by_levels():
    """Far below the limit of recovery: a failure has probability below 1e-6 if all are seeded, and
    what was not seeded is seen at the second look."""
    truth, X, labels = planted(k=100, n=512, rows_each=60)
    model = TemplateTree(100, random_state=0).fit(X)
    assert model.noise_model_ == "shared"
    assert templates_recovered(model.templates_, truth) >= 0.99


def test_the_same_bits_for_any_threads_and_blocks(monkeypatch):
    _, X, _ = nested()
    monkeypatch.setattr(levels, "FEW", 16)
    models = []
    for threads, chunk in (("1", 1 << 14), ("3", 100)):
        monkeypatch.setenv("BITMIX_NUM_THREADS", threads)
        monkeypatch.setattr(among, "_CHUNK_ROWS", chunk)
        models.append(TemplateTree(40, noise_model="cell", random_state=3).fit(X))
    a, b = models
    for name in ("means_", "weights_", "objective_"):
        assert np.array_equal(getattr(a, name), getattr(b, name))
    assert np.array_equal(a.tree_.merges, b.tree_.merges)
    assert np.array_equal(a.tree_.losses, b.tree_.losses)


@pytest.mark.parametrize("model", ["shared", "component", "feature", "cell"])
@pytest.mark.parametrize("kind", ["plain", "weighted", "missing"])
def test_all_groups_as_candidates_equal_a_pass_over_all(model, kind, monkeypatch):
    truth, X, _ = planted(k=20, n=100, rows_each=20)
    if kind == "weighted":
        from bitmix.rows import as_rows

        X = as_rows(X, None, sample_weight=np.arange(1, len(X) + 1) % 3 + 1)
    if kind == "missing":
        dense = X.to_dense().astype(float)
        dense[np.random.default_rng(0).random(dense.shape) < 0.1] = np.nan
        from bitmix.rows import as_rows

        X = as_rows(dense, None, missing=True)
    noise = Noise(model, 0.1)
    mixture = noise.maximise(expect(X, Mixture(0.1 + 0.8 * truth, np.full(20, 0.05), None)),
                             Mixture(0.1 + 0.8 * truth, np.full(20, 0.05), None))  # fmt: skip
    full = expect(X, mixture)
    monkeypatch.setattr(among, "N_GROUPS", 20)
    monkeypatch.setattr(among, "GROUP_SIZE", 4)
    near = among.Candidates.of(mixture, full.means(mixture.means), dendrogram.tree_of(full))
    some = among.expect_among(X, mixture, near)
    assert some.n_rows == full.n_rows
    assert some.likelihood_units == full.likelihood_units
    assert np.array_equal(some.mass, full.mass)
    assert np.array_equal(some.sums, full.sums)
    assert np.array_equal(some.counts, full.counts)
    assert noise.objective(some, mixture) == noise.objective(full, mixture)
    assert np.array_equal(among.labels_among(X, mixture, near), predict.labels(X, mixture))


def test_candidates_hold_the_best_component_where_there_are_levels(monkeypatch):
    truth, X, _ = nested(n_families=12)
    mixture = Mixture(truth.astype(float), np.full(len(truth), 1 / len(truth)), 0.02)
    statistics = expect(X, mixture)
    monkeypatch.setattr(among, "GROUP_SIZE", 8)
    monkeypatch.setattr(among, "N_GROUPS", 2)
    near = among.Candidates.of(mixture, statistics.means(mixture.means),
                               dendrogram.tree_of(statistics))  # fmt: skip
    assert among.recall(X, mixture, near) >= among.ENOUGH


def test_a_tree_is_saved_and_loaded(family_fit, tmp_path):
    _, X, _, model = family_fit
    model.save(tmp_path / "t.model")
    again = load_model(tmp_path / "t.model")
    assert isinstance(again, TemplateTree)
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.tree_.merges, model.tree_.merges)
    assert again.candidate_recall_ == model.candidate_recall_


@pytest.mark.parametrize("k", [1, 2, 16, 17, 59, 60])
def test_the_number_of_components_is_reached(k):
    X = np.unique(np.random.default_rng(0).integers(0, 2, (60, 30)), axis=0)
    assert len(X) == 60
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = TemplateTree(k, noise_model="cell", random_state=0).fit(np.repeat(X, 3, axis=0))
    assert len(model.weights_) == k
    assert np.all(model.weights_ > 0)
    assert model.tree_.n_components == k


def test_more_groups_than_distinct_rows_are_refused():
    X = np.repeat(np.eye(5, dtype=np.uint8), 10, axis=0)
    with pytest.raises(InputError, match="distinct rows, 5, got 6"):
        TemplateTree(6).fit(X)


def test_packed_and_dense_rows_give_the_same_fit():
    truth = make_templates(20, 100, separation=0.4, random_state=0)
    X, _ = sample_mixture(truth, np.full(20, 0.05), 0.05, 600, random_state=0)
    assert isinstance(X, BitMatrix)
    model = TemplateTree(20, random_state=0).fit(X)
    assert np.array_equal(TemplateTree(20, random_state=0).fit(X.to_dense()).means_, model.means_)


@pytest.mark.parametrize("rule", ["tanimoto=.35", "tanimoto=0.6", "size=100", "size=30"])
def test_groups_fulfil_the_rule(rule):
    _, X, _ = nested(n_families=4, each=4, n=128)
    found = fit_until(X, rule, TemplateTree(noise_model="cell", random_state=0))
    model, dense = found.model, X.to_dense().astype(np.int64)
    assert found.n_broken == 0
    assert model.n_components == len(model.weights_)
    for group in range(model.n_components):
        rows = dense[found.labels == group]
        if found.rule.measure == "size":
            assert len(rows) <= found.rule.limit
        elif len(rows) > 1:
            both = rows @ rows.T
            sizes = rows.sum(axis=1)
            either = sizes[:, None] + sizes - both
            upper = np.triu_indices(len(rows), 1)
            assert both[upper].sum() / either[upper].sum() >= found.rule.limit


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("jaccard=.5", "tanimoto=…, size=…, got 'jaccard=.5'"),
        ("tanimoto", "must be one of"),
        ("tanimoto=high", "a number after ="),
        ("tanimoto=1.5", "tanimoto"),
        ("size=0", "size"),
        ("size=2.5", "size"),
    ],
)
def test_a_rule_that_is_none_is_refused(rule, message):
    with pytest.raises(InputError, match=message):
        fit_until(np.eye(4), rule)


def test_the_report_shows_levels(family_fit, tmp_path):
    _, X, _, model = family_fit
    report.write(model, X, tmp_path / "r.html", certificate=False)
    page = (tmp_path / "r.html").read_text()
    section = page[page.index('<section id="levels"') :].split("</section>")[0]
    assert "Dendrogram of 16 groups of groups" in section
    assert section.count("<details") == section.count("</details>") >= 8
    for group in range(64):
        assert len(re.findall(rf"\bGroup {group}\b", section)) == 1
    few = TemplateMixture(3, noise_model="shared", random_state=0).fit(X)
    report.write(few, X, tmp_path / "few.html", certificate=False)
    assert 'id="levels"' not in (tmp_path / "few.html").read_text()


def test_a_node_is_shown_by_the_representative_of_its_largest_group(family_fit, tmp_path):
    _, X, _, model = family_fit
    ids = [f"<{row}>&" for row in range(len(X))]  # needs to be escaped
    report.write(model, X, tmp_path / "r.html", certificate=False, ids=ids)
    page = (tmp_path / "r.html").read_text()
    section = page[page.index('<section id="levels"') :].split("</section>")[0]
    named = [html.escape(ids[row]) for row in model.medoids(X).rows]
    sizes = np.bincount(model.predict(X), minlength=64)

    def named_by(groups):
        return named[max(groups, key=lambda group: (sizes[group], -group))]

    drawn = re.findall(r"rows · ([^<]+)</text>", section)
    cut = [model.tree_.members(node) for node in model.tree_.groups(16)]
    assert sorted(drawn) == sorted(named_by(members) for members in cut)
    unfolded = re.findall(r"<bdi>([^<]+)</bdi>", section)
    assert set(unfolded) == set(named)
    for text in re.findall(r"<summary>(.*?)</details>", section, re.DOTALL):
        inside = [int(group) for group in re.findall(r"\bGroup (\d+)\b", text)]
        if "<details" not in text:  # the lowest level: a title and its groups
            assert re.findall(r"<bdi>([^<]+)</bdi>", text)[0] == named_by(inside)


def test_groups_that_are_images_are_drawn_at_the_nodes(family_fit, tmp_path):
    _, X, _, model = family_fit
    n = X.shape[1]
    report.write(model, X, tmp_path / "r.html", certificate=False, geometry=(8, n // 8))
    page = (tmp_path / "r.html").read_text()
    section = page[page.index('<section id="levels"') :].split("</section>")[0]
    again = re.findall(r'<use href="#(picture-\d+)"', section)
    nodes = section.count("<summary>") + section.count("<p><a ")
    assert len(again) == nodes + 16  # and those of the dendrogram
    assert set(again) == {f"picture-{group}" for group in range(64)}
    assert all(page.count(f'id="{key}"') == 1 for key in again)
    assert "column " not in section  # a picture says more than the number of a pixel
