"""``bitmix demo``."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.options import Json, Seed
from bitmix.cli.output import print_json

WEIGHTS = (0.6, 0.4)
N_INIT, ROUNDS = 5, 10


def demo(
    rows: Annotated[int, typer.Option(min=5, help="Number of rows to sample.")] = 1000,
    noise: Annotated[
        float, typer.Option(min=0, max=0.5, help="Probability that a bit is flipped.")
    ] = 0.2,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Hide two dogs in noise and find them again.

    \b
    Examples:
      bitmix demo
      bitmix demo --noise 0.25 --rows 2000
    """
    from scipy.optimize import linear_sum_assignment

    from bitmix.datasets import sample_mixture, sketch_dogs
    from bitmix.estimators.paper import TwoRoundEM

    dogs = sketch_dogs()
    X, _ = sample_mixture(dogs, WEIGHTS, noise, rows, seed)
    start = time.perf_counter()
    model = TwoRoundEM(len(dogs), rounds=ROUNDS, n_init=N_INIT, random_state=seed).fit(X)
    seconds = time.perf_counter() - start
    distances = (model.templates_[:, None] != dogs).sum(axis=2)
    wrong_bits = distances[linear_sum_assignment(distances)]  # each template and its own dog
    if as_json:
        print_json({
            "n_components": model.n_components, "n_seeds": model.n_seeds_, "noise": model.noise_,
            "weights": model.weights_, "wrong_bits": wrong_bits, "seconds": seconds,
        })  # fmt: skip
    else:
        examples = [X[(model.predict(X) == i).argmax()] for i in range(len(model.weights_))]
        _show(model, examples, wrong_bits.tolist(), noise, rows, seconds)


def _show(
    model: Any, examples: list[Any], wrong_bits: list[int], noise: float, rows: int, seconds: float
) -> None:
    """Print an example row beside each template, and the results of the fit."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("one of its rows", "template", "weight", "wrong", show_lines=True)
    for i, template in enumerate(model.templates_):
        table.add_row(
            Text(_braille(examples[i]), "dim"),
            Text(_braille(template), "green"),
            f"{model.weights_[i]:.2f}",
            f"{wrong_bits[i]} bits",
        )
    console = Console(highlight=False)
    console.print(
        f"\n{rows:,} rows of {model.n_features_in_:,} bits: sketches of two dogs that differ in "
        f"29 bits,\nwith weights {WEIGHTS[0]:g} and {WEIGHTS[1]:g}, every bit flipped with "
        f"probability {noise:g}.\n"
    )
    console.print(table)
    wrong = sum(wrong_bits)
    verdict = f"{wrong} template bits are wrong" if wrong else "Every template is exact"
    command = sys.argv[0] if Path(sys.argv[0]).name == "bitmix" else "python -m bitmix"
    console.print(
        f"\n[bold]{verdict}[/]. This is the most likely of {N_INIT} fits of {ROUNDS} rounds,\n"
        f"each from {model.n_seeds_} random rows, in {seconds:.2f} s. The noise level, "
        f"{model.noise_:.3f}, comes from\nthe closest pair of seeds (step 2 of the paper) and is "
        "too low by construction.\n\n"
        "What to try next\n"
        f"  {command} demo --noise 0.25                         a harder task\n"
        f"  {command} fit rows.csv -k auto --report rows.html   your own table\n"
        f"  {command} --help                                    all commands\n"
    )


def _braille(bits: Any) -> str:
    """The strokes of a sketch in braille characters of 2 × 4 dots."""
    from bitmix.features import Alphabet

    dot_values = [[1, 8], [2, 16], [4, 32], [64, 128]]
    image = Alphabet().draw(bits, resolution=4)[:36, :36]
    characters = (image.reshape(9, 4, 18, 2).transpose(0, 2, 1, 3) * dot_values).sum(axis=(2, 3))
    return "\n".join("".join(chr(0x2800 + int(c)) for c in line) for line in characters)
