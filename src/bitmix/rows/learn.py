"""Learning codes from the distinct values of each column. What could be read in two ways is an
error that names both.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bitmix.errors import InputError
from bitmix.rows.cells import TOO_MANY, Seen, Vocabulary, as_number, text_of
from bitmix.rows.codes import PAIRS, PLAIN, Binary, Code, Codes, Item, shown

MAX_ITEM_VALUES = 20
ONE_TWO = Binary(("2",), ("1",))
_PLAIN_WORDS = {*PLAIN.ones, *PLAIN.zeros}
_WORDS_FOR_MISSING = {".", "?", "*", "-", "--", "n/a", "#n/a", "n.a.", "missing"}
_REPEATED_DIGIT = re.compile(r"([789])\1+")
_COUNT_NAMES = {"n", "count", "counts", "freq", "frequency", "weight", "weights", "wt", "w"}
_SMILES = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9@+\-\[\]()=#$:/\\.%*]{6,}")


class Unreadable(Exception):
    """A column that cannot be read: one of its values, if it has few, and what to do."""

    def __init__(self, column: int, value: str | None, advice: str) -> None:
        super().__init__(column, value, advice)
        self.column, self.value, self.advice = column, value, advice


@dataclass(frozen=True)
class Wishes:
    """What the user says about the values of a table."""

    ones: tuple[str, ...] = ()
    """Values that are 1 in every column that has one of them; other values are 0 there."""
    items: tuple[str | int, ...] = ()
    """Columns whose values are those of an item, by name or number."""
    missing: tuple[str, ...] = ()
    filled: bool = False
    above: float | None = None

    @classmethod
    def of(cls, one_values: Any, items: Sequence[str | int]) -> "Wishes":
        """Wishes from the parameters of `fit`."""
        return cls(_values(() if one_values is None else one_values), items=tuple(items))

    @property
    def codes(self) -> Codes:
        """Codes without columns, which read the values of cells as the user says."""
        return Codes(missing=self.missing, filled=self.filled, above=self.above)


NO_WISHES = Wishes()
"""A table of 0 and 1 is read as it is; the codes of any other are learned."""


@dataclass(frozen=True)
class Advice:
    """What to do about a column, in the words of those who read a file or who have a table."""

    names: Sequence[str] | None
    for_file: bool

    def name(self, column: int) -> str:
        return repr(column if self.names is None else self.names[column])

    def drop(self, column: int) -> str:
        return f"set drop={self.name(column)}" if self.for_file else "leave the column out"

    def items(self, column: int) -> str:
        name = self.name(column) if self.for_file else f"[{self.name(column)}]"
        return f"set items={name} if these are the answers to an item"

    def ones(self, value: str) -> str:
        return f"set one_values={value!r} if {value!r} is 1 and all else 0"

    def missing(self, value: str) -> str:
        rule = f"set missing={value!r}" if self.for_file else f"replace {value!r} by NaN"
        return f"{rule} if it stands for a missing cell"

    def is_count(self, column: int) -> bool:
        """Whether the name of a column of a file says that it counts rows."""
        return (
            self.for_file and self.names is not None and self.names[column].lower() in _COUNT_NAMES
        )

    def many(self, column: int, example: str) -> str:
        """What to do about a column with many values, of which one is `example`."""
        name, drop = self.name(column), self.drop(column)
        threshold = "set binarize=0 or another threshold to read numbers above it as 1"
        if not self.for_file:
            return f"{drop}, or {threshold}"
        weight = f"set weight_column={name} if each row stands for so many"
        names_rows = f"set id_column={name} if it names the rows"
        if self.is_count(column):
            return f"{weight}, or {drop}"
        if as_number(example) is not None:
            return f"{drop}, {names_rows}, {weight}, or {threshold}"
        if _SMILES.fullmatch(example) and re.search(r"[CNOcno]", example):
            return f"set smiles_column={name} if these are molecules, {names_rows}, or {drop}"
        return f"{names_rows}, set label_column={name} if these are known classes, or {drop}"


def learn(
    seen: Seen, vocabulary: Vocabulary, wishes: Wishes, advice: Advice,
    categories: Collection[int] = (),
) -> tuple[Codes | None, bool]:  # fmt: skip
    """The codes of a table, None if it is one of 0 and 1; and whether the user left some open.

    Raises `Unreadable`. `categories` are columns whose type says that their values are categories,
    even numbers.
    """
    values = [_sorted(vocabulary.texts[i] for i in found if i != TOO_MANY) for found in seen.values]
    many = [TOO_MANY in found for found in seen.values]
    columns, guessed = _Table(values, many, set(categories), wishes, advice).codes()
    codes = wishes.codes
    if codes == Codes() and all(code == PLAIN for code in columns):
        return None, False
    names = None if advice.names is None else tuple(advice.names)
    return replace(codes, columns=tuple(columns), names=names), bool(guessed)


@dataclass(frozen=True)
class _Table:
    """The values of each column, and the rules by which they become codes."""

    values: list[tuple[str, ...]]
    many: list[bool]
    categories: set[int]
    wishes: Wishes
    advice: Advice

    def codes(self) -> tuple[list[Code], set[int]]:
        """The code of every column, and the columns whose codes the user did not state."""
        items = {self._column(each) for each in self.wishes.items}
        codes: list[Code | None] = [None] * len(self.values)
        for column, code in self._listed().items():
            codes[column] = code
        for column in items:
            codes[column] = self._item(column, named=True)
        guessed = {column for column, code in enumerate(codes) if code is None}
        for column in sorted(guessed):
            codes[column] = self._own(column, codes)
        self._check_one_and_two(codes, guessed)
        complete = [
            self._constant(column, codes) if code is None else code
            for column, code in enumerate(codes)
        ]
        return complete, {column for column in guessed if complete[column] != PLAIN}

    def _column(self, which: str | int) -> int:
        """The number of a column that the user names."""
        names = self.advice.names
        if isinstance(which, str) and names is not None and which in names:
            return list(names).index(which)
        if isinstance(which, int) and 0 <= which < len(self.values):
            return which
        known = f"0 … {len(self.values) - 1}" if names is None else shown(names)
        raise InputError(f"items names the column {which!r}, which is not among {known}")

    def _given_ones(self) -> dict[int, tuple[str, ...]]:
        """The values that are 1, of each column that has a listed one."""
        listed = set(self.wishes.ones)
        hits = {i: listed & set(texts) for i, texts in enumerate(self.values)}
        hits = {column: hit for column, hit in hits.items() if hit}
        if listed and not hits:
            raise InputError(
                f"one_values={','.join(self.wishes.ones)!r} lists values that no column has: name "
                "values of the table"
            )
        given = {}
        for column, hit in hits.items():  # columns of one scale have the same ones
            scale = set().union(*(other for other in hits.values() if other & hit))
            given[column] = tuple(value for value in self.wishes.ones if value in scale)
        return given

    def _listed(self) -> dict[int, Code]:
        """Columns in which listed values are 1 and all others 0; alike if they list the same."""
        given = self._given_ones()
        zeros: dict[tuple[str, ...], set[str]] = {}
        for column, ones in given.items():
            if self.many[column]:
                raise Unreadable(column, None, "")
            others = [value for value in self.values[column] if value not in ones]
            self._refuse_missing(column, others)
            zeros.setdefault(ones, set()).update(others)
        codes = {ones: Binary(ones, _sorted(others)) for ones, others in zeros.items()}
        return {
            column: PLAIN if {*ones, *codes[ones].zeros} <= {"0", *PLAIN.ones} else codes[ones]
            for column, ones in given.items()
        }

    def _item(self, column: int, *, named: bool) -> Code:
        """A column with several values, each of which gets bits of its own."""
        texts = self.values[column]
        if self.many[column] or len(texts) > MAX_ITEM_VALUES:
            raise Unreadable(
                column, texts[-1] if named and texts else None,
                f"an item has at most {MAX_ITEM_VALUES} values, column {self.advice.name(column)} "
                f"has {'more than ' * self.many[column]}{len(texts):,}" if named else "",
            )  # fmt: skip
        self._refuse_missing(column, texts)
        self._refuse_other_case(column, texts)
        if len(texts) < 2:
            raise InputError(
                f"an item must have at least two values, column {self.advice.name(column)} has "
                f"{shown(texts, quote=True) or 'none'}: {self.advice.drop(column)}"
            )
        if len(texts) == 2:
            return PLAIN if set(texts) <= _PLAIN_WORDS else Binary(texts[1:], texts[:1])
        return Item(texts)

    def _own(self, column: int, codes: Sequence[Code | None]) -> Code | None:
        """The code of a column by its own values; None if that depends on other columns."""
        texts = self.values[column]
        if self.many[column]:
            raise Unreadable(column, None, "")
        low = {text.lower() for text in texts}
        if low != {"1"} and low <= _PLAIN_WORDS:
            return PLAIN
        if low <= {"1", "2"}:
            return ONE_TWO if len(low) == 2 else None
        for pair in PAIRS:
            if low <= {*pair} and low != {"-"}:
                return Binary(pair[1:], pair[:1])
        if zeros := self._zeros_of_listed(texts, codes):
            return zeros
        if len(texts) == 1:
            return None
        self._refuse_missing(column, texts)
        numbers = [as_number(text) is not None for text in texts]
        if any(numbers) and column not in self.categories:
            raise self._several_numbers(column, texts, all(numbers))
        self._refuse_other_case(column, texts)
        if len(texts) == 2:
            return Binary(texts[1:], texts[:1])
        return self._item(column, named=False)

    def _zeros_of_listed(self, texts: Sequence[str], codes: Sequence[Code | None]) -> Code | None:
        """The code of a column whose values are all 0 by what the user lists for others."""
        if not self.wishes.ones:
            return None
        return next(
            (c for c in codes if isinstance(c, Binary) and texts and {*texts} <= {*c.zeros}), None
        )

    def _several_numbers(self, column: int, texts: Sequence[str], numbers: bool) -> Unreadable:
        """The error for numbers other than 0 and 1, or for numbers beside words."""
        odd = [text for text in texts if text.lower() not in _PLAIN_WORDS]
        value = odd[0] if odd else texts[-1]
        advice, plain = self.advice, [text for text in texts if text in ("0", "1", "2")]
        if numbers and (len(texts) > MAX_ITEM_VALUES or advice.is_count(column)):
            return Unreadable(column, value, advice.many(column, texts[-1]))
        if plain and len(odd) == 1:
            ways = [advice.missing(value), advice.ones(value)]
            ways += [advice.items(column)] if len(texts) > 2 else []
            return Unreadable(column, value, f"{', '.join(ways)}, or {advice.drop(column)}")
        return Unreadable(
            column, value,
            f"its values are {shown(texts)}: {advice.items(column)}, {advice.ones(texts[-1])}, "
            f"or {advice.drop(column)}",
        )  # fmt: skip

    def _refuse_missing(self, column: int, texts: Sequence[str]) -> None:
        """Refuse values that look like codes for missing cells."""
        for text in texts:
            if looks_missing(text, self.values[column]):
                raise Unreadable(
                    column, text,
                    f"it looks like a code for a missing cell: {self.advice.missing(text)}, "
                    f"give it another name if it is an answer, or {self.advice.drop(column)}",
                )  # fmt: skip

    def _refuse_other_case(self, column: int, texts: Sequence[str]) -> None:
        spelled: dict[str, str] = {}
        for text in texts:
            other = spelled.setdefault(text.lower(), text)
            if other != text:
                raise Unreadable(
                    column, text, f"it differs from {other!r} only in case: write them alike"
                )

    def _check_one_and_two(self, codes: Sequence[Code | None], guessed: Collection[int]) -> None:
        """Refuse columns of 1 and 2 beside columns of 0 and 1."""
        twos = [i for i, code in enumerate(codes) if code == ONE_TWO and i in guessed]
        zeros = [i for i, texts in enumerate(self.values) if "0" in texts and codes[i] == PLAIN]
        if twos and zeros:
            column = twos[0]
            raise Unreadable(
                column, "2",
                f"the column holds 1 and 2, but column {self.advice.name(zeros[0])} holds 0 and 1: "
                f"{self.advice.ones('2')}, {self.advice.ones('1')}, or {self.advice.drop(column)}",
            )  # fmt: skip

    def _constant(self, column: int, codes: Sequence[Code | None]) -> Code:
        """The code of a column with one value, which is that of other columns with this value."""
        (text,) = self.values[column]
        others = [code for code in dict.fromkeys(codes) if isinstance(code, Binary)]
        fitting = [code for code in others if text in code.ones or text in code.zeros]
        if text == "1" and not fitting:
            return PLAIN
        if len({code.state(text) for code in fitting}) == 1:
            return fitting[0]
        advice = self.advice
        raise Unreadable(
            column, text,
            "the column has no other value, and nothing says whether it is 1 or 0: "
            f"{advice.drop(column)}, or {advice.ones(text)}"
            + (", or set filled=True if a blank cell is 0" if advice.for_file else ""),
        )  # fmt: skip


def looks_missing(text: str, texts: Collection[str]) -> bool:
    """Whether a value looks like a code for a missing cell, beside the other values."""
    if text.lower() in _WORDS_FOR_MISSING:
        return set(texts) != {"+", "-"}
    number = as_number(text)
    numbers = [each for each in map(as_number, texts) if each is not None]
    if number is None or number != int(number):
        return False
    others = [each for each in numbers if 0 <= each < 7]
    if number < 0:
        return len(others) == len([each for each in numbers if each >= 0]) > 0
    if _REPEATED_DIGIT.fullmatch(text):
        return bool(others) and all(each < 10 or each == number or each > 70 for each in numbers)
    return text in ("8", "9") and bool(others) and max(others) <= number - 4


def _sorted(texts: Any) -> tuple[str, ...]:
    """Numbers by size, then words in their order."""
    numbers = {text: as_number(text) for text in texts}
    return tuple(sorted(numbers, key=lambda t: (numbers[t] is None, numbers[t] or 0, t)))


def _values(given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Collection):
        given = (given,)
    return tuple(text_of(value) for value in given)
