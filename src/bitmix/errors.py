"""Errors and warnings of the package: each gives the rule, the value that broke it, the remedy."""


class InputError(ValueError):
    """Data or a parameter breaks a rule."""


class NotPlainError(InputError):
    """A cell is neither 0 nor 1, and no codes say how it is read."""


class CellTypeError(InputError, TypeError):
    """A cell is not a number at all."""


class ImageError(InputError):
    """A file or array cannot be read as an image."""


class FileFormatError(OSError):
    """A file is damaged, incomplete, of another version, or not of the format it claims."""


class ClusterError(OSError):
    """A Dask cluster lost what a fit needs: its workers, their memory or the scheduler."""


class BitmixWarning(UserWarning):
    """The base class of the package's warnings, so that one filter catches them all."""


class FewRowsWarning(BitmixWarning):
    """There are fewer rows than the paper asks for: condition 2 of Theorem 1, m ≥ 8l."""


class NoStructureWarning(BitmixWarning):
    """Even the closest two seeds differ in half of the columns or more."""


class DuplicateTemplatesWarning(BitmixWarning):
    """Two templates of a fit are equal."""


class EmptyComponentsWarning(BitmixWarning):
    """A component of a fit has no rows, or there are more components than distinct rows."""


class RangeWarning(BitmixWarning):
    """The largest number of templates that was tried was chosen."""


class FewSurvivorsWarning(BitmixWarning):
    """Fewer than k templates survived step 5 of Algorithm 1."""


class CodesWarning(BitmixWarning):
    """Cells other than 0 and 1 were read as 0 and 1, or as items, by the values of each column."""


class ColumnWarning(BitmixWarning):
    """A column of ids or labels may have been read as a feature, or a line of names as a row."""


class CacheWarning(BitmixWarning):
    """Compiled kernels cannot be kept on disk, or what was kept is damaged."""


class SkippedWarning(BitmixWarning):
    """Rows that cannot be read were left out, as was asked for."""
