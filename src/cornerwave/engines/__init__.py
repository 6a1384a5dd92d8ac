"""Where the survey and the recipe run: `local` in threads of this process, `spark` on a cluster.

An engine has one verb: run this work over the parts of a table, and return what it found. It
adds nothing to what happens to a row, so every engine makes the same copies, to the bit.

local      groups of rows side by side in threads, results in order; copies are files
spark      parts of a table on the machines of a cluster; copies are directories of files
"""
