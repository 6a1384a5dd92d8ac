"""Where the recipe and the survey run: `local` in threads of this process.

local        a table, registered or released
batches      rows that come to a registered table
differences  two editions of a table, compared

An engine decides where groups of rows are dealt with and where copies go. It adds nothing to
what happens to a row, so every engine makes the same copies, to the bit.
"""
