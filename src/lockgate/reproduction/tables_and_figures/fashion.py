"""Beyond the paper: every method on Fashion-MNIST, which came after the recipe.

MNIST, SVHN and digits were looked at while the recipe was made, though not their test images. What is good there may
have been fitted to them; what it is worth on other images of that size is read here. Since version 8 of
``ccgn-episodic`` its training images have had a say as well (docs/trials.md, "Who answers"). A fifth of the images, so
that a run takes minutes.
"""

from __future__ import annotations

from lockgate.reproduction.paper_table import PaperTable
from lockgate.reproduction.tables_and_figures.every_method import EveryMethod

FASHION = EveryMethod("fashion_mnist", stored=500, scenario={"per_class": 1200}, generators=False)
TABLE = PaperTable(
    "fashion",
    "Every method on Fashion-MNIST",
    "Beyond the paper",
    FASHION.lines,
    seeds=3,
    ranked=False,
)
