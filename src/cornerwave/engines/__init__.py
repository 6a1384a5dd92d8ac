"""Where the recipe and the survey run: `local` in threads of this process.

An engine decides where groups of rows are dealt with and where copies go. It adds nothing to
what happens to a row, so every engine makes the same copies, to the bit.
"""
