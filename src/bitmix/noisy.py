"""Binary templates whose bits are flipped, as a frozen value: the models of `TemplateMixture`.

Every bit of a row differs from its template's with some probability, the *noise*:

    ln f_i(x) = Σ_s ln(1 - ν_is) - Σ_s λ_is·[x_s ≠ P_is],    λ = ln((1 - ν)/ν).

The noise models say which of the ν are one number: all (``"shared"``, the paper's model), those of
a template (``"component"``), those of a column (``"feature"``), or none (``"cell"``: a free
probability for each template and column, the latent class model). A score is a popcount for the
first two and affine in the bits for all.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.kernels import backend, fixed
from bitmix.kernels.bits import pack, words_for
from bitmix.kernels.fixed import Ints
from bitmix.kernels.scores import AffineScores, HammingScores, Scores
from bitmix.mixture import Floats, check_weights

NoiseModel = Literal["shared", "component", "feature", "cell"]
NOISE_MODELS = ("shared", "component", "feature", "cell")


def as_noise_model(value: Any) -> NoiseModel:
    if isinstance(value, str) and value in NOISE_MODELS:
        return value  # type: ignore[return-value]
    raise InputError(f"noise_model must be one of {', '.join(NOISE_MODELS)}, got {value!r}")


def noise_shape(model: NoiseModel, k: int, n: int) -> tuple[int, int]:
    """The shape of the noise that stretches to (k, n)."""
    return {"shared": (1, 1), "component": (k, 1), "feature": (1, n), "cell": (k, n)}[model]


@dataclass(frozen=True, eq=False)
class NoisyTemplates:
    """k binary templates, their weights, and how likely a bit differs from its template."""

    templates: NDArray[np.uint8]
    """P_i, shape (k, n)."""
    weights: Floats
    """w_i, sum 1."""
    noise: Floats
    """ν in (0, ½], of a shape that stretches to (k, n); see `noise_shape`."""

    def checked(self) -> "NoisyTemplates":
        """Itself, if it is such a mixture at all: for values that come from a file."""
        P, v = self.templates, self.noise
        if P.ndim != 2 or P.dtype != np.uint8 or not P.size or P.max() > 1:
            raise InputError("templates must be a table of 0 and 1")
        check_weights(self.weights, len(P))
        k, n = P.shape
        if v.dtype != np.float64 or v.shape not in ((1, 1), (k, 1), (1, n), (k, n)):
            raise InputError(f"noise must be numbers that stretch to {P.shape}, got {v.shape}")
        if not np.all((v > 0) & (v <= 0.5)):
            raise InputError("noise must lie above 0 and at most 0.5")
        return self

    @property
    def n_components(self) -> int:
        return len(self.weights)

    @property
    def n_features(self) -> int:
        return int(self.templates.shape[1])

    @property
    def probabilities(self) -> Floats:
        """P(x_s = 1) of each template and column, shape (k, n)."""
        return np.where(self.templates == 1, 1 - self.noise, self.noise)

    def kept(self, order: Any) -> "NoisyTemplates":
        """These components, in this order."""
        noise = self.noise if len(self.noise) == 1 else self.noise[order]
        return NoisyTemplates(self.templates[order], self.weights[order], noise)

    def order(self) -> list[int]:
        """Heaviest component first; equal weights by template bits."""
        return sorted(
            range(self.n_components), key=lambda i: (-self.weights[i], self.templates[i].tobytes())
        )

    def scores(self, *, missing: bool = False) -> Scores:
        """ln(w_i f_i(x)) as integers, each logarithm within 2^-29 nats of its true value.

        So a score is within (2n+1)·2^-28 nats. With `missing` a row is its bits followed by as many
        that say which are known, each half filled up to whole words; an unknown cell adds nothing.
        """
        right, wrong = _logs(np.stack([1 - self.noise, self.noise]))
        step = right - wrong
        deepest = self.n_features * int(step.max() - right.min()) >> fixed.LOG_BITS
        bits = min(fixed.LOG_BITS, fixed.score_bits(2 * deepest + 1600))
        if bits < fixed.LOG_BITS:
            right, step = (units >> (fixed.LOG_BITS - bits) for units in (right, step))
        log_weights = self._log_weights(deepest, bits)
        k, n = self.templates.shape
        if self.noise.shape[1] == 1 and not missing:
            const = log_weights + n * right[:, 0]
            return HammingScores(const, step[:, 0], pack(self.templates), bits)
        lost = step * self.templates  # by a 0
        if missing:
            half = 64 * words_for(n)
            coef = np.zeros((k, 2 * half), dtype=np.int64)
            coef[:, :n] = 2 * lost - step
            coef[:, half : half + n] = right - lost
            return AffineScores(log_weights, coef, bits)
        return AffineScores(log_weights + (right - lost).sum(axis=1), 2 * lost - step, bits)

    def _log_weights(self, deepest: int, bits: int) -> Ints:
        """ln w_i; a component of weight 0 is put so far below that its share is 0 for every row."""
        logs = _logs(np.where(self.weights > 0, self.weights, 1.0))
        logs >>= fixed.LOG_BITS - bits
        lowest = logs.min() - ((deepest + fixed.CUT_NATS + 2) << bits)
        found: Ints = np.where(self.weights > 0, logs, lowest)
        return found


def _logs(values: Floats) -> Ints:
    return backend(values).logs(values, fixed.tables())
