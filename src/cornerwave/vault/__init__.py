"""What the owner must keep: the key and the ledger.

key.py     256 secret bits, and everything that is derived from them
frozen.py  what registration fixes for ever
ledger.py  who holds which level since when, in the order that the noise depends on
"""
