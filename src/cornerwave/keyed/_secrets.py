"""Secrets that cannot leave by accident: not in a message, not in a pickle."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, repr=False)
class Secrets:
    """Some 32-byte secrets, each for one purpose; a subclass names them.

    An engine that must send them to another process calls `reveal`, and rebuilds them there.
    """

    def reveal(self) -> dict[str, bytes]:
        """Return the secrets by name. Whoever sees them can strip the noise from every copy."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<secret>)"

    def __reduce__(self) -> str:
        raise TypeError("secrets are not pickled by accident; an engine sends what reveal() gives")
