"""What recipients can recover: exactly, from the ledger, and measured, from files.

    coalition   the best linear estimate of some recipients together, from their levels
    measured    THE SPINE of the measured audit: read, accumulate, test, judge
    alignment   source and copies row by row          stated      what copies say of themselves

    numbers     their audit                           statistics  the sums of one pass
    watch       what single rows show                 rounding    coarse grids
    checks      is the noise what it must be?         chance      how far chance reaches
    gain        what any coalition recovers           posterior   what the best estimate does
    exposure    records that no noise hides

    categories  their audit                           shown       what is shown, by number
    refreshes   are they refreshed as stated?         path        are copies one path?
    guesses     how well are they guessed?

    report      words and tables                      fields      JSON

The measured audit imports no key and no ledger: an auditor has neither.
"""
