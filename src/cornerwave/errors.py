"""What can go wrong, as one tree.

    CornerwaveError
    ├── LevelError          (ValueError)         a noise or privacy that cannot be
    ├── SourceError         (ValueError)         a table that cannot be read or perturbed
    │   ├── ColumnError                          a column without a decision, or of no use
    │   ├── SourceChanged                        not the table that was registered
    │   └── AlreadyRegistered                    values that another dataset perturbs already
    ├── NoSuchDataset       (LookupError)        a dataset the vault does not hold
    ├── NoSuchRecipient     (LookupError)        a recipient who holds no copy
    ├── NoSuchExperiment    (LookupError)        a part of the reproduction that there is not
    ├── ExtraMissing        (ImportError)        an optional part that is not installed
    ├── VaultError          (RuntimeError)       the vault cannot be used
    │   ├── VaultMissing    (FileNotFoundError)
    │   ├── VaultExists     (FileExistsError)
    │   ├── WrongKey        (PermissionError)
    │   ├── UnsafeKey       (ValueError)
    │   └── LedgerDamaged
    ├── OutputError         (OSError)            the copy cannot be written
    │   └── OutputExists    (FileExistsError)
    └── Fault               (RuntimeError)       a fault of Cornerwave itself

A message says what was given, what is allowed and what to do next. It never
quotes a cell of a table or a byte of a key.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class CornerwaveError(Exception):
    """Anything that Cornerwave refuses; its text is fit to be shown to a person.

    `use` names the choices that help, as Python calls them: the command line adds its options.
    """

    def __init__(self, *message: str, use: Sequence[str] = ()) -> None:
        super().__init__(*message)
        self.use = tuple(use)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


class LevelError(CornerwaveError, ValueError):
    """A noise or privacy outside its range."""


class SourceError(CornerwaveError, ValueError):
    """A table that cannot be read, or that cannot be perturbed."""


class ColumnError(SourceError):
    """A column without a decision, or one that cannot play the part it was given."""


class SourceChanged(SourceError):
    """The table is not the one that was registered."""


class AlreadyRegistered(SourceError):
    """The name is taken, or another dataset already perturbs these values."""


class NoSuchDataset(CornerwaveError, LookupError):
    """The vault holds no dataset of that name."""


class NoSuchRecipient(CornerwaveError, LookupError):
    """The ledger knows no copy of that recipient."""


class NoSuchExperiment(CornerwaveError, LookupError):
    """The reproduction has no part of that name."""


class ExtraMissing(CornerwaveError, ImportError):
    """Something needs packages that come with an extra, and they are not installed."""


class VaultError(CornerwaveError, RuntimeError):
    """The vault cannot be used."""


class VaultMissing(VaultError, FileNotFoundError):
    """There is no vault in that place."""


class VaultExists(VaultError, FileExistsError):
    """There is a vault in that place already."""


class WrongKey(VaultError, PermissionError):
    """The key is not the one that this ledger was made with."""


class UnsafeKey(VaultError, ValueError):
    """A key made from a seed, or not a key at all."""


class LedgerDamaged(VaultError):
    """The ledger cannot be read, or its seals do not fit its lines."""


class OutputError(CornerwaveError, OSError):
    """The copy cannot be written."""


class OutputExists(OutputError, FileExistsError):
    """There is a file in that place already."""


class Fault(CornerwaveError, RuntimeError):
    """A fault of Cornerwave itself: its kind and its place, without its words."""


class CornerwaveWarning(UserWarning):
    """Something the owner should know, and decide about."""


@contextmanager
def discreet() -> Iterator[None]:
    """Turn any other error into a Fault: its words may quote a cell, its place does not."""
    try:
        yield
    except (CornerwaveError, CornerwaveWarning):  # a warning, where warnings are errors
        raise
    except Exception as error:
        fault = Fault(f"internal fault ({type(error).__name__})")
        raise fault.with_traceback(error.__traceback__) from None


def spelled(name: str) -> str:
    """Return a column's name as it stands in a list within one line; quoted if it must be.

    >>> [spelled(name) for name in ("age", "a,b", "")]
    ['age', "'a,b'", "''"]
    """
    plain = name and name.isprintable() and name == name.strip() and not set(name) & set(",+'")
    return name if plain else repr(name)


class SingularCovariance(CornerwaveWarning):
    """Some columns are constant, or follow from others."""


class BiasWarning(CornerwaveWarning):
    """An estimate from a copy that cannot be made unbiased."""
