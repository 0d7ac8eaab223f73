"""Read and render the conda recipe as rattler-build does: ``make check-recipe`` runs this."""

import sys
from pathlib import Path


def main() -> int:
    from rattler_build import Stage0Recipe, VariantConfig

    path = Path(__file__).parents[1] / "recipe" / "recipe.yaml"
    rendered = Stage0Recipe.from_file(str(path)).render(VariantConfig())
    for one in rendered:
        print(one.recipe.package.name, one.recipe.package.version)
    return int(len(rendered) != 1)


if __name__ == "__main__":
    sys.exit(main())
