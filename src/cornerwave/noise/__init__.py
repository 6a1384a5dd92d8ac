"""The secret path, its white noise, and how the two are read.

path.py     levels in ledger order  ->  how each is reached from those before it
stream.py   key, level, row id      ->  white noise, the same on every machine
reading.py  path + white noise      ->  the copies of a block of rows
"""
