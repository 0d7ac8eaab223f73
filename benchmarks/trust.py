"""How honest and how useful are the certificates? Counts over many simulated fits; prints tables.

Sections: pairs (hard fits, all pairs), attack (templates to sort by from an adversary), outside (21
scenarios outside the model), grid (where a certificate is issued), least (the least separation),
bits (certified bits of real tables), simulate (the planner by simulation), million (rows). With
--quick, each is a tenth as long. Grid points are appended to a CSV file and not computed again.
"""

import argparse
import csv
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from hostile import ATTACKS, METHODS, OUTSIDE, SCENARIOS, attack, hard_fit, scenario
from scipy.optimize import linear_sum_assignment

from benchmarks.data import real_tables
from bitmix import BitMatrix, TemplateMixture, TwoRoundEM, certify_fit, theory
from bitmix.certify import bounds, heldout, verdict
from bitmix.certify.evidence import gather, matched_disagreements
from bitmix.datasets import make_templates, paper_pair, sample_mixture
from bitmix.errors import BitmixWarning
from bitmix.estimators.simulate import simulate
from bitmix.kernels import backend
from bitmix.metrics import templates_recovered
from bitmix.support.randomness import stream
from bitmix.theory.tails import noise_of_pair

GRID = Path(__file__).parent / "results" / "trust_grid.csv"
FIELDS = ("n", "m", "k", "q", "c", "runs", "recovered", "pairs_fair", "pairs_common",
          "held_out_fair", "held_out_common", "wrong", "share_certified")  # fmt: skip


def all_pairs(rows: BitMatrix, templates, votes="fair") -> bool:
    """Whether `certify_fit` is issued at α = .05, without its checks of the conditions."""
    T = BitMatrix.from_dense(templates)
    labels = backend().hamming(rows.words, T.words).argmin(axis=1)
    evidence, _ = gather(rows.words, labels, T, stream(0, "certificate"))
    return all(verdict.judge(evidence, 0.05, votes).holds(evidence))


def pairs(seed: int, shrink: int) -> None:
    fits = 2500 // shrink
    print(f"{fits:,} hard fits, α = .05, seeds from {seed}")
    counts = {method: [0, 0, 0, 0] for method in METHODS}
    for each in range(seed, seed + fits):
        rows, found, truth = hard_fit(each)
        wrong = not templates_recovered(found, truth)
        issued = all_pairs(rows, found)
        for i, happened in enumerate((True, wrong, issued, issued and wrong)):
            counts[METHODS[each % len(METHODS)]][i] += happened
    print(f"  {'templates by':<16}{'fits':>6}{'wrong':>7}{'issued':>8}{'issued and wrong':>18}")
    for method, row in [
        *counts.items(),
        ("all", [sum(c) for c in zip(*counts.values(), strict=True)]),
    ]:
        print(f"  {method:<16}{row[0]:>6}{row[1]:>7}{row[2]:>8}{row[3]:>18}")
    tables = 100 // shrink
    print(f"\nOutside the model, {tables} data sets each: a check objects / refused / neither")
    for make in OUTSIDE:
        certificates = [certify_fit(*make(each)) for each in range(seed, seed + tables)]
        objects = sum(bool(c.objections) for c in certificates)
        refused = sum(not c.issued for c in certificates)
        neither = sum(c.holds for c in certificates)
        print(f"  {make.__name__:<20}{objects:>5}{refused:>5}{neither:>5}")
    issued = 0
    for each in range(seed, seed + 500 // shrink):
        X, _ = sample_mixture(paper_pair(50, 1.0), [0.5, 0.5], 0.1, 300, each)
        issued += all_pairs(X, TwoRoundEM(2, random_state=each).fit(X).templates_)
    print(f"\nn = 50, q = .1, c = 1, m = 300: issued for {issued} of {500 // shrink} fits")


def sort_and_vote(rows: BitMatrix, given, k: int, alpha: float):
    """The ballot of a table; `given` templates take the place of learned ones."""
    n = rows.shape[1]
    matched = matched_disagreements(rows.words, n, stream(0, "certificate"))
    q_hi = noise_of_pair(bounds.upper_limit(*matched, heldout.NOISE * alpha))
    if given is None:
        return q_hi, *heldout.learn_and_sort(rows, k, alpha, q_hi, matched[1], 0)
    sorting = heldout.Sorting.of(given, len(rows), q_hi, heldout.PARTITION * alpha)
    return q_hi, sorting, heldout.count_votes(rows, sorting)


def mask_is_wrong(bits, certified, truth) -> bool:
    """Whether no true templates, each used once, have all the certified bits."""
    used = certified.any(axis=1)
    if used.sum() > len(truth):
        return True
    clash = ((bits[used][:, None] != truth[None]) & certified[used][:, None]).any(axis=2)
    rows, columns = linear_sum_assignment(clash)
    return bool(clash[rows, columns].any())


def run_attack(seed: int, shrink: int) -> None:
    sets = 12_600 // shrink
    print(f"attack on the sorting: {sets:,} data sets, seeds from {seed}")
    print(f"  {'α':>4} {'votes':<7}{'templates':<19}{'sets':>6}{'issued':>8}{'issued, wrong':>15}"
          f"{'masks':>7}{'masks wrong':>13}")  # fmt: skip
    for alpha in (0.05, 0.5):
        for votes in ("fair", "common"):
            counts = {how: np.zeros(5, dtype=int) for how in ATTACKS}
            for each in range(seed, seed + sets):
                X, given, k, truth = attack(each)
                rows = BitMatrix.from_dense(X)
                q_hi, sorting, ballot = sort_and_vote(rows, given, k, alpha)
                rate = 0.5 if votes == "fair" else q_hi
                bits, certified = heldout.winners(ballot, sorting, rate, heldout.TEMPLATES * alpha)
                certified &= q_hi < 0.5
                issued = bool(certified.all())
                wrong = issued and not templates_recovered(bits, truth)
                masked = bool(certified.any())
                off = masked and mask_is_wrong(bits, certified, truth)
                counts[ATTACKS[each % len(ATTACKS)]] += (1, issued, wrong, masked, off)
            inside = sum(row for how, row in counts.items() if how != "one too few")
            for how, row in [*counts.items(), ("all but one too few", inside)]:
                print(f"  {alpha:>4g} {votes:<7}{how:<19}{row[0]:>6}{row[1]:>8}{row[2]:>15}"
                      f"{row[3]:>7}{row[4]:>13}", flush=True)  # fmt: skip


def outside(seed: int, shrink: int) -> None:
    tables = 40 // shrink
    print(f"{tables} data sets per scenario: issued / issued, wrong / issued, wrong, no objection")
    kinds = (("all-pairs", "fair"), ("held-out", "fair"), ("held-out", "common"))
    heading = "".join(f"{f'{method} {votes}':>22}" for method, votes in kinds)
    print(f"  {'':<22}{heading}{'objects':>9}")
    for name in SCENARIOS:
        counts, objects = np.zeros((len(kinds), 3), dtype=int), 0
        for each in range(seed, seed + tables):
            X, k, truth = scenario(name, each)
            found = TemplateMixture(k, noise_model="shared", random_state=each).fit(X).templates_
            wrong = not templates_recovered(found, truth)
            for i, (method, votes) in enumerate(kinds):
                c = certify_fit(X, found, method=method, votes=votes)
                counts[i] += (c.issued, c.issued and wrong, c.holds and wrong)
            objects += bool(c.objections)
        shown = "".join(f"{' / '.join(map(str, row)):>22}" for row in counts)
        print(f"  {name:<22}{shown}{objects:>9}", flush=True)


def grid_points():
    return [
        (n, m, k, q, c)
        for m in (100, 300, 1000, 10_000)
        for n in (50, 200, 1000, 2000)
        for k in (2, 5, 10)
        for q in (0.05, 0.1, 0.2)
        for c in (0.02, 0.05, 0.1, 0.3)
    ]


def one_run(n, m, k, q, c, seed):
    """Recovered; issued by all pairs and held-out with both votes; any wrong; share of bits."""
    d = max(1, int(c * n))
    try:
        truth = make_templates(k, n, separation=d / n, random_state=seed)
    except ValueError:
        return None
    X, _ = sample_mixture(truth, np.full(k, 1 / k), q, m, seed)
    model = TemplateMixture(k, noise_model="shared", random_state=seed).fit(X)
    if not templates_recovered(model.templates_, truth):
        return [0, 0, 0, 0, 0, 0, 0.0]
    T = BitMatrix.from_dense(truth)
    labels = backend().hamming(X.words, T.words).argmin(axis=1)
    evidence, _ = gather(X.words, labels, T, stream(0, "certificate"))
    by_pairs = [all(verdict.judge(evidence, 0.05, votes).holds(evidence)) for votes in VOTES]
    matched = evidence.disagreements, evidence.compared
    q_hi = noise_of_pair(bounds.upper_limit(*matched, heldout.NOISE * 0.05))
    sorting, ballot = heldout.learn_and_sort(X, k, 0.05, q_hi, matched[1], 0)
    wrong, issued, share = 0, [], 0.0
    for rate in (0.5, q_hi):
        bits, certified = heldout.winners(ballot, sorting, rate, heldout.TEMPLATES * 0.05)
        right = templates_recovered(bits, truth)
        issued.append(bool(certified.all() and right))
        wrong += certified.all() and not right
        share = float(certified.mean())
    return [1, *by_pairs, *issued, wrong, share]


VOTES = ("fair", "common")


def grid(seed: int, shrink: int) -> None:
    done = set()
    if GRID.exists():
        with GRID.open() as file:
            done = {tuple(float(row[f]) for f in FIELDS[:5]) for row in csv.DictReader(file)}
    else:
        GRID.write_text(",".join(FIELDS) + "\n")
    for point in grid_points()[::shrink]:
        if tuple(map(float, point)) in done:
            continue
        runs = []
        few = 2 if point[1] == 10_000 else 4
        for each in range(12):
            run = one_run(*point, seed + each)
            if run is None:
                break
            runs.append(run)
            alike = np.ptp(np.array(runs)[:, :5], axis=0).max() == 0
            if len(runs) >= few and alike:
                break
        if runs:
            total = np.sum(runs, axis=0)
            with GRID.open("a") as file:
                numbers = [len(runs), *(int(x) for x in total[:6]), round(total[6] / len(runs), 4)]
                csv.writer(file, lineterminator="\n").writerow([*point, *numbers])
    show_grid()


def show_grid() -> None:
    with GRID.open() as file:
        rows = [{f: float(row[f]) for f in FIELDS} for row in csv.DictReader(file)]
    print(f"{len(rows)} points of the grid, 2 to 12 runs each: in at least 95 % of runs")
    print(f"  {'':<18}{'all':>6}" + "".join(f"{f'm {m:,}':>10}" for m in (100, 300, 1000, 10_000)))
    for name in FIELDS[6:11]:
        good = [row for row in rows if row[name] >= 0.95 * row["runs"]]
        parts = "".join(
            f"{sum(row['m'] == m for row in good):>10}" for m in (100, 300, 1000, 10_000)
        )
        print(f"  {name:<18}{len(good):>6}{parts}")
    print(f"  certificates of wrong templates: {sum(row['wrong'] for row in rows):.0f}")


def draw(path: Path) -> None:
    """Where templates are recovered, and where that can be certified, at q = .1."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    from bitmix.plots import saved_figure

    with GRID.open() as file:
        rows = [{f: float(row[f]) for f in FIELDS} for row in csv.DictReader(file)]
    kinds = ("nothing", "recovered", "held out, common noise", "held out, fair coins", "all pairs")
    colours = ("#ffffff", "#d9d9d9", "#9ecae1", "#3182bd", "#08306b")
    sizes, separations = (50, 200, 1000, 2000), (0.02, 0.05, 0.1, 0.3)
    with saved_figure(path, (8.5, 6.6)) as figure:
        axes = figure.subplots(3, 4, sharex=True, sharey=True)
        for i, k in enumerate((2, 5, 10)):
            for j, m in enumerate((100, 300, 1000, 10_000)):
                level = np.zeros((4, 4))
                for row in rows:
                    if (row["k"], row["m"], row["q"]) != (k, m, 0.1):
                        continue
                    names = ("recovered", "held_out_common", "held_out_fair", "pairs_fair")
                    good = [row[name] >= 0.95 * row["runs"] for name in names]
                    at = separations.index(row["c"]), sizes.index(int(row["n"]))
                    level[at] = max(g * (r + 1) for r, g in enumerate(good))
                ax = axes[i, j]
                ax.pcolormesh(level, cmap=ListedColormap(colours), vmin=-0.5, vmax=4.5,
                              edgecolors="#777777", linewidth=0.5)  # fmt: skip
                ax.set_xticks(np.arange(4) + 0.5, [f"{n:,}" for n in sizes])
                ax.set_yticks(np.arange(4) + 0.5, [f"{c:g}" for c in separations])
                ax.set_title(f"k = {k}, m = {m:,}", fontsize="medium")
        figure.supxlabel("n, columns")
        figure.supylabel("c, the share of columns in which the closest templates differ")
        squares = [Patch(facecolor=colour, edgecolor="#777777") for colour in colours]
        figure.legend(squares, kinds, loc="outside upper center", ncols=5, frameon=False)


def pair(k: int, n: int, d: int, seed: int):
    if k == 2:
        return paper_pair(n, d / n)
    return make_templates(k, n, separation=d / n, random_state=seed)


def least(seed: int, shrink: int) -> None:
    runs = 20 // shrink
    print(f"least d for which {runs - runs // 20} of {runs} are issued: common-q votes, fair coins")
    for n, m, k, q, start in ((1000, 2000, 2, 0.1, 5), (1000, 1000, 10, 0.1, 12)):
        found = {}
        for d in range(start, start + 12):
            issued = np.zeros(2, dtype=int)
            for each in range(seed, seed + runs):
                truth = pair(k, n, d, each)
                X, _ = sample_mixture(truth, np.full(k, 1 / k), q, m, each)
                q_hi, sorting, ballot = sort_and_vote(X, None, k, 0.05)
                for i, rate in enumerate((q_hi, 0.5)):
                    bits, certified = heldout.winners(
                        ballot, sorting, rate, heldout.TEMPLATES * 0.05
                    )
                    issued[i] += certified.all() and templates_recovered(bits, truth)
            for i in range(2):
                if issued[i] >= runs - runs // 20:
                    found.setdefault(i, d)
            if len(found) == 2:
                break
        none = f"none up to {start + 11}"
        print(
            f"  n = {n:,}, m = {m:,}, k = {k}, q = {q:g}: {found.get(0, none)}, "
            f"{found.get(1, none)}",
            flush=True,
        )


def bits(seed: int, shrink: int) -> None:
    draws = 300 // shrink
    print(f"certified bits, half of the rows held out; {draws} resamplings of the table, α = .05")
    for each in real_tables():
        name, table, k, m = each.name, each.X, each.k, len(each.X)
        order = np.random.default_rng(seed).permutation(m)
        model = TemplateMixture(k, noise_model="cell", random_state=0).fit(table[order[: m // 2]])
        shares = [
            model.certified_bits(table[order[m // 2 :]], share=share).certified
            for share in (0.5, 0.7)
        ]
        labels = model.predict(table)  # the table is the population
        truth = np.array([table[labels == i].mean(axis=0) if (labels == i).any() else
                          np.full(table.shape[1], np.nan) for i in range(k)])  # fmt: skip
        wrong = {0.05: 0, 0.5: 0}
        for number in range(draws):
            drawn = np.random.default_rng([seed, number]).integers(m, size=m // 2)
            for alpha in wrong:
                found = model.certified_bits(table[drawn], alpha=alpha)
                right = np.where(found.bits == 1, truth, 1 - truth) > 0.5
                wrong[alpha] += bool((found.mask & ~right).any())
        print(f"  {name:<14}{m:>6} × {table.shape[1]:<6} k {k:<3} certified {shares[0]:.3f}, "
              f"beyond 70 % {shares[1]:.3f}; any wrong: {wrong[0.05]} of {draws}, "
              f"at α = .5: {wrong[0.5]}", flush=True)  # fmt: skip
    wrong = {0.05: 0, 0.5: 0}
    for each in range(draws):  # coins near ½ are the hardest
        rng = np.random.default_rng([seed, each, 1])
        rates = np.where(rng.random(200) < 0.5, 0.48, 0.52)
        model = TemplateMixture(1, noise_model="cell", random_state=0)
        model.fit((rng.random((50, 200)) < rates).astype(np.uint8))
        test = (rng.random((400, 200)) < rates).astype(np.uint8)
        for alpha in wrong:
            found = model.certified_bits(test, alpha=alpha)
            wrong[alpha] += bool((found.mask & ((rates > 0.5) != (found.bits == 1))).any())
    print(f"  coins of .48 and .52: any wrong {wrong[0.05]} of {draws}, at α = .5: {wrong[0.5]}")


def simulation(seed: int, shrink: int) -> None:
    print("least n by simulation, TwoRoundEM(2), m = 300, c = 1")
    for q in (0.1, 0.2):
        start = time.perf_counter()
        plan = theory.plan("n", q=q, m=300, method="simulate")
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        print(f"  q = {q:g}: {plan.value} in {seconds:.1f} s; "
              f"{simulate(plan.value, 300, 2, q, plan.value, [0.5, 0.5])}")  # fmt: skip
        print(f"  that point: {time.perf_counter() - start:.2f} s")


def million(seed: int, shrink: int) -> None:
    m = 1_000_000 // shrink
    truth = make_templates(5, 256, separation=0.3, random_state=seed)
    X, _ = sample_mixture(truth, np.full(5, 0.2), 0.1, m, seed)
    certify_fit(X[:1000], truth, method="held-out")  # compiles
    start = time.perf_counter()
    issued = certify_fit(X, truth, method="held-out").issued
    print(f"{m:,} rows, 256 columns, k = 5: issued {issued}, {time.perf_counter() - start:.1f} s")


SECTIONS = {"pairs": pairs, "attack": run_attack, "outside": outside, "grid": grid, "least": least,
            "bits": bits, "simulate": simulation, "million": million}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--plot", type=Path, help="draw the grid into this file (.png, .svg)")
    args = parser.parse_args()
    warnings.simplefilter("ignore", BitmixWarning)
    for name in args.sections or SECTIONS:
        start = time.perf_counter()
        SECTIONS[name](args.seed, 10 if args.quick else 1)
        print(f"{name}: {time.perf_counter() - start:.0f} s\n", flush=True)
    if args.plot is not None:
        draw(args.plot)


if __name__ == "__main__":
    main()
