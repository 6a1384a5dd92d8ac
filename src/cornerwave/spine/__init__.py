"""THE SPINE: from rows to what registration fixes, and from rows to copies. Pure.

rows         a group of rows: keys, values, pseudonyms, draws for hidden gaps
survey       what one pass learns of a table; parts add up
coordinates  the sampled rows of a survey, for what copies hide
freeze       what registration fixes for ever
recipe       rows in, copies out

register   source -> rows -> survey -> freeze
release    source -> rows -> recipe -> copies
"""

__all__ = []
