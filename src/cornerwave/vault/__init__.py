"""What the owner must keep: the key, and the ledger of who holds which copy.

    Key       256 secret bits, and everything derived from them
    Ledger    datasets and holdings, in an SQLite file or a PostgreSQL database
    Entry     a registered dataset
    Holding   a copy that a recipient holds, with everything that made its bytes
    Records   beside it: recipients, grants, tokens, requests (Record); the access log (Access)
    WouldWait        the ledger has to be asked, where nobody wants to wait for it
    check_address    whether a ledger can lie there, in PostgreSQL
    SeenKeys, KeyRun    which keys a table has ever had
    work_folder, remove_leftovers    where copies for the owner alone are made, and cleaned up

Behind them:

    _key.py         Key
    _ledger.py      Ledger: what is recorded, in one transaction each
    _known.py       refusals of what the vault has already
    _chains.py      Entry, Holding: all chains, as a transaction reads and extends them
    _chain.py       lines under one HMAC chain per dataset
    _attachments.py what an edition needs and no line has room for
    _seen_keys.py   files of keyed hashes that can be made again
    _records.py     sealed rows beside the chains
    _database.py    the tables, and what both databases have in common
    _sqlite.py, _postgresql.py    opening, locking, refusing planted objects, errors
    _work.py        private folders, locked while their process lives
"""

from cornerwave.vault._chains import Entry, Holding
from cornerwave.vault._database import WouldWait
from cornerwave.vault._key import Key
from cornerwave.vault._ledger import Ledger, State, closed_message
from cornerwave.vault._postgresql import check_address
from cornerwave.vault._records import Access, Record, Records, now
from cornerwave.vault._seen_keys import KeyRun, SeenKeys
from cornerwave.vault._work import remove_leftovers, work_folder

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
    "WouldWait",
    "check_address",
    "closed_message",
    "now",
    "remove_leftovers",
    "work_folder",
]
