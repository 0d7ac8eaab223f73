"""Rows that arrive in pieces: a round adds up over them, then the templates move."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np

from bitmix.em.result import Round
from bitmix.em.step import Model, Statistics, expect
from bitmix.errors import InputError
from bitmix.fitted import FittedTemplates
from bitmix.rows import Rows

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, eq=False)
class OpenRound(Generic[M]):
    """The templates of a round, and what the pieces shown so far add up to."""

    mixture: M
    history: tuple[Round, ...]
    rng: np.random.Generator | None = None
    statistics: Statistics | None = None

    def shown(self, rows: Rows) -> "OpenRound[M]":
        new = expect(rows, self.mixture)
        return replace(self, statistics=new if self.statistics is None else self.statistics + new)


class ByPieces(FittedTemplates, Generic[M]):
    """`partial_fit` and `finish_round`."""

    _open: OpenRound[M] | None = None

    def partial_fit(self, X: Any, y: Any = None, *, seeds: Any = None) -> Self:
        """Show some rows to the round under way; `finish_round` ends it.

        Show every piece once a round, in any order. The outcome is that of `fit` on all rows with
        the same seeds, to the last bit.

        Parameters
        ----------
        X : rows, as `fit` takes them
        y : ignored
        seeds : rows, optional
            With the first piece: the rows to start from. By default they are drawn from that piece,
            so let it be a fair sample. A fitted model goes on from its templates.
        """
        rows = self._pieces_rows(X)
        if self._open is None:
            fresh = seeds is not None or not hasattr(self, "templates_")
            if not fresh:
                self._check_columns(X, rows, reset=False)
            self._open = self._begin(rows, seeds) if fresh else self._go_on()
            if fresh:
                self._check_columns(X, rows, reset=True)
        else:
            if seeds is not None:
                raise InputError("seeds start a fit: give them with the first piece only")
            self._check_columns(X, rows, reset=False)
        self._open = self._open.shown(rows)
        return self

    def finish_round(self) -> Self:
        """Move the templates to what the pieces of this round say."""
        if self._open is None or self._open.statistics is None:
            raise InputError("no rows were shown in this round: call partial_fit first")
        self._open = self._moved(self._open, self._open.statistics)
        return self

    @abstractmethod
    def _pieces_rows(self, X: Any) -> Rows: ...

    @abstractmethod
    def _begin(self, rows: Rows, seeds: Any) -> OpenRound[M]:
        """The first round, from seeds."""

    @abstractmethod
    def _go_on(self) -> OpenRound[M]:
        """A round from the templates of a finished fit."""

    @abstractmethod
    def _moved(self, done: OpenRound[M], statistics: Statistics) -> OpenRound[M]:
        """The next round; what is fitted by now is stored."""
