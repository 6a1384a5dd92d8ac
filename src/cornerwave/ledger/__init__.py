"""What the owner must keep: the key, and the ledger of who holds which copy.

    _key                      256 secret bits, and what is derived from them
    _chain, _chains           lines, each authenticated together with all before it
    _ledger                   datasets, holdings, editions, as lines of chains
    _records                  rows beside the chains, which may change; the access log
    _terms                    why somebody has a copy, by which contract, until when; times
    _database                 the tables, transactions, quick reads, errors in our words
    _sqlite, _postgresql      either database: locks, change detection
    _files                    beside it: folders for work, and the keys of rows

In: an owner's acts. Out: lines that cannot be changed without notice. Another database is a
subclass of `Database`, with the type that its tables have for bytes.
"""

from cornerwave.ledger._chains import Act, EditionLine, Entry, Held, Holding
from cornerwave.ledger._files import KeyRun, SeenKeys, remove_leftovers, work_folder
from cornerwave.ledger._key import Key
from cornerwave.ledger._ledger import Ledger, State, closed_message
from cornerwave.ledger._postgresql import check_address
from cornerwave.ledger._records import (
    MOST_ON_PAGE,
    Access,
    Page,
    Record,
    Records,
    check_name,
    now,
    page_of,
)
from cornerwave.ledger._terms import MOST_WORDS, NO_TERMS, Terms, day_of, short, time_of, written

__all__ = [
    "MOST_ON_PAGE",
    "MOST_WORDS",
    "NO_TERMS",
    "Access",
    "Act",
    "EditionLine",
    "Entry",
    "Held",
    "Holding",
    "Key",
    "KeyRun",
    "Ledger",
    "Page",
    "Record",
    "Records",
    "SeenKeys",
    "State",
    "Terms",
    "check_address",
    "check_name",
    "closed_message",
    "day_of",
    "now",
    "page_of",
    "remove_leftovers",
    "short",
    "time_of",
    "work_folder",
    "written",
]
