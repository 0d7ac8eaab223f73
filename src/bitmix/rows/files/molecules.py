"""Molecules as SMILES, which RDKit turns into Morgan fingerprints."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bitmix.errors import InputError, SkippedWarning
from bitmix.kernels.bits import Words
from bitmix.rows.codes import Codes, Fingerprint
from bitmix.rows.convert import octets_to_words
from bitmix.rows.files.lines import Lines, split
from bitmix.rows.files.request import ColumnFinder, Request, Roles
from bitmix.rows.files.table import Chunk, Parts, Table
from bitmix.support.extras import advice

_ROWS = 1000  # molecules that are in memory at once


def open_smi(path: Path, request: Request) -> Table:
    """A file of one molecule per line, with its name after a blank or a tab."""
    request.refuse(
        path, "a file of molecules", ("columns", "codes", "fingerprint", "encoding", "skip_errors")
    )
    fingerprint = _fingerprint(request, path)
    names = (*map(str, range(fingerprint.bits)), "id")
    roles = Roles(range(fingerprint.bits), None, fingerprint.bits, all_names=names)
    generator = Generator(path, fingerprint, request.skip_errors)

    def parts() -> Parts:
        line = 1
        for block, fraction in Lines(path, request.encoding).blocks():
            lines = [text.decode(errors="replace").split(None, 1) for text in split(block)]
            cells = [(*text, "", "")[:2] for text in lines]
            smiles = [text for text, _ in cells]
            ids = [name.strip() or text for text, name in cells]
            for chunk in generator.chunks(smiles, line, ids, {}):
                yield chunk, fraction
            line += len(lines)
        generator.note_skipped()

    return Table(path, path.stat().st_size, roles, parts, Codes(fingerprint=fingerprint))


def smiles_table(reader: Any, request: Request) -> Table:
    """A text table with a column of molecules."""
    path, header = reader.path, reader.header
    request.refuse(
        path, "a table of molecules",
        ("columns", "codes", "fingerprint", "smiles_column", "id_column", "label_column", "sep",
         "header", "encoding", "skip_errors"),
    )  # fmt: skip
    fingerprint = _fingerprint(request, path)
    columns = ColumnFinder(header.names, header.n_cells, str(path))
    column = columns.find(request.smiles_column or 0, "smiles_column")
    id_ = column  # molecules without names are their own
    if request.id_column is not None:
        id_ = columns.find(request.id_column, "id_column")
    labels = tuple(columns.choose(request.label_column, "label_column"))
    read = replace(reader, roles=Roles((column,), None, id_, labels, all_names=header.names))
    generator = Generator(path, fingerprint, request.skip_errors)

    def parts() -> Parts:
        line = 1 if header.names is None else 2
        for part, fraction in read.parts():
            (texts,), (ids, *label_texts) = part.texts(), part.others()
            known = dict(zip(read.roles.label_names, label_texts, strict=True))
            for chunk in generator.chunks(texts, line, ids, known):
                yield chunk, fraction
            line += len(texts)
        generator.note_skipped()

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
    if of_model is not None and request.fingerprint not in (None, of_model):
        raise InputError(
            f"{path} is to be read with fingerprint={request.fingerprint}, but the model was "
            f"fitted on {of_model}: leave it out"
        )
    return request.fingerprint or of_model or Fingerprint()


class Generator:
    """Turns SMILES into packed fingerprints."""

    def __init__(self, path: Path, fingerprint: Fingerprint, skip_errors: bool) -> None:
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
        self._path, self._skip_errors = path, skip_errors
        self._width = -(-fingerprint.bits // 8)
        self._skipped: list[str] = []

    def chunks(
        self, smiles: Sequence[str], line: int, ids: Sequence[str],
        labels: Mapping[str, Sequence[str]],
    ) -> Iterator[Chunk]:  # fmt: skip
        """The molecules that can be read, `_ROWS` at a time; the first is on this line."""
        for start in range(0, len(smiles), _ROWS):
            words, used = self.words(smiles[start : start + _ROWS], line + start)
            numbers = [start + i for i in used]
            known = {name: [texts[i] for i in numbers] for name, texts in labels.items()}
            names, molecules = ([texts[i] for i in numbers] for texts in (ids, smiles))
            if numbers:
                yield Chunk(words, None, names, known, smiles=molecules)

    def words(self, smiles: Sequence[str], line: int) -> tuple[Words, list[int]]:
        """The packed fingerprints of molecules, the first of which is on this line, and which of
        the molecules these are.
        """
        block = import_module("rdkit.rdBase").BlockLogs()  # errors are ours to report
        molecules: dict[int, Any] = {}
        for i, text in enumerate(smiles):
            molecule = self._chem.MolFromSmiles(text) if text else None
            if molecule is not None:
                molecules[i] = molecule
                continue
            where = f"{text[:60]!r} at line {line + i:,}"
            if not self._skip_errors:
                raise InputError(
                    f"{self._path} must hold molecules that RDKit reads, got {where}: correct or "
                    "remove it, or set skip_errors=True"
                )
            self._skipped.append(where)
        del block
        prints = self._generator.GetFingerprints(list(molecules.values()))
        octets = b"".join(map(self._as_octets, prints))
        packed = np.frombuffer(octets, dtype=np.uint8).reshape(len(molecules), self._width)
        return octets_to_words(packed), list(molecules)

    def note_skipped(self) -> None:
        """Warn about the molecules that were left out."""
        if self._skipped:
            n = len(self._skipped)
            warnings.warn(
                f"{self._path}: {n:,} {'molecule' if n == 1 else 'molecules'} that RDKit cannot "
                f"read {'was' if n == 1 else 'were'} left out, the first {self._skipped[0]}",
                SkippedWarning,
                stacklevel=2,
            )
            self._skipped.clear()
