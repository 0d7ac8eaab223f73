"""The HTML report: its facts against dense arithmetic, its page as text and in a real browser."""

import io
import math
import re
import time
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from browser import CHROMIUM, Browser
from command import bitmix
from PIL import Image

from bitmix import BitMatrix, ClassicEM, TemplateMixture, TwoRoundEM, report, select_components
from bitmix.datasets import make_templates, sample_mixture
from bitmix.errors import DuplicateTemplatesWarning, InputError
from bitmix.features import GaborSketch
from bitmix.features.alphabet import Alphabet
from bitmix.metrics import isim
from bitmix.models.mixture import NOISE_MODELS
from bitmix.report import facts, molecules, page, pictures, svg
from bitmix.rows.codes import Fingerprint
from bitmix.rows.files import open_table

HOSTILE = "<img src=x onerror=alert(1)>"
BREAKOUT = "</script><script>alert(2)</script>\"'><b>&amp;"


def write(path, model, X, **options):
    """The page as text."""
    report.write(model, X, path / "report.html", **options)
    return (path / "report.html").read_text(encoding="utf-8")


def mixture(k=3, n=90, m=400, noise=0.1, seed=0):
    truth = make_templates(k, n, separation=0.3, random_state=seed)
    weights = np.arange(k, 0, -1) / np.arange(1, k + 1).sum()
    rows, labels = sample_mixture(truth, weights, noise, m, random_state=seed)
    return rows.to_dense(), labels


def holes(bits, share=0.1):
    X = bits.astype(float)
    X[np.random.default_rng(3).random(X.shape) < share] = np.nan
    return X


def template_mixture(noise_model):
    return lambda X: TemplateMixture(3, noise_model=noise_model, random_state=0).fit(X)


MODELS = {
    **{noise_model: template_mixture(noise_model) for noise_model in NOISE_MODELS},
    "two-round": lambda X: TwoRoundEM(3, n_seeds=30, random_state=0).fit(X),
    "classic": lambda X: ClassicEM(3, n_init=5, random_state=0).fit(X),
}


@pytest.mark.parametrize(
    ("kind", "missing"),
    [(kind, False) for kind in MODELS] + [(kind, True) for kind in NOISE_MODELS],
)
def test_facts_agree_with_dense_arithmetic(kind, missing, tmp_path):
    bits, _ = mixture()
    X = holes(bits) if missing else bits
    model = MODELS[kind](X)
    found = facts.gather(model, model.rows_like_fit(X))

    labels, T = model.predict(X), model.templates_
    known = ~np.isnan(X.astype(float))
    flips = known & (np.nan_to_num(X) != T[labels])
    sizes = np.bincount(labels, minlength=3)
    assert [g.size for g in found.groups] == sizes.tolist()
    assert [g.weight for g in found.groups] == model.weights_.tolist()
    assert [g.bits_set for g in found.groups] == T.sum(axis=1).tolist()
    assert found.missing == pytest.approx(1 - known.mean())
    assert found.density == pytest.approx(np.nansum(X) / known.sum())
    for i, group in enumerate(found.groups):
        mine = labels == i
        assert group.flips == pytest.approx(flips[mine].sum() / known[mine].sum())
        assert group.clear == pytest.approx((model.margins(X)[mine] >= math.log(20)).mean())
        np.testing.assert_allclose(found.shares[i], np.nanmean(X[mine], axis=0))
        best = group.features[0]
        gap = np.abs(np.nanmean(X[mine], axis=0) - np.nanmean(X[~mine], axis=0))
        assert abs(best.share - best.other_share) == pytest.approx(gap.max())
        assert gap[best.column] == pytest.approx(gap.max())
    assert found.noise.observed == pytest.approx(flips.sum() / known.sum())
    for column in found.noise.columns:
        s = column.column
        assert column.observed == pytest.approx(flips[:, s].sum() / known[:, s].sum())
    np.testing.assert_array_equal(found.distances, (T[:, None] != T[None]).sum(axis=2))
    for pair in found.pairs:
        assert pair.n_differing == len(model.differing_features(pair.i, pair.j))
        assert {f.column for f in pair.features} <= set(model.differing_features(pair.i, pair.j))
    assert sum(found.margins.counts) == len(X)
    assert found.margins.clear == pytest.approx((model.margins(X) >= math.log(20)).mean())
    ranked = model.score_samples(X) / known.sum(axis=1)
    assert [o.row for o in found.outliers] == np.argsort(ranked, kind="stable")[:12].tolist()
    for outlier in found.outliers:
        assert outlier.flips == flips[outlier.row].sum()
        assert outlier.known == known[outlier.row].sum()
        assert outlier.log_likelihood == pytest.approx(model.score_samples(X)[outlier.row])

    text = write(tmp_path, model, X)
    for group in found.groups:
        assert page.percent(group.weight) in text
        assert f">{group.size:,}<" in text
    assert ("are missing" in text) == missing


def test_expected_flips_are_the_models():
    X, _ = mixture()
    for kind in NOISE_MODELS:
        model = MODELS[kind](X)
        found = facts.gather(model, model.rows_like_fit(X), certificate=False)
        labels, T = model.predict(X), model.templates_
        up, down = model.noise_ if kind == "updown" else (model.noise_, model.noise_)
        if kind == "component":
            up = down = model.noise_[:, None]
        level = np.where(T == 1, down, up)[labels]
        assert found.noise.expected == pytest.approx(level.mean())
        for i, group in enumerate(found.groups):
            assert group.expected == pytest.approx(level[labels == i].mean())
        for column in found.noise.columns:
            assert column.expected == pytest.approx(level[:, column.column].mean())
        for outlier in found.outliers:
            assert outlier.expected == pytest.approx(level[outlier.row].sum())


def test_the_noise_of_the_papers_estimators_is_replaced_by_the_share_of_flips():
    X, _ = mixture()
    model = MODELS["two-round"](X)
    found = facts.gather(model, model.rows_like_fit(X), certificate=False)
    assert found.noise.expected == pytest.approx(found.noise.observed)
    assert found.noise.expected != pytest.approx(model.noise_)


def test_only_the_noisy_column_is_flagged():
    X, _ = mixture(n=200, m=1000, noise=0.05)
    noisy = np.random.default_rng(0).random(1000) < 0.3
    X[:, 17] ^= noisy.astype(np.uint8)
    model = MODELS["shared"](X)
    noise = facts.gather(model, model.rows_like_fit(X), certificate=False).noise
    assert noise.n_flagged == 1
    assert noise.columns[0].column == 17
    assert [c.flagged for c in noise.columns] == [True] + [False] * (len(noise.columns) - 1)
    calm, _ = mixture(n=200, m=1000, noise=0.05)
    calm[:, 5] = 0
    model = MODELS["shared"](calm)
    noise = facts.gather(model, model.rows_like_fit(calm), certificate=False).noise
    assert (noise.n_flagged, noise.n_below) == (0, 1)


def test_an_outlier_comes_first_with_its_name(tmp_path):
    X, _ = mixture()
    X[7] = np.random.default_rng(1).integers(0, 2, X.shape[1])
    table = pd.DataFrame(X, index=[f"sample {i}" for i in range(len(X))]).add_prefix("gene ")
    model = TemplateMixture(3, random_state=0).fit(table)
    text = write(tmp_path, model, table)
    assert text.index("<bdi>sample 7</bdi>") < text.index(
        "<bdi>sample ", text.index("sample 7") + 9
    )
    assert "<bdi>gene " in text
    plain = write(tmp_path, model, table.reset_index(drop=True), certificate=False)
    assert "sample" not in plain
    given = write(tmp_path, model, table, ids=range(1000, 1400), certificate=False)
    assert "<bdi>1007</bdi>" in given


def test_classes_are_counted_per_group(tmp_path):
    X, labels = mixture()
    model = TemplateMixture(3, random_state=0).fit(X)
    found = facts.classes_of([f"class {y}" for y in labels], model.predict(X), 3)
    table = pd.crosstab(model.predict(X), labels)
    assert found.names == ("class 0", "class 1", "class 2")
    np.testing.assert_array_equal(found.counts, table.to_numpy())
    assert found.purity == 1.0
    many = facts.classes_of(range(400), model.predict(X), 3)
    assert len(many.names) == facts.MAX_CLASSES
    assert many.names[-1] == "all others"
    assert np.sum(many.counts) == 400
    assert "all others" in write(tmp_path, model, X, labels=range(400))
    with pytest.raises(InputError, match="labels must be 400 values, one per row, got 3"):
        write(tmp_path, model, X, labels=["a", "b", "c"])


class Checked(HTMLParser):
    """Every tag is closed in its turn; keeps tags, attributes and what a reader sees."""

    VOID = frozenset({"meta", "br", "img", "link", "hr", "input"})

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.ids = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"


def checked(text):
    parser = Checked()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    assert len(set(parser.ids)) == len(parser.ids)
    assert parser.tags.count("script") == 1
    assert parser.tags.count("style") == 1
    assert not {"img", "link", "iframe", "object", "form", "base"} & set(parser.tags)
    for name, value in parser.attributes:
        assert not name.startswith("on")
        assert name not in ("src", "style", "action", "srcset")
        if name == "href":
            assert value.startswith(("#", "data:image/png;base64,", "data:text/plain;"))
            assert not value.startswith("#") or value == "#" or value[1:] in parser.ids
    return parser


def hostile_report(path):
    X, labels = mixture()
    names = [f"{HOSTILE} {i}" for i in range(90)]
    names[3], names[4], names[5] = BREAKOUT, "\x00 torn\u202e", "x" * 10_000
    names[6] = "{{ 7 * 7 }} {% raise %}"
    table = pd.DataFrame(X, columns=names, index=[f"{HOSTILE} row {i}" for i in range(400)])
    model = TemplateMixture(3, random_state=0).fit(table)
    return write(
        path, model, table, title=BREAKOUT, source=f"{HOSTILE}\ud800.csv",
        labels=[f"{BREAKOUT} {y}" for y in labels], ids=[HOSTILE] * 400,
        selection=select_components(table, range(1, 5), TemplateMixture(n_init=2, random_state=0)),
    )  # fmt: skip


def test_user_text_stays_text(tmp_path):
    text = hostile_report(tmp_path)
    checked(text)
    assert HOSTILE not in text
    assert "alert(2)</script>" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert "&lt;/script&gt;&lt;script&gt;alert(2)" in text
    assert "x" * 200 not in text


def test_texts_are_cleaned():
    assert facts.printable("a\x00b\ud800c\u202ed\ne\xa0f") == "a�b�c�d e f"
    assert facts.printable("é 漢字") == "é 漢字"
    assert len(facts.printable("y" * 10_000)) == facts.MAX_TEXT_LENGTH


@pytest.mark.parametrize("kind", MODELS)
def test_every_page_is_well_formed(kind, tmp_path):
    X, labels = mixture()
    model = MODELS[kind](X)
    parser = checked(write(tmp_path, model, X, labels=labels))
    assert parser.tags.count("h1") == 1
    assert {"main", "nav", "header", "footer"} <= set(parser.tags)


def test_wide_tables_stay_small(tmp_path):
    n = 100_000
    truth = make_templates(5, n, separation=0.01, random_state=0)
    rows, _ = sample_mixture(truth, [0.2] * 5, 0.05, 120, random_state=0)
    model = TemplateMixture(5, n_init=1, random_state=0).fit(rows)
    text = write(tmp_path, model, rows)
    assert (tmp_path / "report.html").stat().st_size < 1_500_000
    checked(text)
    assert f"and {1000 - facts.MAX_FEATURES:,} more" in text.lower()
    model.feature_names_in_ = np.array([f"a rather long name {s}" for s in range(n)], dtype=object)
    named = write(tmp_path, model, rows, certificate=False)
    assert (tmp_path / "report.html").stat().st_size < 1_000_000
    assert "a rather long name" in named


def hundred(n):
    """A fitted model of 100 groups without the wait for a fit."""
    truth = make_templates(100, n, separation=0.2, random_state=0)
    rows, _ = sample_mixture(truth, [0.01] * 100, 0.1, 1000, random_state=0)
    return ClassicEM(100, init=truth, noise=0.1, max_iter=2, random_state=0).fit(rows), rows


def test_a_hundred_groups_stay_small(tmp_path):
    for n in (64, 2_000):
        model, rows = hundred(n)
        text = write(tmp_path, model, rows, certificate=False)
        assert (tmp_path / "report.html").stat().st_size < 2_000_000
        checked(text)
        assert text.count('class="card"') == 100
        assert f"{facts.MAX_PAIRS} of 4,950 pairs" in text


def test_a_hundred_wide_pictures_stay_small():
    bits = np.random.default_rng(0).integers(0, 2, 100_000).astype(float)
    paint = pictures.painter(100_000, 112, None)
    assert 112 * len(paint(bits, True).body) < 2_500_000
    geometry = Alphabet(70, 70)
    paint = pictures.painter(geometry.n_features, 112, geometry)
    assert 112 * len(paint(np.ones(geometry.n_features), True).body) < 2_500_000


def test_only_some_of_many_groups_are_drawn(tmp_path):
    rows = BitMatrix.from_dense(np.random.default_rng(0).integers(0, 2, (150, 40)))
    model = ClassicEM(150, init=rows, noise=0.1, max_iter=1, random_state=0).fit(rows)
    text = write(tmp_path, model, rows, certificate=False)
    assert "50 more groups are only in the table below" in text
    assert text.count('class="card"') == facts.MAX_GROUPS


def sketches():
    """Two classes of stripes: a fitted model, its rows, and where each bit sits."""
    y, x = np.mgrid[:60, :60]
    images = [127 + 120 * np.sin((wave + i) / 5.0) for wave in (x, y) for i in range(8)]
    sketch = GaborSketch(shape=(60, 60)).fit()
    rows = sketch.transform(images)
    return TemplateMixture(2, random_state=0).fit(rows), rows, sketch.geometry_


def test_sketches_are_drawn_as_strokes(tmp_path):
    model, rows, geometry = sketches()
    text = write(tmp_path, model, rows, geometry=geometry)
    assert text.count('class="strokes"') == 2 + facts.MAX_OUTLIERS
    assert re.search(r'<path d="M\d+ \d+l-?\d+ -?\d+', text)
    assert re.search(r"<bdi>r\d+c\d+o\d+</bdi>", text)
    checked(text)
    with pytest.raises(InputError, match="geometry must have the 1600 columns of X, got 1458"):
        write(tmp_path, model, rows, geometry=Alphabet())


def test_strokes_are_those_of_the_template():
    alphabet = Alphabet(2, 2)
    bits = alphabet.encode([(0.0, 0.0, 1.0, 1.0)])
    drawn = pictures.painter(alphabet.n_features, 1, alphabet)(bits.astype(float), True)
    assert drawn.body.count("M") == 1
    assert re.search(r"M6 6l150 150", drawn.body)


def test_bit_maps_have_the_shape_of_the_image(tmp_path):
    X, _ = mixture(n=96)
    model = TemplateMixture(3, random_state=0).fit(X)
    assert 'viewBox="0 0 12 8"' in write(tmp_path, model, X, certificate=False)
    text = write(tmp_path, model, X, geometry=(4, 24), certificate=False)
    assert 'viewBox="0 0 24 4"' in text
    share = facts.gather(model, model.rows_like_fit(X), certificate=False).shares[0, 5]
    assert f"column 5: 1 in {share:.0%} of its rows" in text
    with pytest.raises(InputError, match="geometry 5 × 5 must hold the 96 columns"):
        write(tmp_path, model, X, geometry=(5, 5))
    with pytest.raises(InputError, match="geometry must be"):
        write(tmp_path, model, X, geometry=(96,))


@pytest.mark.parametrize("bits", [1, 4])
def test_png_can_be_read_back(bits):
    levels = np.random.default_rng(0).integers(0, 1 << bits, (13, 7)).astype(np.uint8)
    image = Image.open(io.BytesIO(pictures.png(levels, bits)))
    np.testing.assert_array_equal(
        np.asarray(image.convert("L")), levels * (255 // ((1 << bits) - 1))
    )


def test_neighbours_share_a_pixel_where_columns_are_many():
    n = 3 * pictures.MAX_PIXELS
    shares = np.zeros(n)
    shares[: n // 2] = 1.0
    drawn = pictures.painter(n, 1, None)(shares, True)
    assert drawn.width * drawn.height == pictures.MAX_PIXELS
    assert len(drawn.body) < 10_000


def test_components_are_called_as_wished(tmp_path):
    """By default classes if each has probabilities, and groups otherwise."""
    X = np.repeat([[0] * 8, [1] * 8], [60, 40], axis=0)
    for noise_model, wish, said in (
        ("cell", None, "classes"), ("shared", None, "groups"), ("cell", "groups", "groups"),
        ("shared", "templates", "templates"), ("shared", "classes", "classes"),
    ):  # fmt: skip
        model = TemplateMixture(2, noise_model=noise_model, random_state=0).fit(X)
        more = {"labels": ["a", "b"] * 50, "certificate": False}  # which speaks of groups
        report.write(model, X, tmp_path / "r.html", words=wish, **more)
        text = (tmp_path / "r.html").read_text()
        one = {"classes": "Class", "groups": "Group", "templates": "Template"}[said]
        assert f"<title>2 {said} in 100 rows</title>" in text
        assert f"<h3>How many {said}?</h3>" in text
        assert f"<h3>{one} 0 " in text
        shown = re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)
        assert said == "groups" or not re.search(r"\bgroups?\b", shown, flags=re.IGNORECASE)
    with pytest.raises(InputError, match="words must be one of classes, groups, templates, got"):
        report.write(model, X, tmp_path / "other.html", words="kinds")
    assert not (tmp_path / "other.html").exists()


def test_one_group_one_row_and_empty_groups(tmp_path):
    X, _ = mixture()
    text = write(tmp_path, TemplateMixture(1, random_state=0).fit(X), X)
    checked(text)
    assert "1 group<" in text
    assert 'id="margins"' not in text
    one = [[0, 1, 1]]
    checked(write(tmp_path, TemplateMixture(1, random_state=0).fit(one), one))
    far = np.repeat([[0] * 30, [1] * 30], 20, axis=0)
    model = ClassicEM(3, init=[[0] * 30, [1] * 30, [0, 1] * 15], noise=0.1).fit(far)
    text = write(tmp_path, model, far)
    checked(text)
    assert "1 group has no rows" in text


def test_equal_templates_are_reported(tmp_path):
    X = np.repeat([[0, 0, 0, 1], [1, 1, 1, 0]], 30, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuplicateTemplatesWarning)
        model = TemplateMixture(3, random_state=0).fit(X)
    text = write(tmp_path, model, X)
    checked(text)
    assert "1 template is equal to another" in text
    assert "These two templates are equal" in text


def test_a_column_without_known_cells(tmp_path):
    X = holes(mixture()[0])
    X[:, 4] = np.nan
    model = TemplateMixture(3, random_state=0).fit(X)
    checked(write(tmp_path, model, X))


def test_certificates_in_plain_words(tmp_path):
    X, _ = mixture(n=300, m=600, noise=0.02)
    model = MODELS["shared"](X)
    assert model.certify(X).issued
    text = write(tmp_path, model, X)
    assert "Certified: the probability" in text
    assert "Issued <span" in text
    noisy, _ = mixture(n=300, m=600, noise=0.1)
    text = write(tmp_path, MODELS["shared"](noisy), noisy, certificate=model.certify(noisy))
    assert "Not certified: the groups are too close to be proved separate." in text
    assert "Not issued <span" in text
    held_out = write(tmp_path, MODELS["shared"](noisy), noisy)  # half of α for the held-out one
    assert "Issued <span" in held_out
    assert "had no part in that, voted on every bit" in held_out
    few, _ = mixture(n=300, m=150, noise=0.05)
    text = write(tmp_path, MODELS["shared"](few), few)
    assert "of the template bits are certified all the same" in text
    hidden = np.concatenate([X, X[:200] ^ (np.arange(300) < 40)])
    text = write(tmp_path, model, hidden, certificate=model.certify(hidden))
    assert "A certificate was issued, but" in text or "Not certified" in text
    assert "Certified: the probability" not in text
    text = write(tmp_path, MODELS["shared"](few), few)
    assert "does not mean that the templates are wrong" in text
    given = write(tmp_path, model, X, certificate=model.certify(X, alpha=0.01))
    assert "at level 0.01" in given
    assert "It was not asked for" in write(tmp_path, model, X, certificate=False)
    cell = MODELS["cell"](X)
    assert "noise_model=&#39;cell&#39;" in write(tmp_path, cell, X)
    gaps = holes(X)
    incomplete = MODELS["shared"](gaps)
    assert "needs complete rows" in write(tmp_path, incomplete, gaps)
    with pytest.raises(InputError, match="alpha"):
        write(tmp_path, model, X, alpha=2)


def test_the_choice_of_k_is_shown(tmp_path):
    X, _ = mixture()
    chosen = select_components(X, range(1, 6), random_state=0)
    model = TemplateMixture(3, random_state=0).fit(X)
    text = write(tmp_path, model, X, selection=chosen)
    assert "Chosen from 1 to 5 by mdl" in text
    for candidate in chosen.candidates:
        assert f"{candidate.mdl:,.1f}" in text
    other = write(tmp_path, TemplateMixture(2, random_state=0).fit(X), X, selection=chosen)
    assert "3 would be better" in other
    assert "This report is about a fit with 2" in other
    with pytest.raises(InputError, match="selection must be"):
        write(tmp_path, model, X, selection=3)


@pytest.mark.parametrize(
    ("made", "n_starts", "n_agreeing", "sentence", "sign"),
    [
        (1, 1, 1, "There was only one start", "neutral"),
        (2, 1, 1, "This fit was ahead of 1 other start, given up on the way", "neutral"),
        (5, 1, 1, "This fit was ahead of 4 other starts, given up on the way", "neutral"),
        (10, 10, 1, "No other of 10 finished starts agrees with this fit", "neutral"),
        (10, 10, 2, "2 of 10 finished starts agree on this fit", "neutral"),
        (10, 10, 7, "7 of 10 finished starts agree on this fit", "yes"),
        (10, 10, None, "This is the most likely of 10 starts", "neutral"),
    ],
)
def test_the_agreement_of_starts_is_reported(tmp_path, made, n_starts, n_agreeing, sentence, sign):
    X, _ = mixture(m=60)
    if n_agreeing is None:
        model = ClassicEM(3, n_init=n_starts, random_state=0).fit(X)
    else:
        model = TemplateMixture(3, random_state=0).fit(X)
        model.n_starts_, model.n_agreeing_ = n_starts, n_agreeing
        model.starts_ = model.starts_[:1] * made
    text = write(tmp_path, model, X, certificate=False)
    (item,) = re.findall(rf'<li class="(\w+)">[^/]*</span> {sentence}', text)
    assert item == sign


def test_the_snippet_gives_the_same_page(tmp_path, monkeypatch):
    X, _ = mixture()
    model = TemplateMixture(3, noise_model="component", n_init=3, random_state=None).fit(X)
    code = page.snippet(model, facts.gather(model, model.rows_like_fit(X)), "my file")
    model.set_params(random_state=model.seed_)
    expected = write(tmp_path, model, X)
    monkeypatch.chdir(tmp_path)
    exec(code, {"X": X})
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == expected


def test_the_same_fit_is_the_same_file(tmp_path):
    X, _ = mixture()
    model = TemplateMixture(3, random_state=0).fit(X)
    first = write(tmp_path, model, X)
    assert write(tmp_path, model, BitMatrix.from_dense(X)) == first
    model.save(tmp_path / "my.model")
    assert write(tmp_path, TemplateMixture.load(tmp_path / "my.model"), X) == first


def test_packed_rows_of_a_named_fit_raise_no_warning(tmp_path):
    X, _ = mixture()
    model = TemplateMixture(3, random_state=0).fit(pd.DataFrame(X).add_prefix("bit "))
    assert "<bdi>bit " in write(tmp_path, model, BitMatrix.from_dense(X))


def test_a_report_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    X, _ = mixture()
    model = TemplateMixture(3, random_state=0).fit(X)
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(FileExistsError, match="force=True"):
        report.write(model, X, path, force=False)
    with pytest.raises(ValueError, match="90 features"):
        report.write(model, X[:, :5], path)
    with pytest.raises(InputError, match="fitted estimator of bitmix, got str"):
        report.write("model", X, path)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        report.write(model, X, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError, match="no folder"):
        report.write(model, X, tmp_path / "absent" / "report.html")


def test_numbers_as_text():
    shares = (0, 1, 0.0004, 0.9999, 0.05, 0.5, 0.994)
    assert [page.percent(share) for share in shares] == [
        "0%", "100%", "under 0.1%", "over 99.9%", "5.0%", "50%", "99.4%",
    ]  # fmt: skip
    nats = (0, math.log(4.9), math.log(20), math.log(12_345), math.log(10) * 12, 200, math.inf)
    assert [page.odds(margin) for margin in nats] == [
        "1 : 1", "4.9 : 1", "20 : 1", "12,000 : 1", "10¹² : 1", "over 10³⁰ : 1",
        "only one group",
    ]  # fmt: skip
    assert [page.probability(p) for p in (1, 0.0312, 3.2e-12, 0)] == [
        "1", "0.031", "3 × 10⁻¹²", "under 10⁻³⁰⁰",
    ]  # fmt: skip
    assert [page.count(value) for value in (1234567, 9.44, 12.4)] == ["1,234,567", "9.4", "12"]
    assert [svg.short(value) for value in (36, 2336, 38561.2, 2.5e6)] == [
        "36", "2.34k", "38.6k", "2.50M",
    ]  # fmt: skip
    assert [svg.nice_step(top, 5) for top in (4.9, 23, 0.16)] == [1, 5, pytest.approx(0.05)]


def rgb(colour):
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def luminance(colour):
    parts = rgb(colour)
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(first, second):
    """The contrast ratio of two colours, as defined by WCAG."""
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_has_contrast_in_every_theme():
    style = page.asset("style.css")
    themes = [
        dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in re.findall(r"{[^{}]+}", style)
    ]
    themes = [theme for theme in themes if theme]
    assert len(themes) == 4
    for theme in themes:
        for ground in ("paper", "card", "soft"):
            for text in ("ink", "quiet", "accent", "good", "bad"):
                assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground, theme)
        darkest = 0.4 * rgb(theme["accent"]) + 0.6 * rgb(theme["paper"])  # .shade-8
        shade = "#" + "".join(f"{round(255 * part):02x}" for part in darkest)
        assert contrast(theme["ink"], shade) >= 4.5, theme


# In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no Chromium here")
    with Browser(tmp_path_factory.mktemp("profile")) as open_browser:
        yield open_browser


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    from sklearn.datasets import load_digits

    found = load_digits()
    X = (found.data > 7).astype(np.uint8)
    model = TemplateMixture(10, noise_model="cell", n_init=2, random_state=0).fit(X)
    path = tmp_path_factory.mktemp("digits") / "digits.html"
    report.write(model, X, path, labels=found.target, source="digits")
    return path


def silent(opened):
    """There is no error or warning, and nothing but the file itself was requested."""
    assert opened.complaints() == []
    assert [address[:5] for address in opened.requests()] == ["file:"]
    return True


def column(opened, at):
    return opened.run(
        "[...document.querySelectorAll('#weights table')[0].tBodies[0].rows]"
        f".map(row => Number(row.cells[{at}].dataset.value))"
    )


@pytest.mark.system
def test_browser_sorts_by_click_and_by_key(browser, digits):
    opened = browser.open(digits)
    head = "#weights thead th:nth-child(4)"
    before = column(opened, 3)
    opened.click(f"{head} button")
    assert column(opened, 3) == sorted(before)
    sort = f"document.querySelector('{head}').getAttribute('aria-sort')"
    assert opened.run(sort) == "ascending"
    opened.press("Enter", "\r")  # the button has the focus
    assert column(opened, 3) == sorted(before, reverse=True)
    assert opened.run(sort) == "descending"
    opened.click("#weights thead th:nth-child(1) button")
    assert column(opened, 0) == list(range(10))
    assert opened.run(sort) == "none"
    assert silent(opened)


@pytest.mark.system
def test_browser_shows_details_by_pointer_and_by_key(browser, digits):
    opened = browser.open(digits)
    tip = "document.getElementById('tip')"
    assert opened.run(f"{tip}.hidden")
    opened.point_at("#group-0 .mark:nth-child(20)")
    assert opened.run(f"{tip}.textContent").startswith("column 19: 1 in ")
    assert opened.run(f"{tip}.getBoundingClientRect().width") > 20
    opened.point_at("h1")
    assert opened.run(f"{tip}.hidden")
    opened.run("document.querySelector('#margins svg').focus({focusVisible: true})")
    first = opened.run(f"{tip}.textContent")
    opened.press("ArrowRight")
    second = opened.run(f"{tip}.textContent")
    assert " : 1 to " in first
    assert " : 1 to " in second
    assert first != second
    opened.press("Escape")
    assert opened.run(f"{tip}.hidden")
    assert silent(opened)


@pytest.mark.system
def test_browser_changes_theme(browser, digits):
    opened = browser.open(digits, dark=True)
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = opened.run(ground)
    opened.click("#theme")
    light = opened.run(ground)
    assert (dark, light) == ("rgb(21, 24, 28)", "rgb(251, 250, 247)")
    assert opened.run("document.getElementById('theme').textContent") == "Dark"
    opened.run("localStorage.clear()")
    opened.call("Emulation.setEmulatedMedia", media="print")
    assert opened.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert silent(opened)


@pytest.mark.system
def test_browser_keeps_hostile_text_as_text(browser, tmp_path):
    hostile_report(tmp_path)
    opened = browser.open(tmp_path / "report.html")
    assert opened.run("document.title") == BREAKOUT
    assert opened.run("document.querySelector('h1').textContent") == BREAKOUT
    assert opened.run("document.querySelectorAll('img, b, script[src]').length") == 0
    assert opened.run("document.scripts.length") == 1
    assert opened.run("document.querySelector('#outliers td bdi').textContent") == HOSTILE
    assert opened.events("Page.javascriptDialogOpening") == []
    assert silent(opened)


@pytest.mark.system
def test_browser_forbids_what_the_page_does_not_need(browser, digits):
    opened = browser.open(digits)
    opened.run(
        "const s = document.createElement('script'); s.textContent = 'window.broken = 1';"
        "document.body.append(s);"
        "const i = new Image(); i.src = 'http://localhost:9/x.png'; document.body.append(i)"
    )
    assert opened.run("window.broken") is None
    assert len(opened.complaints()) == 2
    assert all("Content Security Policy" in words for words in opened.complaints())


@pytest.mark.system
def test_browser_opens_every_kind_at_once_and_on_a_phone(browser, digits, tmp_path):
    n = 100_000
    truth = make_templates(4, n, separation=0.01, random_state=0)
    rows, _ = sample_mixture(truth, [0.25] * 4, 0.05, 60, random_state=0)
    model = TemplateMixture(4, n_init=1, random_state=0).fit(rows)
    report.write(model, rows, tmp_path / "wide.html", certificate=False)
    model, rows = hundred(2_000)
    report.write(model, rows, tmp_path / "hundred.html", certificate=False)
    model, rows, geometry = sketches()
    report.write(model, rows, tmp_path / "sketches.html", geometry=geometry)
    hostile_report(tmp_path)
    for path in (digits, *sorted(tmp_path.glob("*.html"))):
        start = time.perf_counter()
        opened = browser.open(path, width=390, height=844, phone=True)
        assert time.perf_counter() - start < 5
        room = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert opened.run(room) == 0, path.name
        assert opened.run("document.querySelector('.picture, .features') !== null")
        unnamed = "document.querySelectorAll('svg[role=img]:not([aria-label])').length"
        assert opened.run(unnamed) == 0
        assert silent(opened)


@pytest.mark.parametrize("noise_model", ["shared", "cell"])
def test_weights_are_repeated_rows(noise_model, tmp_path):
    """The same page, to the last character, with labels and ids."""
    X, labels = mixture()
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    numbers = np.repeat(np.arange(len(X)), weights)
    model = TemplateMixture(3, noise_model=noise_model, random_state=0).fit(X)
    ids = [f"row {i}" for i in range(len(X))]
    one = write(tmp_path, model, X, labels=labels, ids=ids, sample_weight=weights)
    often = write(
        tmp_path, model, X[numbers], labels=labels[numbers], ids=[ids[i] for i in numbers]
    )
    assert one == often
    packed = BitMatrix.from_dense(X).weighted(weights)
    some = weights > 0
    kept = [name for name, is_there in zip(ids, some, strict=True) if is_there]
    assert write(tmp_path, model, packed, labels=labels[some], ids=kept) == often
    with pytest.raises(InputError, match="a report counts rows"):
        write(tmp_path, model, X, sample_weight=weights + 0.5)


def test_the_comparison_of_noise_models_is_in_the_report(tmp_path):
    X, _ = mixture()
    model = TemplateMixture(3, random_state=0).fit(X)
    text = write(tmp_path, model, X)
    assert "shared (chosen)" in text
    for score in model.noise_model_scores_.values():
        assert f"{score['log_likelihood']:.4f}" in text
    given = TemplateMixture(3, noise_model="shared", random_state=0).fit(X)
    assert "(chosen)" not in write(tmp_path, given, X)


def test_groups_have_representatives_and_sparse_ones_words(tmp_path):
    rng = np.random.default_rng(0)
    p = np.where(rng.random((2, 120)) < 0.1, 0.7, 0.01)
    labels = rng.integers(2, size=300)
    X = pd.DataFrame((rng.random((300, 120)) < p[labels]).astype(int))
    X.columns = [f"word{i}" for i in range(119)] + [HOSTILE]
    X.index = [f"page {i}" for i in range(300)]
    model = TemplateMixture(2, noise_model="cell", random_state=0).fit(X)
    found = facts.gather(model, model.rows_like_fit(X), names=list(X.columns), ids=list(X.index))
    medoids = model.medoids(X, ids=X.index)
    assert [group.representative for group in found.groups] == list(medoids.ids)
    assert [group.distance for group in found.groups] == medoids.distances.tolist()
    assert [group.similar for group in found.groups] == pytest.approx(
        isim(X.to_numpy(), model.predict(X))
    )
    for i, group in enumerate(found.groups):
        mine = model.predict(X) == i
        more = X[mine].mean() - X[~mine].mean()
        assert {word for word, size in group.words if size == 5} <= set(more[more > 0.3].index)
        assert max(group.words, key=lambda word: word[1])[1] == 5
    written = write(tmp_path, model, X)
    assert 'class="term w5"' in written
    assert f"Representative: <bdi>{medoids.ids[0]}</bdi>" in written
    assert HOSTILE not in written
    dense, _ = mixture()
    model = TemplateMixture(2, random_state=0).fit(dense)
    assert 'class="term' not in write(tmp_path, model, dense)


ACIDS = ["CC(=O)O", "CCC(=O)O", "CCCC(=O)O", "CCCCC(=O)O", "CCCCCC(=O)O", "CC(C)C(=O)O"] * 4
RINGS = ["c1ccccc1", "Cc1ccccc1", "CCc1ccccc1", "CCCc1ccccc1", "Oc1ccccc1", "Nc1ccccc1"] * 4


@pytest.fixture(scope="module")
def drugs(tmp_path_factory):
    pytest.importorskip("rdkit")
    path = tmp_path_factory.mktemp("molecules") / "drugs.csv"
    pd.DataFrame({"smiles": ACIDS + RINGS}).to_csv(path, index=False)
    return path


def test_molecules_are_drawn_with_their_fragments(drugs, tmp_path):
    table = open_table(drugs, smiles_column="smiles")
    loaded = table.load()
    assert loaded.smiles == loaded.ids == ACIDS + RINGS
    model = TemplateMixture(2, noise_model="cell", random_state=0).fit(loaded.rows)
    written = write(tmp_path, model, loaded.rows, ids=loaded.ids, smiles=loaded.smiles)
    assert written.count('class="molecule"') >= 2 * 2 + 2  # each representative twice
    assert "mask-" not in written  # no map of bits
    assert "style=" not in written  # which the security policy forbids
    assert "fill:#" not in written
    assert "'#000000'" not in written
    assert "<bdi>c1ccccc1</bdi>" in written  # the scaffold of one group
    assert "no ring at all" in written
    alone = write(tmp_path, model, loaded.rows, ids=loaded.ids)  # without molecules
    assert 'class="molecule"' not in alone
    with pytest.raises(InputError, match="smiles must be 48 values"):
        write(tmp_path, model, loaded.rows, smiles=ACIDS)


def test_a_fragment_is_one_that_the_members_have(drugs):
    loaded = open_table(drugs, smiles_column="smiles").load()
    model = TemplateMixture(2, noise_model="cell", random_state=0).fit(loaded.rows)
    found = facts.gather(model, model.rows_like_fit(loaded.rows))
    parts = (loaded.rows, found.labels, found.medoids.rows, found.groups)
    drawn = molecules.molecules_of(loaded.smiles, *parts)  # the fingerprint is found
    assert molecules.guessed(loaded.smiles, loaded.rows, found.medoids.rows) == Fingerprint()
    assert molecules.guessed(loaded.smiles[::-1], loaded.rows, found.medoids.rows) is None
    for group, each in zip(found.groups, drawn, strict=True):
        assert each.drawing is not None
        assert each.n_counted == group.size == 24
        assert each.fragments
        for fragment in each.fragments:
            assert fragment.feature.share > fragment.feature.other_share
            assert "<path" in fragment.drawing or "<text" in fragment.drawing
    scaffolds = {each.scaffold: (each.scaffold_share, each.n_scaffolds) for each in drawn}
    assert scaffolds == {"": (1.0, 1), "c1ccccc1": (1.0, 1)}
    assert molecules.molecules_of(["no molecule"] * 48, *parts) == ()


def test_the_command_draws_molecules_and_images(drugs, tmp_path):
    page_of = tmp_path / "r.html"
    done = bitmix("fit", drugs, "-k", "2", "--smiles-column", "smiles", "--report", page_of)
    assert done.returncode == 0, done.stderr
    assert 'class="molecule"' in page_of.read_text(encoding="utf-8")
    rows = open_table(drugs, smiles_column="smiles").read()
    octets = rows.to_packed("little")
    lines = [f"{o.tobytes().hex()}\t{s}\n" for o, s in zip(octets, ACIDS + RINGS, strict=True)]
    (tmp_path / "x.fps").write_text("#FPS1\n#num_bits=2048\n" + "".join(lines))
    options = ("-k", "2", "--noise-model", "cell", "--report", page_of, "--force")
    assert bitmix("fit", tmp_path / "x.fps", *options).returncode == 0
    assert 'class="features fragments"' in page_of.read_text(encoding="utf-8")
    X, _ = mixture(n=36)
    np.save(tmp_path / "x.npy", X)
    fit = ("fit", tmp_path / "x.npy", "-k", "3", "--report", page_of, "--force")
    done = bitmix(*fit, "--image-shape", "4x9")
    assert done.returncode == 0, done.stderr
    assert 'viewBox="0 0 9 4"' in page_of.read_text(encoding="utf-8")
    for shape, message in (("4x8", "32 cells, but rows have 36"), ("4", "as 28x28")):
        done = bitmix(*fit, "--image-shape", shape)
        assert done.returncode == 2
        assert message in done.stderr
    assert "--report as well" in bitmix(*fit[:4], "--image-shape", "4x9").stderr
    done = bitmix(*fit, "--threshold", "0.3")
    assert done.returncode == 2
    assert "--threshold is for folders of images" in done.stderr
