"""How honest are the certificates? Counts over many simulated fits; prints tables."""

import argparse
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from hostile import METHODS, OUTSIDE, hard_fit

from bitmix import TwoRoundEM, certify_fit
from bitmix.datasets import paper_pair, sample_mixture
from bitmix.errors import BitmixWarning
from bitmix.metrics import templates_recovered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=10_000)
    args = parser.parse_args()
    warnings.simplefilter("ignore", BitmixWarning)
    start = time.perf_counter()

    print(f"{args.fits:,} hard fits, α = .05, seeds from {args.seed}")
    counts = {method: [0, 0, 0, 0] for method in METHODS}
    for seed in range(args.seed, args.seed + args.fits):
        rows, found, truth = hard_fit(seed)
        wrong = not templates_recovered(found, truth)
        issued = certify_fit(rows, found).issued
        for i, happened in enumerate((True, wrong, issued, issued and wrong)):
            counts[METHODS[seed % len(METHODS)]][i] += happened
    print(f"  {'templates by':<16}{'fits':>6}{'wrong':>7}{'issued':>8}{'issued and wrong':>18}")
    for method, row in [
        *counts.items(),
        ("all", [sum(c) for c in zip(*counts.values(), strict=True)]),
    ]:
        print(f"  {method:<16}{row[0]:>6}{row[1]:>7}{row[2]:>8}{row[3]:>18}")

    print("\nOutside the model, 100 data sets each: a check objects / refused / neither")
    for make in OUTSIDE:
        certificates = [certify_fit(*make(seed)) for seed in range(args.seed, args.seed + 100)]
        objects = sum(bool(c.objections) for c in certificates)
        refused = sum(not c.issued for c in certificates)
        neither = sum(c.issued and not c.objections for c in certificates)
        print(f"  {make.__name__:<20}{objects:>5}{refused:>5}{neither:>5}")

    issued = 0
    for seed in range(args.seed, args.seed + 500):
        X, _ = sample_mixture(paper_pair(50, 1.0), [0.5, 0.5], 0.1, 300, seed)
        issued += TwoRoundEM(2, random_state=seed).fit(X).certify(X).issued
    print(f"\nn = 50, q = .1, c = 1, m = 300: issued for {issued} of 500 fits")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
