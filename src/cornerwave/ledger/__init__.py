"""What the owner must keep: the key, and the ledger of who holds which copy.

    _key                      256 secret bits, and what is derived from them
    _chain, _chains           lines, each authenticated together with all before it
    _ledger                   datasets, holdings, editions, as lines of chains
    _records                  rows beside the chains, which may change; the access log
    _tables                   the tables, and a connection to either database
    _database, _sqlite, _postgresql    transactions, locks, change detection, errors
    _seen_keys, _work         files beside it

In: an owner's acts. Out: lines that cannot be changed without notice. Another database is a
subclass of `Database`, with the type that its tables have for bytes.
"""

from cornerwave.ledger._chains import Entry, Holding
from cornerwave.ledger._key import Key
from cornerwave.ledger._ledger import Ledger, State, closed_message
from cornerwave.ledger._postgresql import check_address
from cornerwave.ledger._records import Access, Record, Records, now
from cornerwave.ledger._seen_keys import KeyRun, SeenKeys
from cornerwave.ledger._work import remove_leftovers, work_folder

__all__ = [
    "Access",
    "Entry",
    "Holding",
    "Key",
    "KeyRun",
    "Ledger",
    "Record",
    "Records",
    "SeenKeys",
    "State",
    "check_address",
    "closed_message",
    "now",
    "remove_leftovers",
    "work_folder",
]
