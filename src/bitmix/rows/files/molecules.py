"""Molecules as SMILES, which RDKit turns into Morgan fingerprints."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bitmix.errors import InputError
from bitmix.kernels.bits import Words
from bitmix.rows.codes import Codes, Fingerprint
from bitmix.rows.convert import octets_to_words
from bitmix.rows.files.lines import Lines, split
from bitmix.rows.files.request import Request, Roles, choose, find
from bitmix.rows.files.table import Chunk, Parts, Table
from bitmix.support.extras import advice

_ROWS = 1000  # molecules that are in memory at once


def open_smi(path: Path, request: Request) -> Table:
    """A file of one molecule per line, with its name after a blank or a tab."""
    request.refuse(path, "a file of molecules", ("columns", "codes", "fingerprint", "encoding"))
    fingerprint = _fingerprint(request, path)
    names = (*map(str, range(fingerprint.bits)), "id")
    roles = Roles(range(fingerprint.bits), None, fingerprint.bits, all_names=names)
    generator = _Generator(path, fingerprint)

    def parts() -> Parts:
        line = 1
        for block, fraction in Lines(path, request.encoding).blocks():
            lines = [text.decode(errors="replace").split(None, 1) for text in split(block)]
            cells = [(text[0] if text else "", text[1] if len(text) > 1 else "") for text in lines]
            for start in range(0, len(cells), _ROWS):
                smiles, ids = zip(*cells[start : start + _ROWS], strict=True)
                words = generator.words(smiles, line + start)
                yield Chunk(words, None, [name.strip() for name in ids]), fraction
            line += len(cells)

    return Table(path, path.stat().st_size, roles, parts, Codes(fingerprint=fingerprint))


def smiles_table(reader: Any, request: Request) -> Table:
    """A text table with a column of molecules."""
    path, header = reader.path, reader.header
    request.refuse(
        path, "a table of molecules",
        ("columns", "codes", "fingerprint", "smiles_column", "id_column", "label_column", "sep",
         "header", "encoding"),
    )  # fmt: skip
    fingerprint = _fingerprint(request, path)
    where = (header.names, header.n_cells, str(path))
    column = find(request.smiles_column or 0, *where, "smiles_column")
    id_ = None if request.id_column is None else find(request.id_column, *where, "id_column")
    labels = tuple(choose(request.label_column, *where, "label_column"))
    read = replace(reader, roles=Roles((column,), None, id_, labels, all_names=header.names))
    generator = _Generator(path, fingerprint)

    def parts() -> Parts:
        line = 1 if header.names is None else 2
        for part, fraction in read.parts():
            (smiles,), others = part.texts(), list(part.others())
            words = np.concatenate([
                generator.words(smiles[start : start + _ROWS], line + start)
                for start in range(0, len(smiles), _ROWS)
            ])  # fmt: skip
            line += len(smiles)
            ids = others.pop(0) if id_ is not None else None
            texts = dict(zip(read.roles.label_names, others, strict=True))
            yield Chunk(words, None, ids, texts), fraction

    used = {column, id_, *labels}
    left_out = {read.roles.name(i): "not asked for" for i in range(header.n_cells) if i not in used}
    roles = replace(read.roles, features=range(fingerprint.bits), left_out=left_out)
    size = reader.lines.size
    return Table(path, size, roles, parts, Codes(fingerprint=fingerprint))


def _fingerprint(request: Request, path: Path) -> Fingerprint:
    """The fingerprint that the user asks for, or that of the model."""
    of_model = None if request.codes is None else request.codes.fingerprint
    if request.codes is not None and of_model is None:
        raise InputError(f"{path} holds molecules, but the model was not fitted on molecules")
    return request.fingerprint or of_model or Fingerprint()


class _Generator:
    """Turns SMILES into packed fingerprints."""

    def __init__(self, path: Path, fingerprint: Fingerprint) -> None:
        try:
            self._chem = import_module("rdkit.Chem")
            generators = import_module("rdkit.Chem.rdFingerprintGenerator")
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                f"{advice('rdkit', str(path))}, or make an .fps file of it", name="rdkit"
            ) from None
        self._as_octets = import_module("rdkit.DataStructs").BitVectToBinaryText
        self._generator = generators.GetMorganGenerator(
            radius=fingerprint.radius, fpSize=fingerprint.bits
        )
        self._path = path

    def words(self, smiles: Sequence[str], line: int) -> Words:
        """The packed fingerprints of molecules, the first of which is on this line."""
        prints = self._generator.GetFingerprints(list(self._molecules(smiles, line)))
        octets = b"".join(map(self._as_octets, prints))
        return octets_to_words(np.frombuffer(octets, dtype=np.uint8).reshape(len(smiles), -1))

    def _molecules(self, smiles: Sequence[str], line: int) -> Iterator[Any]:
        block = import_module("rdkit.rdBase").BlockLogs()  # errors are ours to report
        for number, text in enumerate(smiles, line):
            molecule = self._chem.MolFromSmiles(text) if text else None
            if molecule is None:
                raise InputError(
                    f"{self._path} must hold molecules that RDKit reads, got {text[:60]!r} at line "
                    f"{number:,}: correct or remove it"
                )
            yield molecule
        del block
