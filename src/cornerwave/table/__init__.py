"""Tables at the edge: what a column is, reading, telling rows and tables apart, writing.

schema.py       what happens to each column
numbers.py      any numeric column as floats
read.py         CSV, Parquet, Arrow, a directory or a frame: a source of groups of rows
fingerprint.py  which row is which, and whether this is still the same table
write.py        a copy appears whole or not at all
"""
