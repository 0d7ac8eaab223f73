"""Errors and warnings. Each message gives the rule, the value that broke it and the remedy."""


class InputError(ValueError):
    """Data or a parameter breaks a rule."""


class NotPlainError(InputError):
    """A cell is neither 0 nor 1, and no code says how to read it."""


class CellTypeError(InputError, TypeError):
    """A cell is not a number at all."""


class ImageError(InputError):
    """A file or array cannot be read as an image."""


class FileFormatError(OSError):
    """A file is damaged, incomplete, of another version, or not of the format it claims."""


class ClusterError(OSError):
    """A Dask cluster lost what a fit needs: its workers, their memory or the scheduler."""


class BitmixWarning(UserWarning):
    """Base class of all warnings of the package, so that one filter catches them all."""


class FewRowsWarning(BitmixWarning):
    """There are fewer rows than the paper asks for: condition 2 of Theorem 1, m ≥ 8l."""


class NoStructureWarning(BitmixWarning):
    """Even the two closest seeds differ in half of the columns or more."""


class DuplicateTemplatesWarning(BitmixWarning):
    """Two templates of a fit are equal."""


class EmptyComponentsWarning(BitmixWarning):
    """A component of a fit has no rows, or there are more components than distinct rows."""


class RangeWarning(BitmixWarning):
    """The chosen number of templates is the largest that was tried."""


class FewSurvivorsWarning(BitmixWarning):
    """Fewer than k templates survived step 5 of Algorithm 1."""


class CodesWarning(BitmixWarning):
    """Values other than 0 and 1 were recoded as 0 and 1, or as the values of an item."""


class ColumnWarning(BitmixWarning):
    """A column of ids or labels, or a header line, may have been read as data."""


class CacheWarning(BitmixWarning):
    """Compiled kernels cannot be cached on disk, or the cache is damaged."""


class SkippedWarning(BitmixWarning):
    """Rows that cannot be read were left out, as requested."""
