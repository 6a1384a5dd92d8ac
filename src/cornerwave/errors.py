"""All errors and warnings, as one tree.

    CornerwaveError
    ├── LevelError          (ValueError)         an invalid noise or privacy
    ├── ProjectError        (ValueError)         a project file that cannot be carried out
    ├── SourceError         (ValueError)         a table that cannot be read or perturbed
    │   ├── ColumnError                          an undecided or unusable column
    │   ├── SourceChanged                        not the table that was registered
    │   ├── SourceLost                           a store or a server does not answer, or refuses
    │   ├── AlreadyRegistered                    the name or the values are taken
    │   └── Drifted                              rows that what registration fixed does not fit
    ├── NoSuchDataset       (LookupError)        no dataset of that name in the vault
    ├── NoSuchEdition       (LookupError)        no edition or batch of that number
    ├── NoSuchRecipient     (LookupError)        a recipient who holds no copy
    ├── NoSuchExperiment    (LookupError)        no part of that name in the reproduction
    ├── AccessDenied        (PermissionError)    no token, or one that permits nothing
    ├── ExtraMissing        (ImportError)        optional packages are not installed
    ├── VaultError          (RuntimeError)       the vault cannot be used
    │   ├── VaultMissing    (FileNotFoundError)
    │   ├── VaultExists     (FileExistsError)
    │   ├── WrongKey        (PermissionError)
    │   ├── UnsafeKey       (ValueError)
    │   ├── LedgerDamaged
    │   ├── ApprovalNeeded                       it waits for a second person
    │   ├── TooManyRequests                      of one recipient, or wrong passwords
    │   ├── DatasetReleased                      copies of it are out, so the ledger keeps it
    │   └── DatasetClosed                        no more copies of it are released
    ├── DossierError        (ValueError)         a file that is no dossier, or was changed
    ├── ClusterError        (RuntimeError)       a cluster cannot do the work, or may not
    ├── OutputError         (OSError)            the copy cannot be written
    │   └── OutputExists    (FileExistsError)
    └── Fault               (RuntimeError)       a bug in Cornerwave

A message states what was given, what is allowed and what to do next. It never quotes
a cell of a table or a byte of a key.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches


class CornerwaveError(Exception):
    """Anything that Cornerwave refuses; its message can be shown to users.

    `use` names the choices that help, as Python calls them: the command line adds its options.
    """

    def __init__(self, *message: str, use: Sequence[str] = ()) -> None:
        super().__init__(*message)
        self.use = tuple(use)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


class LevelError(CornerwaveError, ValueError):
    """The noise or privacy is outside its range."""


class ProjectError(CornerwaveError, ValueError):
    """The project file is invalid, or states what cannot be done."""


class SourceError(CornerwaveError, ValueError):
    """The table cannot be read or perturbed."""


class ColumnError(SourceError):
    """A column is undecided, or cannot be used as requested."""


class SourceChanged(SourceError):
    """The table is not the one that was registered."""


class SourceLost(SourceError):
    """The table cannot be reached now, so that nothing is known about it."""


class AlreadyRegistered(SourceError):
    """The name is taken, or another dataset already perturbs these values."""


class Drifted(SourceError):
    """New rows are too different from those that were registered."""


class NoSuchDataset(CornerwaveError, LookupError):
    """The vault has no dataset of that name."""


class NoSuchEdition(CornerwaveError, LookupError):
    """The dataset has no edition or batch of that number."""


class NoSuchRecipient(CornerwaveError, LookupError):
    """The recipient holds no copy."""


class NoSuchExperiment(CornerwaveError, LookupError):
    """The reproduction has no part of that name."""


class AccessDenied(CornerwaveError, PermissionError):
    """There is no token, or it permits nothing."""


class ExtraMissing(CornerwaveError, ImportError):
    """A feature needs the packages of an extra that is not installed."""

    @classmethod
    def of(cls, what: str, package: str, *, extra: str) -> "ExtraMissing":
        """Return the error of one package, with the command that installs it."""
        return cls(
            f"{what} needs {package}, which is not installed: pip install 'cornerwave[{extra}]'"
        )


class VaultError(CornerwaveError, RuntimeError):
    """The vault cannot be used."""


class VaultMissing(VaultError, FileNotFoundError):
    """There is no vault at this path."""


class VaultExists(VaultError, FileExistsError):
    """There is already a vault at this path."""


class WrongKey(VaultError, PermissionError):
    """The key does not belong to this ledger."""


class UnsafeKey(VaultError, ValueError):
    """The key was made from a seed, or is not a key."""


class LedgerDamaged(VaultError):
    """The ledger cannot be read, or was changed from outside."""


class TooManyRequests(VaultError):
    """As many requests of a recipient as may wait do, or wrong passwords were given too often."""


class ApprovalNeeded(VaultError):
    """It waits until another owner or approver than the one who asked approves it."""


class DatasetReleased(VaultError):
    """Copies of the dataset were released, so the ledger keeps it."""


class DatasetClosed(VaultError):
    """No more copies of the dataset are released."""


class DossierError(CornerwaveError, ValueError):
    """The file is not a dossier, or was changed."""


class ClusterError(CornerwaveError, RuntimeError):
    """A cluster failed, or is not set up in a way that secrets may travel."""


class OutputError(CornerwaveError, OSError):
    """The copy cannot be written."""


class OutputExists(OutputError, FileExistsError):
    """There is already a file at this path."""


class Fault(CornerwaveError, RuntimeError):
    """A bug in Cornerwave, reported by type and place, without its message."""


class CornerwaveWarning(UserWarning):
    """Something the owner should know and decide about."""


_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


def warn(message: str, *, kind: type[Warning] = CornerwaveWarning, stacklevel: int = 2) -> None:
    """Warn the owner, or the page that collects what its own work warns of."""
    message = _of_table.get() + message
    if (collected := _collected.get()) is not None:
        collected.append(message)
    else:
        warnings.warn(message, kind, stacklevel=stacklevel + 1)


_of_table: ContextVar[str] = ContextVar("of_table", default="")


@contextmanager
def in_table(name: str) -> Iterator[None]:
    """Let messages of the code within name which of several tables they are about."""
    token = _of_table.set(f"table {name!r}: ")
    try:
        yield
    except CornerwaveError as error:
        error.args = (f"table {name!r}: {error}", *error.args[1:])
        raise
    finally:
        _of_table.reset(token)


@contextmanager
def collecting_warnings() -> Iterator[list[str]]:
    """Collect what the code within warns of; work in other threads is not concerned."""
    collected: list[str] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


@contextmanager
def discreet() -> Iterator[None]:
    """Turn any other error into a Fault: its message may quote a cell, its place does not."""
    try:
        yield
    except (CornerwaveError, CornerwaveWarning):  # a warning, where warnings are errors
        raise
    except Exception as error:
        fault = Fault(f"internal fault ({type(error).__name__})")
        raise fault.with_traceback(error.__traceback__) from None


def spelled(name: str) -> str:
    """Return a column's name for a list in one line, quoted if necessary.

    >>> [spelled(name) for name in ("age", "a,b", "")]
    ['age', "'a,b'", "''"]
    """
    plain = name and name.isprintable() and name == name.strip() and not set(name) & set(",+'")
    return name if plain else repr(name)


def nearest(unknown: str, known: Iterable[str]) -> str:
    """Return a question about the nearest spelling of a name, if there is one.

    >>> nearest("Wage", ["wage", "age"]), nearest("x", ["wage"])
    ("; did you mean 'wage'?", '')
    """
    close = nearest_name(unknown, known)
    return "" if close is None else f"; did you mean {close!r}?"


def nearest_name(unknown: str, known: Iterable[str]) -> str | None:
    """Return the name that is spelled most like another one, None if none is."""
    spellings = {name.casefold(): name for name in known}
    close = get_close_matches(unknown.casefold(), spellings, n=1)
    return spellings[close[0]] if close else None


class SingularCovariance(CornerwaveWarning):
    """Some columns are constant, or linear functions of others."""


class BiasWarning(CornerwaveWarning):
    """An estimate from this copy cannot be made unbiased."""
