"""Manners in a notebook: pictures on given axes, tables that show themselves, names kept."""

import math

import numpy as np
import pandas as pd
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402 after the back end is chosen

from bitmix import BitMatrix, TemplateMixture, TwoRoundEM, select_components  # noqa: E402
from bitmix.datasets import make_templates, sample_mixture, sketch_dogs  # noqa: E402
from bitmix.features import Alphabet, GaborSketch  # noqa: E402
from bitmix.plots import near_square, plot_domain, plot_margins, plot_templates  # noqa: E402
from bitmix.theory import Plan, limit  # noqa: E402


@pytest.fixture(scope="module")
def X():
    truth = make_templates(3, 64, separation=0.4, random_state=0)
    return sample_mixture(truth, [0.5, 0.3, 0.2], 0.15, 500, random_state=0)[0]


@pytest.fixture(scope="module")
def model(X):
    return TemplateMixture(3, random_state=0).fit(X)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_templates_are_drawn_on_given_axes(model):
    _, axes = plt.subplots(2, 2)
    used = plot_templates(model, axes=axes, shape=(4, 16))
    assert used.tolist() == axes.ravel()[:3].tolist()
    drawn = used[1].images[0].get_array()
    assert np.array_equal(drawn, model.means_[1].reshape(4, 16))
    assert used[0].get_title() == f"0: {model.weights_[0]:.0%}"
    assert not axes[1, 1].axison
    with pytest.raises(ValueError, match="3 templates need as many axes, got 1"):
        plot_templates(model, axes=axes[0, 0])
    with pytest.raises(ValueError, match="must hold 64 columns, got 5 × 5"):
        plot_templates(model, shape=(5, 5))


def test_templates_are_drawn_on_new_axes_and_as_strokes(model):
    assert len(plot_templates(model)) == 3
    dogs = sketch_dogs()
    X, _ = sample_mixture(dogs, [0.5, 0.5], 0.1, 200, random_state=0)
    used = plot_templates(TwoRoundEM(2, random_state=0).fit(X), geometry=Alphabet(9, 9))
    assert all(ax.collections for ax in used)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 12, 64, 97, 166, 1458, 2048, 100_003])
def test_a_picture_is_nearly_square_and_holds_all(n):
    down, across = near_square(n)
    assert down * across >= n
    assert down * across - n < across
    assert across <= 2 * down + 1


def test_margins_are_counted(model, X):
    _, ax = plt.subplots()
    assert plot_margins(model, X, ax=ax) is ax
    assert sum(bar.get_height() for bar in ax.patches) == len(X)
    share = np.mean(model.margins(X) >= math.log(20))
    assert f"{share:.0%}" in ax.get_title()
    assert plot_margins(model, X).figure is not ax.figure
    with pytest.raises(ValueError, match="a model with one template has no margins"):
        plot_margins(TemplateMixture(1, random_state=0).fit(X), X)


def test_the_domain_is_what_the_planner_says(monkeypatch):
    """With a planner that answers at once; it finds nothing below 100 rows."""
    asked = []

    def planner(unknown, **point):
        asked.append((unknown, point))
        value = None if point["m"] < 100 else 10.0 * point["m"]
        return Plan(unknown, point["method"], value, "")

    monkeypatch.setattr("bitmix.plots.plan", planner)
    ax = plot_domain(q=0.1, k=3, c=0.5, w_min=0.2, reading="printed")
    theorem, certificate, limits = ax.get_lines()
    for line in (theorem, certificate):
        x, y = line.get_data()
        assert x.min() >= 100
        np.testing.assert_array_equal(y, 10 * x)
    assert {unknown for unknown, _ in asked} == {"n"}
    assert {point["method"] for _, point in asked} == {"theorem", "certificate"}
    wanted = {"q": 0.1, "k": 3, "c": 0.5, "w_min": 0.2, "reading": "printed", "pruning": "l1"}
    assert all(wanted.items() <= point.items() for _, point in asked)
    m, n = (values[-1] for values in limits.get_data())
    at = [limit(round(n * x), int(m), 1, 0.1, 0, [1.0]).recovery_masks for x in (0.99, 1.01)]
    assert at[0] > 0.9 > at[1]  # δ = .1: about so many columns can be recovered, and no more


def test_the_domain_over_weights_needs_columns_and_may_be_empty(monkeypatch):
    monkeypatch.setattr(
        "bitmix.plots.plan", lambda unknown, **_: Plan(unknown, "theorem", None, "")
    )
    labels = plot_domain(q=0.1, over="w_min", n=200).get_legend_handles_labels()[1]
    assert [label.endswith(": nowhere") for label in labels] == [True, True, False]
    with pytest.raises(ValueError, match="to draw c against w_min, give n"):
        plot_domain(q=0.1, over="w_min")


def test_values_show_themselves(model, X, tmp_path):
    table = pd.DataFrame(X.to_dense(), columns=[f"<b>{i}" for i in range(64)])
    shown = BitMatrix.from_dense(table)._repr_html_()
    assert "500" in shown
    assert "&lt;b&gt;0" in shown
    assert "<b>0" not in shown
    X.save(tmp_path / "x.bits")
    assert "x.bits" in BitMatrix.open(tmp_path / "x.bits")._repr_html_()
    assert "TemplateMixture" in model._repr_html_()
    assert "Certificate" in model.certify(X)._repr_html_()
    found = select_components(X, [2, 3, 4], random_state=0)
    assert f"<b>{found.n_components}</b>" in found._repr_html_()
    assert found.plot().get_xlabel() == "templates k"


def test_sketches_come_as_a_frame_where_asked():
    images = [np.random.default_rng(i).random((60, 60)) for i in range(4)]
    sketch = GaborSketch()
    bits = sketch.fit_transform(images)
    frame = sketch.set_output(transform="pandas").fit_transform(images)
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == sketch.get_feature_names_out().tolist()
    assert np.array_equal(frame.to_numpy(), bits.to_dense())


def test_names_of_a_table_are_kept(X):
    table = pd.DataFrame(X.to_dense(), columns=[f"gene {i}" for i in range(64)])
    model = TemplateMixture(3, random_state=0).fit(table)
    assert model.feature_names_in_.tolist() == list(table.columns)
    assert set(model.differing_features(0, 1)) <= set(table.columns)
