"""Errors and warnings of the package: each gives the rule, the value that broke it, the remedy."""


class InputError(ValueError):
    """Data or a parameter that breaks a rule."""


class CellTypeError(InputError, TypeError):
    """A cell that is no number at all."""


class ImageError(InputError):
    """A file or array that cannot be read as an image."""


class FileFormatError(OSError):
    """A file that is not what it says, is cut short, or is of another version."""


class ClusterError(OSError):
    """A Dask cluster that lost what a fit needs: its workers, their memory or the scheduler."""


class BitmixWarning(UserWarning):
    """Parent of the package's warnings, so that one filter catches them all."""


class FewRowsWarning(BitmixWarning):
    """Fewer rows than the paper asks for: condition 2 of Theorem 1, m ≥ 8l."""


class NoStructureWarning(BitmixWarning):
    """Even the closest two seeds differ in half of the columns or more."""


class DuplicateTemplatesWarning(BitmixWarning):
    """Two templates of a fit are equal."""


class FewSurvivorsWarning(BitmixWarning):
    """Fewer than k templates outlived the pruning of step 5."""


class ColumnWarning(BitmixWarning):
    """What looks like an id or a label is read as a feature, or what may be names as a row."""
