"""Draw groups.png, the picture of the README and the first page: python docs/pictures/groups.py.

Above, ten groups of scikit-learn's handwritten digits by their mean images; below, six groups of
1,350 molecules by their representatives, which RDKit draws (the extra `chem`).
"""

import itertools
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from rdkit.Chem import Draw, MolFromSmiles
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from sklearn.datasets import load_digits

from bitmix import TemplateMixture

SCAFFOLDS = [
    "O=C1CN=C(c2ccc({a})cc2)c2cc({b})ccc2N1", "Nc1ccc(S(=O)(=O)Nc2ncc({a})cc2{b})cc1",
    "O=C1NC(=O)NC(=O)C1({a}){b}", "CNC(C)Cc1ccc({a})c({b})c1",
    "O=C(O)c1cn({a})c2cc({b})c(F)cc2c1=O", "Cn1c(=O)n({a})c2ncn({b})c2c1=O",
]  # fmt: skip
GROUPS = "C CC CCC C(C)C CCCC C1CC1 CC=C CCO COC CC#N CCCl CC(F)(F)F c1ccccc1 Cc1ccccc1 CC(C)C"

digits = TemplateMixture(10, noise_model="cell", random_state=0).fit(load_digits().data > 7)
make = GetMorganGenerator(radius=2, fpSize=2048)
pairs = list(itertools.product(GROUPS.split(), repeat=2))
smiles = [form.format(a=a, b=b) for form in SCAFFOLDS for a, b in pairs]
X = np.array([make.GetFingerprintAsNumPy(MolFromSmiles(each)) for each in smiles])
molecules = TemplateMixture(6, noise_model="cell", random_state=0).fit(X)
medoids = molecules.medoids(X)

figure = plt.figure(figsize=(9, 3), layout="constrained", dpi=150)
above, below = figure.subfigures(2, 1, height_ratios=(1, 1.35))
for ax, mean, weight in zip(above.subplots(1, 10), digits.means_, digits.weights_, strict=True):
    ax.imshow(mean.reshape(8, 8), cmap="Greys", vmin=0, vmax=1)
    ax.set_title(f"{weight:.0%}", fontsize=9)
for ax, row, size in zip(below.subplots(1, 6), medoids.rows, medoids.sizes, strict=True):
    ax.imshow(Draw.MolToImage(MolFromSmiles(smiles[row]), size=(420, 360)))
    ax.set_title(f"{size:.0f} molecules", fontsize=9)
for ax in figure.axes:
    ax.set_axis_off()
figure.savefig(Path(__file__).with_suffix(".png"))
