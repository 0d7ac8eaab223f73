"""Planted mixtures are what they say."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitmix.datasets import _differing, make_templates, paper_pair, sample_mixture
from bitmix.em.sampling import _bernoulli
from bitmix.errors import InputError


def closest(templates):
    k = len(templates)
    return min(int((templates[i] != templates[j]).sum()) for i in range(k) for j in range(i))


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 20), st.integers(200, 400), st.floats(0.05, 0.4), st.integers(0, 999))
def test_the_closest_templates_differ_as_asked(k, n, separation, seed):
    templates = make_templates(k, n, separation=separation, random_state=seed)
    assert templates.shape == (k, n)
    assert templates.dtype == np.uint8
    assert closest(templates) == _differing(separation, n)
    assert abs(_differing(separation, n) - separation * n) <= 1


def test_separations_up_to_the_possible():
    assert closest(make_templates(2, 100, separation=1.0, random_state=0)) == 100
    assert closest(make_templates(3, 99, separation=2 / 3, random_state=0)) == 66
    assert closest(make_templates(10, 2048, separation=0.5, random_state=0)) == 1024
    with pytest.raises(InputError, match="all differ in 70: no more than 66"):
        make_templates(3, 100, separation=0.7, random_state=0)


def test_one_template_needs_no_separation():
    assert make_templates(1, 8, random_state=0).shape == (1, 8)


def test_paper_pair():
    pair = paper_pair(100, 0.29)  # 0.29·100 is 28.999… in floats
    assert pair.sum(axis=1).tolist() == [0, 29]
    assert pair[1, :29].all()
    with pytest.raises(InputError, match="at least 1"):
        paper_pair(10, 0.05)
    with pytest.raises(InputError, match="separation"):
        paper_pair(10, 1.5)


@pytest.mark.parametrize("q", [0.5, 0.25, 0.1, 1e-3])
def test_bits_flip_at_the_rate_asked_for(q):
    """3.2·10^6 bits: the count is within 6 standard deviations (fails by chance below 10^-8)."""
    words = _bernoulli((1000, 50), q, np.random.default_rng(1))
    count, bits = int(np.bitwise_count(words).sum()), 64 * words.size
    assert abs(count - bits * q) < 6 * math.sqrt(bits * q * (1 - q))
    # and independently of the neighbour: pairs of adjacent bits both flip with probability q²
    pairs = int(np.bitwise_count(words & (words >> np.uint64(1))).sum())
    places = 63 * words.size
    assert abs(pairs - places * q * q) < 12 * math.sqrt(places * q * q)


def test_labels_follow_the_weights():
    """100,000 draws: each count within 6 standard deviations (fails by chance below 10^-7)."""
    weights = [0.6, 0.3, 0.1]
    _, labels = sample_mixture(np.eye(3, dtype=int), weights, 0.1, 100_000, 3)
    counts = np.bincount(labels, minlength=3)
    for count, w in zip(counts, weights, strict=True):
        assert abs(count - 1e5 * w) < 6 * math.sqrt(1e5 * w * (1 - w))


def test_rows_are_noisy_copies_of_their_template():
    truth = make_templates(4, 130, random_state=0)
    X, labels = sample_mixture(truth, np.full(4, 0.25), 0.0, 50, 1)
    np.testing.assert_array_equal(X.to_dense(), truth[labels])
    again, _ = sample_mixture(truth, np.full(4, 0.25), 0.0, 50, 1)
    assert again == X


def test_sampling_is_packed_throughout():
    tracemalloc.start()
    X, _ = sample_mixture(paper_pair(2048, 0.5), [0.5, 0.5], 0.1, 100_000, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes + 60e6  # as float64 it would be 1.6 GB


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[0, 1]], [0.5], 0.1, 5), r"sum to 1, got \[0.5\] with sum 0.5"),
        (([[0, 1]], [0.5, 0.5], 0.1, 5), "1 numbers"),
        (([[0, 1], [1, 1]], [-0.5, 1.5], 0.1, 5), "weights"),
        (([[0, 1]], [1], 0.6, 5), "noise must lie between 0 and 0.5, got 0.6"),
        (([[0, 1]], [1], 0.1, 0), "m must be at least 1"),
        (([[0, 2]], [1], 0.1, 5), "got 2 at row 0"),
    ],
)
def test_bad_input_is_named(arguments, words):
    with pytest.raises(InputError, match=words):
        sample_mixture(*arguments)
