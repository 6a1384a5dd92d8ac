"""THE SPINE: from rows to what registration fixes, and from rows to copies. Pure.

rows         a group of rows: keys, values, pseudonyms
missing, person_gaps    draws for hidden gaps, by row and by person
survey       what one pass learns of a table; parts add up
sample       samples of rows that are the same whatever parts a table comes in
coordinates  the sampled rows of a survey, for what copies hide
freeze       from a survey to what registration fixes for ever
frozen       that, as a value: exact text, the dataset's identity
look         what a copy looks like, and what it states about its columns
recipe       rows in, copies out
histories, continued, linked, person_*   persons: their noise, samples, and whole histories

register   source -> rows -> survey -> freeze
release    source -> rows -> recipe -> copies
"""

__all__ = []
