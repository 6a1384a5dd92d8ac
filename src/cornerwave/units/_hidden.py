"""What a copy of all rows of a unit leaves hidden.

If g rows have the intraclass correlation r in a column of variance 1, their covariance has the
eigenvalue a = 1 + (g - 1) r once, for their mean, and b = 1 - r otherwise. The noise v is
independent from row to row, so the best linear estimate from all of them leaves

    of a value       v/g (a / (a + v) + (g - 1) b / (b + v))     <= v / (1 + v), equal if r = 0
    of their mean    v / (a + v)
"""

PRIVACY = 0.5
"""The privacy at which it is said what is given away."""


def left_of_value(r: float, rows: float, noise: float) -> float:
    """Return the share of a value that stays hidden.

    >>> round(left_of_value(0.5, 10, 1.0), 2), round(left_of_value(0.9, 10, 1.0), 2)
    (0.38, 0.17)
    """
    r = min(max(r, 0.0), 1.0)
    mean, rest = 1 + (rows - 1) * r, 1 - r
    return noise / rows * (mean / (mean + noise) + (rows - 1) * rest / (rest + noise))


def left_of_mean(r: float, rows: float, noise: float) -> float:
    """Return the share of the mean of a unit's rows that stays hidden.

    >>> round(left_of_mean(0.5, 10, 1.0), 2), round(left_of_mean(0.9, 50, 1.0), 2)
    (0.15, 0.02)
    """
    return noise / (1 + (rows - 1) * min(max(r, 0.0), 1.0) + noise)
