"""Both back ends give the same bits, which are those of the definitions, within proved bounds."""

import itertools
import os
import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitmix import TemplateMixture, kernels
from bitmix.datasets import make_templates, sample_mixture
from bitmix.errors import InputError
from bitmix.kernels import backend, fixed, reference
from bitmix.kernels.bits import pack, padding_is_zero, unpack
from bitmix.kernels.events import Events, EventTable, lanes, padded
from bitmix.kernels.scores import AffineScores, CellScores, PopcountScores
from bitmix.kernels.threads import num_threads
from bitmix.models.mixture import MIN_PROBABILITY, NOISE_MODELS, Mixture
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import Block, Layout

compiled = pytest.importorskip("bitmix.kernels.compiled", reason="numba is missing")

WIDTHS = [1, 63, 64, 65, 127, 1458]


def random_words(rng, m, n, density=0.5):
    return pack(rng.random((m, n)) < density)


def assert_same(one, other):
    """The same values of the same types, in nested tuples."""
    if isinstance(other, tuple):
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)


# --- twins ----------------------------------------------------------------------------------


def run_event_pass(kernels, starts, cells, weights, const, table, screen, bits):
    """What `event_pass` returns, and what it adds to tables that hold something already; the same
    if rows that one component has whole are counted first."""
    found = []
    for whole in (None, np.zeros((len(const), len(table) + 1), dtype=np.int64)):
        mass, sums = np.arange(len(const)), np.ones(table.shape, dtype=np.int64)
        tops, *others = kernels.event_pass(
            starts, cells, weights, const, table, screen, bits, mass, sums, whole
        )
        if whole is not None:
            tops += kernels.add_whole(whole, const, table, mass, sums)
        found.append(((tops, *others), mass, sums))
    assert_same(*found)
    return found[0]


def run_popcount_pass(kernels, words, templates, const, per_one, per_match, bits):
    mass = np.arange(len(const))
    sums = np.ones((len(const), 64 * words.shape[1]), dtype=np.int64)
    counts = kernels.popcount_pass(words, templates, const, per_one, per_match, bits, mass, sums)
    return counts, mass, sums


def kernel_calls(m, n, k, seed):
    """A call of each kernel as a function of the back end, by the name of the kernel.

    A column adds between 2^-8 and 2^6 nats to a score, so that rows are shared by all components
    in some cases and belong to one of them in others.
    """
    rng = np.random.default_rng(seed)
    bits, size = int(rng.integers(20, 43)), 2.0 ** rng.integers(-8, 7)

    def nats(*shape):
        return np.rint(size * rng.normal(size=shape) * 2.0**bits).astype(np.int64)

    words, templates = random_words(rng, m, n, rng.random()), random_words(rng, k, n)
    starts, cells = reference.set_bits(words)
    weights = rng.integers(1, 1000, size=m)
    const, table = padded(nats(k), lanes(k)), np.zeros((n, lanes(k)), dtype=np.int64)
    table[:, :k] = nats(n, k)
    popcounts = nats(k), nats(k), nats(k)
    scores = nats(m, k)
    shares = reference.posteriors(scores, bits)[0]
    p = rng.random((n, k)).clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    base = rng.random(n) < 0.5
    rates = rng.integers(0, 2**30 + 1, size=n)
    path = [np.ascontiguousarray(x) for x in (p, p + 0.01 * (p[::-1] - p), p[::-1])]
    alpha = 3 * rng.random()
    owner = rng.integers(-1, k, size=m)
    planes = rng.integers(0, 2**64, size=(k, 5, words.shape[1]), dtype=np.uint64)
    evidence = rng.integers(-(2**40), 2**40, size=(k, n))
    shift = rng.integers(-(2**38), 2**38, size=n)
    counts = rng.integers(0, 50, size=(2, k + 1, n)) * rng.choice([1.0, 0.5, 2.0**-16])
    cells_of, ones_of = counts.max(axis=0), counts.min(axis=0)
    others = rng.permutation(k + 1)[: rng.integers(1, k + 2)]
    whole = rng.integers(1, 1 + 2**31 // k, size=(k, n + 1)) * (rng.random((k, n + 1)) < 0.5)
    whole[whole[:, -1] == 0] = 0  # a component without rows has no events

    def add_whole(kernels):
        mass, sums = np.arange(len(const)), np.ones(table.shape, dtype=np.int64)
        return kernels.add_whole(whole, const, table >> 8, mass, sums), mass, sums

    def event_pass(kernels, weights):
        screen = kernels.screen(const, table, k, bits)
        return run_event_pass(kernels, starts, cells, weights, const, table, screen, bits)

    def cell_lines(kernels, missing):
        lines = np.zeros((2 * n if missing else n, lanes(k)), dtype=np.int64)
        return kernels.cell_lines(p, base, min(bits, 32), lines), lines

    return {
        "hamming": lambda kernels: kernels.hamming(words, templates),
        "set_bits": lambda kernels: kernels.set_bits(words),
        "event_scores": lambda kernels: kernels.event_scores(starts, cells, const, table),
        "event_pass": lambda kernels: event_pass(kernels, None),
        "event_pass, weights": lambda kernels: event_pass(kernels, weights),
        "add_whole": add_whole,
        "popcount_scores": lambda kernels: kernels.popcount_scores(words, templates, *popcounts),
        "popcount_pass": lambda kernels: run_popcount_pass(
            kernels, words, templates, *popcounts, bits
        ),
        "posteriors": lambda kernels: kernels.posteriors(scores, bits),
        "logs": lambda kernels: kernels.logs(p),
        "cell_lines": lambda kernels: cell_lines(kernels, missing=False),
        "cell_lines, missing": lambda kernels: cell_lines(kernels, missing=True),
        "mean_line": lambda kernels: kernels.mean_line(table >> max(0, bits - 28), base, rates),
        "path_squares": lambda kernels: kernels.path_squares(*path),
        "path_further": lambda kernels: kernels.path_further(*path, alpha),
        "owned_scores": lambda kernels: kernels.owned_scores(words, owner, templates, planes),
        "owned_sums": lambda kernels: kernels.owned_sums(words, owner, k, n),
        "disagreement": lambda kernels: kernels.disagreement(
            evidence, np.full(k, k - 1), np.arange(k), shift
        ),
        "merged_likelihoods": lambda kernels: kernels.merged_likelihoods(
            ones_of, cells_of, np.full(len(others), others[0]), others
        ),
        "merged_likelihoods of complete rows": lambda kernels: kernels.merged_likelihoods(
            ones_of, cells_of.max(axis=1, keepdims=True), np.full(len(others), others[0]), others
        ),
        "column_sums": lambda kernels: kernels.column_sums(words, shares, n),
    }  # fmt: skip


def assert_twins_agree(m, n, k, seed):
    for name, call in kernel_calls(m, n, k, seed).items():
        try:
            assert_same(call(compiled), call(reference))
        except AssertionError as error:
            raise AssertionError(f"{name} differs for m={m}, n={n}, k={k}, seed={seed}") from error


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("k", [1, 2, 11, 33, 70])
def test_twins_agree(n, k):
    for seed in range(3):
        assert_twins_agree(40, n, k, seed)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 90), st.integers(0, 2**32 - 1))
def test_twins_agree_at_any_shape(m, n, k, seed):
    assert_twins_agree(m, n, k, seed)


def test_twins_agree_on_no_rows():
    for name, call in kernel_calls(0, 70, 40, seed=0).items():
        if not name.startswith(("merged_likelihoods", "disagreement")):
            assert_same(call(compiled), call(reference))


@pytest.mark.parametrize("k", [1, 3, 4, 9])
@pytest.mark.parametrize("m", [1, 7, 300, 1200])
def test_column_sums_of_whole_and_shared_rows(m, k):
    """Rows that one component has whole, rows shared by few or by all, and weighted rows whose
    largest share happens to be as large as a whole row."""
    rng = np.random.default_rng(m + k)
    words = pack(rng.integers(2, size=(m, 130), dtype=np.uint8))
    shares = np.zeros((m, k), dtype=np.int64)
    shares[np.arange(m), rng.integers(k, size=m)] = 1 << 30
    shared = rng.random(m) < 0.6
    shares[shared] = rng.integers(0, 1 << 40, size=(shared.sum(), k))
    shares[shared, 0] = 1 << 30
    shares[::3, -1] = 5
    exact = unpack(words, 130).astype(object).T @ shares.astype(object)
    for kernels_in_use in (compiled, reference):
        found = kernels_in_use.column_sums(words, shares, 130)
        assert (found == exact.T).all()


@pytest.mark.parametrize("m", [1, 7, 8, 9, 129, 3000])
def test_popcount_passes_of_whole_and_shared_rows(m):
    """Copies of a template belong to it alone; rows half way between two are shared."""
    rng = np.random.default_rng(m)
    templates = rng.integers(2, size=(12, 200), dtype=np.uint8)
    between = np.where(rng.random((m, 200)) < 0.5, templates[0], templates[1])
    bits = np.where(rng.random((m, 1)) < 0.5, templates[rng.integers(12, size=m)], between)
    scores = Mixture(templates.astype(float), np.full(12, 1 / 12), 0.1).scores()
    args = pack(bits), scores.templates, scores.const, scores.per_one, scores.per_match, scores.bits
    assert_same(run_popcount_pass(compiled, *args), run_popcount_pass(reference, *args))


@pytest.mark.parametrize("threads", ["1", "2", "3"])
def test_threads_that_fill_an_event_table_change_no_bit(monkeypatch, threads):
    monkeypatch.setenv("BITMIX_NUM_THREADS", threads)
    rng = np.random.default_rng(0)
    p, base = rng.uniform(0.001, 0.999, (701, 150)), rng.random(701) < 0.5
    assert 2 * p.size * compiled._LOG >= 3 * compiled._SHORT
    results = []
    for kernels_in_use in (compiled, reference):
        lines = np.zeros((1402, 152), dtype=np.int64)
        results.append((kernels_in_use.cell_lines(p, base, 30, lines), lines))
    assert_same(*results)


# --- definitions ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", WIDTHS)
def test_pack_and_unpack_are_inverse(n):
    bits = np.random.default_rng(n).integers(2, size=(7, n), dtype=np.uint8)
    words = pack(bits)
    assert padding_is_zero(words, n)
    np.testing.assert_array_equal(unpack(words, n), bits)
    assert int(words[0, 0]) & 1 == bits[0, 0]


def test_kernels_of_packed_rows_do_what_they_say(kernels):
    rng = np.random.default_rng(0)
    words, templates = random_words(rng, 30, 100), random_words(rng, 4, 100)
    X, T = unpack(words, 100).astype(int), unpack(templates, 100).astype(int)
    np.testing.assert_array_equal(
        backend().hamming(words, templates), np.abs(X[:, None] - T[None]).sum(axis=2)
    )
    starts, cells = backend().set_bits(words)
    for row in range(30):
        assert cells[starts[row] : starts[row + 1]].tolist() == np.flatnonzero(X[row]).tolist()
    const, per_one, per_match = rng.integers(-(2**40), 2**40, size=(3, 4))
    np.testing.assert_array_equal(
        backend().popcount_scores(words, templates, const, per_one, per_match),
        const + X.sum(axis=1, keepdims=True) * per_one + X @ T.T * per_match,
    )
    shares = rng.integers(0, 2**30, size=(30, 4))
    np.testing.assert_array_equal(backend().column_sums(words, shares, 100), shares.T @ X)
    owner = rng.integers(-1, 4, size=30)
    whole = (owner == np.arange(4)[:, None]).astype(int)
    np.testing.assert_array_equal(backend().owned_sums(words, owner, 4, 100), (whole @ X) << 30)
    values = np.random.default_rng(1).integers(0, 1000, size=(4, 100))
    planes = np.stack([pack((values >> p & 1).astype(np.uint8)) for p in range(10)], axis=1).copy()
    expected = np.where(owner < 0, 0, ((T[owner] != X) * values[owner]).sum(axis=1))
    found = backend().owned_scores(words, owner, templates, planes)
    np.testing.assert_array_equal(found, expected)


def test_kernels_of_events_do_what_they_say(kernels):
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(30, 20))
    starts, cells = backend().set_bits(pack(X.astype(np.uint8)))
    const, table = (
        rng.integers(-(2**40), 2**40, size=8),
        rng.integers(-(2**40), 2**40, size=(20, 8)),
    )
    np.testing.assert_array_equal(
        backend().event_scores(starts, cells, const, table), const + X @ table
    )
    np.testing.assert_array_equal(  # of some of the rows, as a block has them
        backend().event_scores(starts[5:12], cells, const, table), const + X[5:11] @ table
    )
    narrow = table[:, :3]
    np.testing.assert_array_equal(
        backend().event_scores(starts, cells, const[:3], narrow), const[:3] + X @ narrow
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [3, 40])
def test_a_pass_adds_up_the_posteriors_of_its_scores(kernels, k, weighted):
    """Both passes against scores, shares and sums one after the other, in Python's integers."""
    rng = np.random.default_rng(k)
    X, bits = rng.integers(2, size=(50, 30)), 32
    words, templates = pack(X.astype(np.uint8)), random_words(rng, k, 30)
    weights = rng.integers(1, 10**6, size=50) if weighted else np.ones(50, dtype=np.int64)
    const = padded(rng.integers(-(2**33), 2**33, size=k), lanes(k))
    table = np.zeros((30, lanes(k)), dtype=np.int64)
    table[:, :k] = rng.integers(-(2**33), 2**33, size=(30, k))

    def check(found, scores, sums_of):
        (tops, logs, n_undecided), mass, sums = found
        shares, best, rest = reference.posteriors(scores, bits)
        shares = shares.astype(object) * weights[:, None]
        assert tops == sum(int(w) * int(b) for w, b in zip(weights, best, strict=True))
        assert logs == sum(int(w) * int(r) for w, r in zip(weights, rest, strict=True))
        assert n_undecided == np.count_nonzero(rest)
        assert (mass[:k] - np.arange(k) == shares.sum(axis=0)).all()
        assert (mass[k:] == np.arange(k, len(mass))).all()  # the lanes that are filled up
        assert (sums_of(sums - 1) == X.astype(object).T @ shares).all()

    starts, cells = reference.set_bits(words)
    screen = backend().screen(const, table, k, bits)
    found = run_event_pass(
        backend(), starts, cells, weights if weighted else None, const, table, screen, bits
    )
    check(found, const[:k] + X @ table[:, :k], lambda sums: sums[:, :k])
    if not weighted:
        popcounts = rng.integers(-(2**33), 2**33, size=(3, k))
        found = run_popcount_pass(backend(), words, templates, *popcounts, bits)
        scores = reference.popcount_scores(words, templates, *popcounts)
        check(found, scores, lambda sums: sums[:, :30].T)


def test_cell_lines_are_logarithms_of_probabilities(kernels):
    """Within 2^-29 nats and one cut to a unit for each of the two logarithms of a line."""
    rng = np.random.default_rng(0)
    p, base, bits = rng.uniform(0.001, 0.999, (20, 3)), rng.random(20) < 0.5, 31
    lines = np.zeros((40, 8), dtype=np.int64)
    at_base = backend().cell_lines(p, base, bits, lines)
    off, on = np.log1p(-p), np.log(p)
    here, other = np.where(base[:, None], on, off), np.where(base[:, None], off, on)
    error = 2.0**-29 + 2.0**-bits
    assert np.abs(lines[:20, :3] / 2.0**bits - (other - here)).max() <= 2 * error
    assert np.abs(lines[20:, :3] / 2.0**bits + here).max() <= error
    assert np.abs(at_base / 2.0**bits - here.sum(axis=0)).max() <= 20 * error
    assert not lines[:, 3:].any()


def test_the_mean_line_is_within_its_bound(kernels):
    """Exact products in Python's integers; each line is cut by less than 2^5 + 1 units."""
    rng = np.random.default_rng(0)
    lines = rng.integers(-(2**37), 2**37, size=(200, 5))
    rates = rng.integers(0, 2**30 + 1, size=200)
    rates[:2] = 0, 2**30
    base = rng.random(200) < 0.3
    differing = np.where(base, 2**30 - rates, rates)
    exact = (lines.astype(object) * differing[:, None]).sum(axis=0)
    cut = exact - (backend().mean_line(lines, base, rates).astype(object) << 30)
    assert (cut >= 0).all()
    assert (cut < (200 * (2**5 + 1)) << 30).all()


def test_disagreement_is_its_formula(kernels):
    rng = np.random.default_rng(0)
    values, shift = (rng.integers(-(2**40), 2**40, size=s) for s in ((6, 30), 30))
    firsts, seconds = np.divmod(np.arange(36), 6)
    found = backend().disagreement(values, firsts, seconds, shift)
    for units, i, j in zip(found.tolist(), firsts, seconds, strict=True):
        columns = zip(values[i].tolist(), values[j].tolist(), shift.tolist(), strict=True)
        assert units == sum(abs(x) + abs(y) - abs(x + y - g) for x, y, g in columns)


@pytest.mark.parametrize("complete", [False, True])
def test_merged_likelihoods_are_those_of_the_sums_of_both(kernels, complete):
    """A column rounds three terms x·ln x to units of 2^-16, and takes logarithms that are within
    2^-29 nats, which is x·2^-13 units. Floats of these sizes add less than a millionth of a unit.
    """
    rng = np.random.default_rng(0)
    known = rng.integers(0, 40, size=(5, 1 if complete else 30)) / 4
    cells = np.broadcast_to(known, (5, 30))
    ones = np.rint(cells * rng.choice([0.0, 0.3, 1.0], size=(5, 30)) * 4) / 4
    others = np.array([0, 3, 4])
    found = backend().merged_likelihoods(ones, known, np.full(3, 1), others)
    with localcontext(prec=40):
        for j, units in zip(others, found.tolist(), strict=True):
            exact = bound = Decimal(0)
            for o, c in zip(
                (ones[1] + ones[j]).tolist(), (cells[1] + cells[j]).tolist(), strict=True
            ):
                if 0 < o < c:
                    for x, sign in ((o, 1), (c - o, 1), (c, -1)):
                        exact += sign * Decimal(x) * Decimal(x).ln() * 2**16
                        bound += Decimal("0.5") + Decimal(x) / 2**13 + Decimal("1e-6")
            assert bound > 0
            assert abs(units - exact) <= bound


# --- exp and ln -----------------------------------------------------------------------------


def test_exponentials_are_within_their_bound():
    """Within 0.6 units of 2^-31, for all gaps below the cut."""
    rng = np.random.default_rng(0)
    nats = np.concatenate([-22 * rng.random(1000), -(10.0 ** rng.uniform(-9, 1, 500)), [0.0]])
    with localcontext(prec=40):
        for x, units in zip(nats.tolist(), reference.exps(nats).tolist(), strict=True):
            assert abs(units - Decimal(x).exp() * 2**fixed.EXP_BITS) <= Decimal("0.6")


def test_multiples_of_the_short_logarithm_are_exact():
    assert abs(Decimal(2).ln() - Decimal(fixed.SHORT_LN2)) < Decimal(2) ** -46
    for j in range(33):
        assert Fraction(j * fixed.SHORT_LN2) == j * Fraction(fixed.SHORT_LN2)


@pytest.mark.parametrize("x", [1.0, 0.5, 0.75, 1 - 2**-53, 5e-324, 1e-300, 0.1, 1 / 3, 0.49999])
def test_wide_logarithm_is_within_its_bound(x):
    with localcontext(prec=60):
        exact = Decimal(x).ln() * 2**128
        assert abs(fixed.wide_log(*x.as_integer_ratio()) - exact) < 2**38


def test_logarithms_are_within_their_bound(kernels):
    """Within 0.7 units of 2^-32 nats, for floats of all sizes."""
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.random(300), 10.0 ** rng.uniform(-300, 300, 300), [1.0, 0.5, 5e-324, 1.7e308]]
    )
    found = backend().logs(values)
    with localcontext(prec=40):
        for value, units in zip(values.tolist(), found.tolist(), strict=True):
            assert abs(units - Decimal(value).ln() * 2**32) <= Decimal("0.7")


def test_logarithms_agree_for_all_mantissas():
    """Also next to √½, from which mantissas are counted."""
    edges = np.append(1 + np.arange(1024) / 1024, np.sqrt([0.5, 2.0]))
    around = np.stack([np.nextafter(edges, 0), edges, np.nextafter(edges, 2), edges + 2.0**-31])
    sizes = np.ldexp(around, np.random.default_rng(0).integers(-1022, 1023, around.shape))
    random = np.random.default_rng(1).random((2, 50_000)) + 2.0**-60
    small, wide = np.array([5e-324, 2.0**-1022, 1.7e308]), np.broadcast_to(random[0, :9], (3, 9))
    for values in (around, sizes, random, random.T, random[:, ::7], random[::-1], small, wide):
        assert_same(compiled.logs(values), reference.logs(values))


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
@pytest.mark.parametrize("kernels", [reference, compiled])
def test_only_positive_numbers_have_logarithms(kernels, value):
    with pytest.raises(ValueError, match="positive"):
        kernels.logs(np.array([0.5, value]))


@pytest.mark.parametrize("bits", [20, 32, 42])
@pytest.mark.parametrize("k", [1, 2, 7, 200])
def test_posteriors_stay_within_the_proved_bounds(kernels, bits, k):
    rng = np.random.default_rng(k)
    nats = rng.exponential(10.0 ** rng.integers(-6, 3, size=(2000, 1)), size=(2000, k))
    scores = -np.rint(nats * 2.0**bits).astype(np.int64)
    shares, tops, logs = backend().posteriors(scores, bits)
    exact = (scores / 2.0**bits).astype(np.longdouble)
    total = np.log(np.exp(exact - exact.max(axis=1, keepdims=True)).sum(axis=1)) + exact.max(axis=1)
    p = np.exp(exact - total[:, None])
    assert (shares >= 0).all()
    assert (shares.sum(axis=1) == 1 << fixed.SHARE_BITS).all()
    assert np.abs(shares / 2.0**fixed.SHARE_BITS - p).max() <= fixed.share_error(k)
    likelihood = tops.astype(np.longdouble) / 2.0**bits + logs / 2.0**fixed.LOG_BITS
    assert np.abs(likelihood - total).max() <= fixed.likelihood_error(k)


@pytest.mark.parametrize("bits", [20, 32, 42])
def test_posteriors_agree_around_the_cut(bits):
    """Gaps in steps of 2^-6 and of 2^-16 nats, one unit more and one less; the last of them are
    next to the cut, from which on a component has no share."""
    coarse = np.arange(1, fixed.CUT_NATS * 64 + 1) << (bits - 6)
    fine = np.arange(1, 1025) << max(0, bits - 16)
    steps = np.concatenate([coarse, fine])
    gaps = np.concatenate([steps - 1, steps, steps + 1])
    for row in (gaps[:, None], np.column_stack([gaps, gaps[::-1]])):
        scores = np.concatenate([np.zeros((len(gaps), 1), dtype=np.int64), -row], axis=1)
        found = compiled.posteriors(scores, bits)
        assert_same(found, reference.posteriors(scores, bits))
    beyond = gaps >= fixed.CUT_NATS << bits
    alone = np.stack([np.zeros_like(gaps), -gaps], axis=1)
    _, _, logs = compiled.posteriors(alone, bits)
    np.testing.assert_array_equal(logs == 0, beyond)


def test_ties_go_to_the_lowest_index(kernels):
    shares, _, _ = backend().posteriors(np.zeros((1, 3), dtype=np.int64), 40)
    third = (1 << 30) // 3
    assert shares.tolist() == [[(1 << 30) - 2 * third, third, third]]


def test_sums_in_halves_are_exact():
    rng = np.random.default_rng(0)
    values = rng.integers(-(2**61), 2**61, size=1000)
    counts = rng.integers(0, 2**21, size=1000)
    assert fixed.total(values) == sum(values.tolist())
    assert fixed.total(values, counts) == sum(
        v * c for v, c in zip(values.tolist(), counts.tolist(), strict=True)
    )
    assert fixed.total(np.full(1, -(2**61)), np.full(1, 2**31)) == -(2**92)


def test_sums_cannot_overflow():
    assert fixed.MAX_ROWS << fixed.SHARE_BITS < 2**63
    assert fixed.MAX_COMPONENTS << fixed.EXP_BITS < 2**63


# --- screening ------------------------------------------------------------------------------

UNIT_BITS = 32
UNIT = 1 << (UNIT_BITS - 4)
"""A gap of 2^-4 nats, the unit of the screening."""


def events_of_rows(rng, m, n, density):
    return reference.set_bits(random_words(rng, m, n, density))


def ordinary(rng, k):
    """Rows that few components have a share of."""
    table = rng.integers(-4 * 16 * UNIT, 0, size=(60, k))
    return rng.integers(-32 * UNIT, 0, size=k), table, events_of_rows(rng, 50, 60, 0.3)


def shared_by_all(rng, k):
    table = rng.integers(-UNIT // 4, 0, size=(60, k))
    return rng.integers(-UNIT, 0, size=k), table, events_of_rows(rng, 50, 60, 0.3)


def saturated_lines(rng, k):
    """Single gaps beyond what 16 bits hold, in lines and in the constants."""
    table = rng.integers(-32 * UNIT, 0, size=(60, k))
    table[rng.random(table.shape) < 0.3] -= 65_536 * UNIT
    const = rng.integers(-32 * UNIT, 0, size=k)
    const[rng.random(k) < 0.5] -= 65_540 * UNIT
    return const, table, events_of_rows(rng, 50, 60, 0.1)


def saturated_sums(rng, k):
    """Rows with so many events that the sums of all components reach the end of 16 bits."""
    table = rng.integers(-600 * UNIT, 0, size=(3000, k))
    table[:, : k // 2] = table[:, :1] + rng.integers(-UNIT // 8, UNIT // 8, size=(3000, k // 2))
    return rng.integers(-UNIT, 0, size=k), table, events_of_rows(rng, 12, 3000, 0.5)


def near_the_end(rng, k):
    """The least sum is within the cut of the end of 16 bits."""
    table = np.full((4, k), -16_300 * UNIT)
    table[np.arange(4), k - 1 - np.arange(4)] = 0  # other components are the best of each line
    table[:, : k // 2] += rng.integers(0, 140 * UNIT, size=(4, k // 2))
    return np.zeros(k, dtype=np.int64), table, events_of_rows(rng, 16, 4, 0.9)


def many_events(rng, k):
    """What is cut off each event adds up: a component that is no more than 1 nat behind the best
    has a sum that is as many units above the least one as a row has events.

    Component 0 is cut by nearly a unit per event, and components 1 and 2, which are the best, by
    nothing. The last two components are ahead in every other event, and far behind in the rest.
    """
    n = 2000
    table = np.full((n, k), -100_000 * UNIT)
    table[:, 0] = -UNIT + 1
    table[:, 1:3] = -UNIT
    table[0, 2] -= 16 * UNIT
    table[::2, k - 2] = 0
    table[1::2, k - 1] = 0
    return np.zeros(k, dtype=np.int64), table, events_of_rows(rng, 12, n, 0.9)


def at_the_cut(rng, k):
    """Gaps of 22 nats, one unit of the scores more and one less, with and without a remainder."""
    table = np.zeros((8, k), dtype=np.int64)
    table[:, 1:] = -(fixed.CUT_NATS * 16 * UNIT // 8)
    table[0, 1:] += rng.integers(-1, 2, size=k - 1)
    table[1:, 1:] += np.where(rng.random((7, k - 1)) < 0.5, UNIT - 1, 0)
    table[1, 1:] -= table[1:, 1:].sum(axis=0) + 7 * (fixed.CUT_NATS * 16 * UNIT // 8)
    return np.zeros(k, dtype=np.int64), table, events_of_rows(rng, 30, 8, 0.97)


def without_weight(rng, k):
    """Components of weight 0 are below all scores, and the only ones that a line speaks for."""
    const = rng.integers(-32 * UNIT, 0, size=k)
    table = rng.integers(-16 * UNIT, 0, size=(60, k))
    dead = rng.random(k) < 0.5
    dead[0] = False
    const[dead] -= 60 * 20 * 16 * UNIT + (fixed.CUT_NATS + 1) * 16 * UNIT
    table[:, dead] = 0
    return const, table, events_of_rows(rng, 50, 60, 0.5)


SCREENED = [
    ordinary, shared_by_all, saturated_lines, saturated_sums, near_the_end, many_events, at_the_cut,
    without_weight,
]  # fmt: skip


@pytest.mark.parametrize("k", [33, 40, 64, 65, 100, 300, 523])
@pytest.mark.parametrize("case", SCREENED)
def test_screening_changes_no_bit(case, k):
    rng = np.random.default_rng(k)
    few, table, (starts, cells) = case(rng, k)
    const, wide = padded(few, lanes(k)), np.zeros((len(table), lanes(k)), dtype=np.int64)
    wide[:, :k] = table
    screen = compiled.screen(const, wide, k, UNIT_BITS)
    assert screen[0].size  # there is screening
    for weights in (None, rng.integers(1, 1000, size=len(starts) - 1)):
        args = starts, cells, weights, const, wide
        expected = run_event_pass(reference, *args, None, UNIT_BITS)
        assert_same(run_event_pass(compiled, *args, screen, UNIT_BITS), expected)
        assert_same(run_event_pass(compiled, *args, None, UNIT_BITS), expected)


@pytest.mark.parametrize("halvings", [0, 1, 5, 12])
@pytest.mark.parametrize("missing", [False, True])
def test_screening_changes_no_bit_of_scaled_down_tables(halvings, missing):
    """With components of weight 0 and missing cells."""
    rng = np.random.default_rng(halvings)
    weights = np.where(rng.random(90) < 0.3, 0, rng.random(90))
    mixture = Mixture(rng.random((90, 400)), weights / weights.sum(), None)
    known = random_words(rng, 60, 400, 0.9) if missing else None
    bits = random_words(rng, 60, 400) & (pack(np.ones((1, 400), bool)) if known is None else known)
    base = rng.random(400) < 0.5
    table = mixture.scores().table(base, missing).scaled_down(halvings)
    events = Events.of_words(bits, known, 400, base)
    screen = compiled.screen(table.at_base, table.lines, 90, table.bits)
    args = events.starts, events.cells, None, table.at_base, table.lines
    expected = run_event_pass(reference, *args, None, table.bits)
    assert_same(run_event_pass(compiled, *args, screen, table.bits), expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(33, 200), st.integers(1, 120), st.integers(-6, 14), st.integers(0, 2**32 - 1))
def test_screening_changes_no_bit_at_any_scale(k, n, size, seed):
    """Tables whose cells differ by 2^-6 to 2^14 nats."""
    rng = np.random.default_rng(seed)
    bits = int(rng.integers(20, 43))
    const, table = np.full(lanes(k), -(1 << 62)), np.zeros((n, lanes(k)), dtype=np.int64)
    const[:k], table[:, :k] = (
        np.rint(rng.normal(size=shape) * 2.0 ** (bits + size)).astype(np.int64)
        for shape in (k, (n, k))
    )
    starts, cells = events_of_rows(rng, 30, n, rng.random())
    screen = compiled.screen(const, table, k, bits)
    args = starts, cells, None, const, table
    expected = run_event_pass(reference, *args, None, bits)
    assert_same(run_event_pass(compiled, *args, screen, bits), expected)


def test_the_screen_holds_gaps_that_are_cut_to_units():
    rng = np.random.default_rng(0)
    table = rng.integers(-(2**47), 2**47, size=(30, 48))
    const = padded(table[0, :45], 48)
    first, gaps = compiled.screen(const, table, 45, 30)
    assert first.shape == (64,)
    assert gaps.shape == (30, 64)
    exact = (table[:, :45].max(axis=1, keepdims=True) - table[:, :45]) >> 26
    assert (exact > 65535).any()
    assert (exact < 65535).any()
    np.testing.assert_array_equal(gaps[:, :45], np.minimum(exact, 65535))
    np.testing.assert_array_equal(first[:45], gaps[0, :45])
    assert (gaps[:, 45:] == 65535).all()  # no row belongs to what is filled up
    assert (first[45:] == 65535).all()
    assert compiled.screen(const[:32], table[:, :32], 32, 30)[0].size == 0  # too few to screen
    assert reference.screen(const, table, 45, 30) is None


def test_screening_leaves_out_components_that_are_far_behind():
    """Of 200 templates of 500 random bits, with a flip rate of 0.1.

    A component is left out if it is behind the best by more than 22 + (500 + 2)/16 nats, and at
    most 501/16 nats for what is cut: if the columns that speak for the template of the row are 40
    more than those that speak for the component, at ln 9 nats each. A column adds 1, 0 or -1 to
    this number, 0.4 on average. By Hoeffding's inequality it is below 40 with probability at most
    exp(-2·160²/2000), so for one of 30 rows and 199 components with probability below 10^-7.
    """
    rng = np.random.default_rng(0)
    templates = rng.integers(2, size=(200, 500))
    mixture = Mixture(templates.astype(float), np.full(200, 1 / 200), 0.1)
    bits = templates[rng.integers(200, size=30)] ^ (rng.random((30, 500)) < 0.1)
    base = np.zeros(500, dtype=np.bool_)
    table = mixture.scores().table(base, missing=False)
    events = Events.of_words(pack(bits.astype(np.uint8)), None, 500, base)
    first, gaps = compiled.screen(table.at_base, table.lines, 200, table.bits)
    shares, _, _ = reference.posteriors(table.scores(events), table.bits)
    numbers = np.empty(256, dtype=np.int64)
    for row in range(30):
        a, b = events.starts[row], events.starts[row + 1]
        n = compiled._screened(first, gaps, np.empty_like(first), events.cells, a, b, numbers)
        assert set(np.flatnonzero(shares[row])) <= set(numbers[:n].tolist())
        assert n == 1


# --- events ---------------------------------------------------------------------------------


def events_case(m, n, seed, missing):
    """Bits, known cells, and a base that has nothing to do with them."""
    rng = np.random.default_rng(seed)
    known = rng.random((m, n)) < 0.7 if missing else np.ones((m, n), dtype=np.bool_)
    bits = (rng.random((m, n)) < 0.5) & known
    return bits, known, rng.random(n) < 0.5


def events_from(bits, known, base, missing):
    return Events.of_words(pack(bits), pack(known) if missing else None, bits.shape[1], base)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n", WIDTHS)
def test_events_are_the_cells_that_differ_or_are_unknown(n, missing, kernels):
    bits, known, base = events_case(9, n, n, missing)
    events = events_from(bits, known, base, missing)
    assert len(events) == 9
    assert events.missing == missing
    chosen = np.array([4, 4, 0, 8])
    for found, rows in (
        (events, range(9)), (events.take(chosen), chosen), (events.rows(2, 5), range(2, 5)),
    ):  # fmt: skip
        assert len(found) == len(rows)
        for place, row in enumerate(rows):
            cells = found.cells[found.starts[place] : found.starts[place + 1]]
            differing = np.flatnonzero(known[row] & (bits[row] != base))
            assert cells.tolist() == [*differing, *(n + np.flatnonzero(~known[row]))]
    count = Events.count(pack(bits), pack(known) if missing else None, n, base)
    assert count == len(events.cells)


def test_the_majority_is_strict():
    bits = np.array([[1, 1, 0, 1], [1, 0, 0, 1], [1, 1, 0, 0], [0, 0, 0, 1]], dtype=np.uint8)
    assert BitMatrix.from_dense(bits).base.tolist() == [True, False, False, True]


def dense_scores(bits, known, const, zero, coef):
    """const_i + Σ_s zero_is + x_s·coef_is over the known cells, by its definition."""
    return const + (known[:, None] * (zero + bits[:, None] * coef)).sum(axis=2)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (63, 8), (64, 3), (127, 40)])
def test_an_event_table_scores_rows_as_a_dense_one(n, k, missing, kernels):
    bits, known, base = events_case(30, n, n + k, missing)
    rng = np.random.default_rng(n)
    const, zero, coef = (rng.integers(-(2**40), 2**40, size=s) for s in (k, (k, n), (k, n)))
    table = EventTable.of_columns(const, zero, coef, 40, base, missing)
    assert table.n_components == k
    assert table.missing == missing
    assert table.at_base.shape == (lanes(k),)
    found = table.scores(events_from(bits, known, base, missing))
    np.testing.assert_array_equal(found, dense_scores(bits, known, const, zero, coef))


@pytest.mark.parametrize("missing", [False, True])
def test_sums_over_events_become_sums_over_ones_and_known_cells(missing, kernels):
    bits, known, base = events_case(40, 70, 0, missing)
    rng = np.random.default_rng(0)
    table = EventTable.of_columns(
        np.zeros(5, dtype=np.int64), np.zeros((1, 1), dtype=np.int64),
        rng.integers(-(2**29), 2**29, size=(5, 70)), 30, base, missing,
    )  # fmt: skip
    events, weights = events_from(bits, known, base, missing), rng.integers(1, 9, size=40)
    mass, sums = np.zeros(8, dtype=np.int64), np.zeros(table.lines.shape, dtype=np.int64)
    backend().event_pass(
        events.starts, events.cells, weights, table.at_base, table.lines, table.screen, 30,
        mass, sums,
    )  # fmt: skip
    shares = reference.posteriors(table.scores(events), 30)[0] * weights[:, None]
    np.testing.assert_array_equal(mass[:5], shares.sum(axis=0))
    ones, found_known = table.ones(mass[:5], sums)
    np.testing.assert_array_equal(ones, shares.T @ bits)
    if missing:
        np.testing.assert_array_equal(found_known, shares.T @ known)
    else:
        assert found_known is None


@pytest.mark.parametrize("missing", [False, True])
def test_scores_that_are_scaled_down_do_not_depend_on_the_base(missing, kernels):
    """They are the quotients, but for less than a unit for each 1, each unknown cell, and one."""
    bits, known, base = events_case(30, 70, 1, missing)
    scores = Mixture(np.random.default_rng(2).random((11, 70)), np.full(11, 1 / 11), None).scores()
    bases = [base, ~base, np.zeros(70, dtype=np.bool_), np.ones(70, dtype=np.bool_)]
    tables = [scores.table(each, missing) for each in bases]
    events = [events_from(bits, known, each, missing) for each in bases]
    for halvings in (0, 1, 7):
        found = [t.scaled_down(halvings).scores(e) for t, e in zip(tables, events, strict=True)]
        for each in found[1:]:
            np.testing.assert_array_equal(each, found[0])
        whole = tables[0].scores(events[0])
        cut = whole / 2.0**halvings - found[0]
        most = bits.sum(axis=1, keepdims=True) + (~known).sum(axis=1, keepdims=True) + 1
        assert (cut >= 0).all()
        assert (cut < most if halvings else cut == 0).all()


def test_no_row_belongs_to_the_lanes_that_are_filled_up():
    """They stay below all scores, even if these are scaled down."""
    coef = np.full((3, 50), -(2**54))
    table = EventTable.of_columns(
        np.zeros(3, dtype=np.int64), np.zeros((1, 1), dtype=np.int64), coef, 42,
        np.zeros(50, dtype=np.bool_), missing=False,
    )  # fmt: skip
    for halvings in (0, 12):
        small = table.scaled_down(halvings)
        lowest = min(int(small.at_base[i]) + sum(small.lines[:, i].tolist()) for i in range(3))
        assert (lowest - small.at_base[3:] >= fixed.CUT_NATS << 42).all()
        assert not small.lines[:, 3:].any()


@pytest.mark.parametrize("missing", [False, True])
def test_the_score_of_a_mean_row_is_the_mean_of_scores(missing, kernels):
    """For a row that is 1 to some share per column. Shares are rounded to 2^-31 of lines that are
    below 28 nats; a line is cut by less than 33 units, as the law of `mean_line` says; and what a
    table holds is within 2^-29 nats and a unit per logarithm. The base changes no bit."""
    rng = np.random.default_rng(0)
    n, shares = 60, rng.random(60)
    p = rng.uniform(0.01, 0.99, (5, n))
    scores = Mixture(p, np.full(5, 0.2), None).scores()
    exact = shares @ np.log(p).T + (1 - shares) @ np.log1p(-p).T
    bound = n * (28 * 2.0**-31 + 33 * 2.0**-scores.bits + 3 * (2.0**-29 + 2.0**-scores.bits))
    found = [
        scores.table(base, missing).of_mean_row(shares)
        for base in (rng.random(n) < 0.5, np.zeros(n, dtype=np.bool_))
    ]
    assert np.abs(found[0] / 2.0**scores.bits - exact).max() <= bound
    np.testing.assert_array_equal(*found)


# --- scores ---------------------------------------------------------------------------------


def block_of(bits, known, base, missing):
    words = np.concatenate([pack(bits), pack(known)], axis=1) if missing else pack(bits)
    rows = SimpleNamespace(
        shape=bits.shape, layout=Layout(missing), base=base, listed=None,
        read_words=lambda start, stop, reuse: words[start:stop],
    )  # fmt: skip
    return Block(rows, 0, len(bits))


def assert_forms_agree(forms, bits, known, missing):
    """Scores of a block and of the table, for several bases, are the same bits in all forms."""
    n = bits.shape[1]
    rng = np.random.default_rng(n)
    bases = [np.zeros(n, dtype=np.bool_), np.ones(n, dtype=np.bool_), rng.random(n) < 0.5]
    expected = forms[0](block_of(bits, known, bases[0], missing))
    for base in bases:
        events = events_from(bits, known, base, missing)
        for scores in forms:
            assert_same(scores(block_of(bits, known, base, missing)), expected)
            assert_same(scores.table(base, missing).scores(events), expected)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    "noise", [0.2, np.array([0.05, 0.3]), np.array([[0.01], [0.1], [0.2], [0.3], [0.45]])]
)
@pytest.mark.parametrize("n", WIDTHS)
def test_popcounts_their_table_and_coefficients_agree_to_the_last_bit(n, noise, missing, kernels):
    rng = np.random.default_rng(n)
    means = rng.integers(2, size=(5, n)).astype(float)
    popcounts = Mixture(means, np.array([0.1, 0.2, 0.3, 0.4, 0.0]), noise).scores()
    assert isinstance(popcounts, PopcountScores)
    zero = np.where(means == 1, popcounts.zeros[1][:, None], popcounts.zeros[0][:, None])
    coef = popcounts.per_one[:, None] + popcounts.per_match[:, None] * means.astype(np.int64)
    affine = AffineScores(popcounts.const - zero.sum(axis=1), zero, coef, popcounts.bits)
    bits, known, _ = events_case(30, n, n, missing)
    assert_forms_agree([affine, popcounts], bits, known, missing)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n", WIDTHS)
def test_probabilities_and_coefficients_agree_to_the_last_bit(n, missing, kernels):
    rng = np.random.default_rng(n)
    cells = Mixture(rng.random((5, n)), np.array([0.1, 0.2, 0.3, 0.4, 0.0]), None).scores()
    assert isinstance(cells, CellScores)
    on, off = (
        reference.logs(p) >> (fixed.LOG_BITS - cells.bits)
        for p in (cells.probabilities, 1 - cells.probabilities)
    )
    affine = AffineScores(cells.const, off, on - off, cells.bits)
    bits, known, _ = events_case(30, n, n, missing)
    assert_forms_agree([affine, cells], bits, known, missing)


@pytest.mark.parametrize("form", ["popcounts", "affine"])
def test_totals_are_sums_of_scores(form):
    """Rows that belong to one component each, up to a billion of them, in Python's integers."""
    rng = np.random.default_rng(0)
    means = rng.integers(2, size=(4, 70)).astype(float)
    mixture = Mixture(means if form == "popcounts" else 0.8 * means + 0.1, np.full(4, 0.25), 1e-9)
    scores = mixture.scores()
    bits = rng.integers(2, size=(20, 70)) == 1
    base, owner = np.zeros(70, dtype=np.bool_), rng.integers(4, size=20)
    values = scores(block_of(bits, None, base, False))[np.arange(20), owner].tolist()
    for times in (1, 5 * 10**7):
        rows = np.bincount(owner, minlength=4) * times
        ones = np.array([bits[owner == i].sum(axis=0) for i in range(4)]) * times
        assert scores.total(rows, ones) == times * sum(values)


def random_mixture(model, k, n, rng, weights=None):
    """A mixture with real-valued templates."""
    shape = {"shared": (), "updown": 2, "component": (k, 1), "feature": (1, n), "cell": (0,)}[model]
    noise = rng.uniform(0.001, 0.5, shape)
    noise = None if model == "cell" else float(noise) if model == "shared" else noise
    weights = rng.dirichlet(np.ones(k)) if weights is None else weights
    return Mixture(rng.random((k, n)), weights, noise)


def flip_rates(mixture):
    """P(1 | template bit 0) and P(0 | template bit 1)."""
    return mixture.noise if np.shape(mixture.noise) == (2,) else (mixture.noise, mixture.noise)


def exact_scores(mixture, X, known):
    """ln w_i + Σ_s T·ln P(x | 1) + (1 - T)·ln P(x | 0) over known cells, in long floats."""
    X, T = X[:, None].astype(np.longdouble), mixture.means.astype(np.longdouble)
    if mixture.noise is None:
        cells = np.where(X == 1, np.log(T), np.log1p(-T))
    else:
        up, down = (np.asarray(rate, dtype=np.longdouble) for rate in flip_rates(mixture))
        if_zero = np.where(X == 1, np.log(up), np.log1p(-up))
        if_one = np.where(X == 1, np.log1p(-down), np.log(down))
        cells = T * if_one + (1 - T) * if_zero
    return np.log(mixture.weights.astype(np.longdouble)) + (known[:, None] * cells).sum(axis=2)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("model", NOISE_MODELS)
def test_scores_stay_within_the_proved_bound(model, binary, missing, kernels):
    """The bounds that `Mixture.scores` states. For two flip rates, ln(1-α) is within ½ unit, and
    ln α and ln β, which are differences, within 1. So a 1 adds ln α and T·ln((1-β)/α), within
    1 + 3/2 + ½ + ¼ units, the last for the product of floats; a 0 adds no more."""
    rng = np.random.default_rng(5)
    n = 700
    mixture = random_mixture(model, 4, n, rng)
    if binary and model != "cell":
        mixture = Mixture(np.rint(mixture.means), mixture.weights, mixture.noise)
    bits, known, base = events_case(50, n, 6, missing)
    scores = mixture.scores()
    found = scores(block_of(bits, known, base, missing)) / np.longdouble(2.0) ** scores.bits
    error = np.abs(found - exact_scores(mixture, bits, known)).max()
    bound = (2 * n + 1) * 2.0**-28
    if model == "shared":
        bound = fixed.score_error(n, scores.bits)
    if model == "updown":
        bound = (n + 1) * 3.25 * 2.0**-scores.bits
    assert error <= bound


def columns_of(scores, n):
    """The constant part of each score, and what a 0 and a 1 add in each column."""
    if isinstance(scores, PopcountScores):
        bits = unpack(scores.templates, n).astype(np.int64)
        zero = np.where(bits, scores.zeros[1][:, None], scores.zeros[0][:, None])
        coef = scores.per_one[:, None] + scores.per_match[:, None] * bits
        return scores.const - zero.sum(axis=1), zero, zero + coef
    if isinstance(scores, CellScores):
        off, on = (
            reference.logs(p) >> (fixed.LOG_BITS - scores.bits)
            for p in (1 - scores.probabilities, scores.probabilities)
        )
        return scores.const, off, on
    zero = np.broadcast_to(scores.zero, scores.coef.shape)
    return scores.const, zero, zero + scores.coef


RATES = [5e-324, 2.0**-40, 1e-9, 0.1, 0.4999999, 0.5, 0.9, 1 - 2.0**-53]


@pytest.mark.parametrize(
    ("model", "q", "n"),
    [
        *itertools.product(NOISE_MODELS, RATES, [1, 64, 1458, 10**5]),
        *itertools.product(["shared"], [5e-324, 0.4999999], [10**6]),
    ],
)
def test_scores_cannot_overflow(model, q, n):
    """The extreme sums stay below 2^61, so that gaps stay below 2^62. A component of weight 0 is
    below every other by more than the cut, whatever the row and whichever cells are missing."""
    weights = np.array([2.0**-61, 1 - 2.0**-61, 0.0])
    noise = {
        "shared": q, "updown": np.array([q, 0.3]), "component": np.array([[q], [0.2], [0.1]]),
        "feature": np.full((1, n), q), "cell": None,
    }[model]  # fmt: skip
    low, high = (q, 1 - q) if model == "cell" else (0.0, 1.0)
    for third in (low, 0.3):
        means = np.repeat([[low], [high], [third]], n, axis=1)
        scores = Mixture(means, weights, noise).scores()
        const, zero, one = columns_of(scores, n)
        least, most = np.minimum(zero, one).clip(max=0), np.maximum(zero, one).clip(min=0)
        lowest = [int(c) + fixed.total(v) for c, v in zip(const, least, strict=True)]
        highest = [int(c) + fixed.total(v) for c, v in zip(const, most, strict=True)]
        assert max(map(abs, [*lowest, *highest])) < 2**61
        assert int(np.abs(one - zero).max()) < 2**53
        assert min(lowest[:2]) - highest[2] >= fixed.CUT_NATS << scores.bits


# --- settings -------------------------------------------------------------------------------


def test_wrong_settings_are_named(monkeypatch):
    monkeypatch.setenv("BITMIX_KERNELS", "cuda")
    with pytest.raises(InputError, match="BITMIX_KERNELS.*cuda"):
        kernels.backend()
    monkeypatch.setenv("BITMIX_NUM_THREADS", "many")
    with pytest.raises(InputError, match="BITMIX_NUM_THREADS.*many"):
        num_threads()
    monkeypatch.setenv("BITMIX_NUM_THREADS", "3")
    assert num_threads() == 3


def in_fresh_process(code):
    """What a fresh interpreter prints, with no back end chosen."""
    environment = {k: v for k, v in os.environ.items() if k != "BITMIX_KERNELS"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.split()


def test_small_problems_do_not_load_numba():
    """Templates in 1,000 × 500 bits are found before it would pay; a search in fair coins, which
    takes several times longer, loads it. Either way, the bits are those of this process."""
    code = """
import sys, numpy as np
from bitmix import TemplateMixture
from bitmix.datasets import make_templates, sample_mixture
truth = make_templates(3, 500, separation=0.3, random_state=0)
planted, _ = sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, 1000, random_state=0)
coins = np.random.default_rng(0).integers(2, size=(4000, 1000), dtype=np.uint8)
for bits in (planted, coins):
    model = TemplateMixture(3, noise_model="shared", random_state=0).fit(bits)
    labels = model.predict(bits)
    print("numba" in sys.modules, model.weights_.tobytes().hex(), labels.sum())
"""
    printed = in_fresh_process(code)
    assert printed[::3] == ["False", "True"]
    truth = make_templates(3, 500, separation=0.3, random_state=0)
    planted, _ = sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, 1000, random_state=0)
    coins = np.random.default_rng(0).integers(2, size=(4000, 1000), dtype=np.uint8)
    for bits, weights, labels in zip(
        (planted, coins), printed[1::3], map(int, printed[2::3]), strict=True
    ):
        model = TemplateMixture(3, noise_model="shared", random_state=0).fit(bits)
        assert model.weights_.tobytes().hex() == weights
        assert model.predict(bits).sum() == labels
