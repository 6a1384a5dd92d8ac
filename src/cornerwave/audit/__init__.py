"""What recipients can recover: exactly, from the ledger, and measured, from files.

    coalition   the best linear estimate of some recipients together, from their levels
    measured    THE SPINE of the measured audit: read, accumulate, test, judge
    alignment   source and copies row by row          statistics  the sums of one pass
    watch       what single rows show                 rounding    coarse grids
    checks      is the noise what it must be?         chance      how far chance reaches
    gain        what any coalition recovers           posterior   what the best estimate does
    exposure    records that no noise hides
    report      words, tables, JSON                   page, picture   one HTML page

The measured audit imports no key and no ledger: an auditor has neither.
"""
