"""Integer scores ln(w_i f_i(x)) of rows: affine in the bits, a popcount where templates are binary.

Both forms agree to the last bit where both apply: with binary templates every coefficient is
±step, and const + Σ x·coef is const' - step·D(x, T).
"""

from dataclasses import dataclass, replace

from bitmix.kernels import backend
from bitmix.kernels.bits import Words
from bitmix.kernels.fixed import Ints


@dataclass(frozen=True, eq=False)
class HammingScores:
    """score_i(x) = const_i - step_i·D(x, template_i), in units of 2^-bits nats."""

    const: Ints
    step: int | Ints
    """λ = ln((1-q)/q) in units of 2^-bits nats: one, or one a template."""
    templates: Words
    bits: int

    def __call__(self, words: Words) -> Ints:
        return self.const - self.step * backend().hamming(words, self.templates)

    def scaled_down(self, halvings: int) -> "HammingScores":
        """All scores divided by 2^halvings."""
        return replace(self, const=self.const >> halvings, step=self.step >> halvings)


@dataclass(frozen=True, eq=False)
class AffineScores:
    """score_i(x) = const_i + Σ_s x_s·coef_is, in units of 2^-bits nats."""

    const: Ints
    coef: Ints
    bits: int

    def __call__(self, words: Words) -> Ints:
        return backend().affine(words, self.const, self.coef)

    def scaled_down(self, halvings: int) -> "AffineScores":
        """All scores divided by 2^halvings."""
        return replace(self, const=self.const >> halvings, coef=self.coef >> halvings)


Scores = HammingScores | AffineScores
