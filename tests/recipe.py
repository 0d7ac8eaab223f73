"""Read and render the conda recipe as rattler-build does: ``make check-recipe`` runs this."""

import sys
from pathlib import Path

from rattler_build import Stage0Recipe, VariantConfig

rendered = Stage0Recipe.from_file(str(Path(__file__).parents[1] / "recipe" / "recipe.yaml")).render(
    VariantConfig()
)
for one in rendered:
    print(one.recipe.package.name, one.recipe.package.version)
sys.exit(len(rendered) != 1)
