"""Drawing rows from a mixture of templates, straight into packed bits."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.errors import InputError
from bitmix.kernels.bits import WORD, Words, pack, words_for
from bitmix.kernels.items import Items
from bitmix.rows.packed import BitMatrix
from bitmix.support import checks
from bitmix.support.randomness import seed_of, stream

_NOISE_BITS = 40  # noise levels are rounded to 2^-40
_BLOCK_WORDS = 1 << 20


def sample_mixture(
    templates: ArrayLike,
    weights: ArrayLike,
    noise: float | NDArray[np.float64],
    m: int,
    random_state: Any = None,
) -> tuple[BitMatrix, NDArray[np.int64]]:
    """m rows of the mixture of Section 2.1, straight into packed bits, and the template of each.

    Parameters
    ----------
    templates : array-like of 0 and 1, shape (k, n)
    weights : array-like, shape (k,)
        Positive, sum 1.
    noise : float or array
        q: the probability that a bit is flipped, in [0, ½]. An array must stretch to (k, n): a
        probability for each template, column, or both.
    m : int
        Number of rows.
    random_state : int, RandomState, Generator or None
    """
    words, n = BitMatrix.from_dense(templates).words, np.shape(templates)[1]
    w = checks.weights(weights, len(words))
    rate = np.asarray(noise, dtype=np.float64)
    if not np.all((rate >= 0) & (rate <= 0.5)):
        raise InputError(f"noise must lie between 0 and 0.5, got {noise!r}")
    m = checks.whole(m, "m", least=1)
    rng = stream(seed_of(random_state), "rows")
    labels = rng.choice(len(words), size=m, p=w / w.sum())
    rows = words[labels]
    mask = pack(np.ones((1, n), dtype=np.uint8))
    step = max(1, _BLOCK_WORDS // rows.shape[1])
    for start in range(0, m, step):
        block = rows[start : start + step]
        if rate.ndim == 0:
            block ^= _bernoulli(block.shape, float(rate), rng) & mask
        else:
            flips = _cell_rates(rate, (len(words), n))[labels[start : start + step]]
            block ^= pack(rng.random((len(block), n)) < flips)
    return BitMatrix(rows, n), labels


def _cell_rates(rate: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.float64]:
    try:
        return np.broadcast_to(rate, shape)
    except ValueError:
        raise InputError(
            f"noise must be a number or stretch to (templates, columns) = {shape}, "
            f"got shape {rate.shape}"
        ) from None


def _bernoulli(shape: tuple[int, ...], q: float, rng: np.random.Generator) -> Words:
    """Words whose bits are independently 1 with probability q.

    Read the binary digits of q from the last to the first: a fair bit OR what is there for a 1,
    AND for a 0, halves the probability so far and adds ½ for a 1.
    """
    digits = round(q * (1 << _NOISE_BITS))
    out = np.zeros(shape, dtype=WORD)
    if digits == 0:
        return out
    zeros = (digits & -digits).bit_length() - 1  # trailing zeros change nothing
    for place in range(zeros, _NOISE_BITS):
        fair = rng.integers(0, 1 << 64, size=shape, dtype=np.uint64)
        np.bitwise_or(out, fair, out=out) if digits >> place & 1 else np.bitwise_and(
            out, fair, out=out
        )
    return out


def sample_probabilities(
    probabilities: NDArray[np.float64],
    weights: ArrayLike,
    items: Items | None,
    m: int,
    random_state: Any = None,
) -> tuple[BitMatrix, NDArray[np.int64]]:
    """m rows of a mixture with a probability per cell, and the component of each.

    The values of an item are drawn together: one of them is 1.
    """
    k, n = probabilities.shape
    w = np.asarray(weights, dtype=np.float64)
    rng = stream(seed_of(random_state), "rows")
    labels = rng.choice(k, size=checks.whole(m, "m", least=1), p=w / w.sum())
    groups = [] if items is None else items.groups
    words = np.empty((m, words_for(n)), dtype=WORD)
    step = max(1, _BLOCK_WORDS // n)
    for start in range(0, m, step):
        p = probabilities[labels[start : start + step]]
        bits = rng.random(p.shape) < p
        for group in groups:
            ends = np.cumsum(p[:, group], axis=1)
            drawn = rng.random((len(p), 1)) * ends[:, -1:]
            bits[:, group] = (drawn < ends) & (drawn >= ends - p[:, group])
        words[start : start + step] = pack(bits)
    return BitMatrix(words, n), labels
