"""Calendar functions on constants: microseconds since the epoch, in the Gregorian calendar.

Every year has it, before 1582 too (proleptic), and no year has an end: ints of any size go in.
"""

from __future__ import annotations

DAY_US = 86_400_000_000
WEEK_DAYS = 7
_CYCLE_DAYS = 146_097
"""Days of 400 years, after which the calendar repeats."""
_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def date_of(moment: int) -> tuple[int, int, int]:
    """Return year, month (1 to 12) and day of a moment.

    Source: https://howardhinnant.github.io/date_algorithms.html, civil_from_days.
    """
    # Years begin in March inside, so that a leap day is the last of its year.
    shifted = moment // DAY_US + 719_468
    era, of_era = divmod(shifted, _CYCLE_DAYS)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    march_month = (5 * of_year + 2) // 153
    day = of_year - (153 * march_month + 2) // 5 + 1
    month = march_month + 3 if march_month < 10 else march_month - 9
    return year + era * 400 + (month <= 2), month, day


def moment_of(year: int, month: int, day: int) -> int:
    """Return the midnight at which a date begins (days_from_civil of the same source)."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    days = era * _CYCLE_DAYS + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return days * DAY_US


def year(moment: int) -> int:
    """Return the year."""
    return date_of(moment)[0]


def quarter(moment: int) -> int:
    """Return the quarter, 1 to 4."""
    return (month(moment) + 2) // 3


def month(moment: int) -> int:
    """Return the month, 1 to 12."""
    return date_of(moment)[1]


def day(moment: int) -> int:
    """Return the day of the month, from 1."""
    return date_of(moment)[2]


def day_of_week(moment: int) -> int:
    """Return 1 for Monday to 7 for Sunday (ISO 8601)."""
    return (moment // DAY_US + 3) % WEEK_DAYS + 1  # 1970-01-01 is a Thursday


def day_of_year(moment: int) -> int:
    """Return the day of the year, from 1."""
    return (moment - moment_of(year(moment), 1, 1)) // DAY_US + 1


def week(moment: int) -> int:
    """Return the week of its year, 1 to 53 (ISO 8601)."""
    return (day_of_year(_thursday(moment)) - 1) // WEEK_DAYS + 1


def year_of_week(moment: int) -> int:
    """Return the year that the week belongs to (ISO 8601)."""
    return year(_thursday(moment))


def _thursday(moment: int) -> int:
    """Return the Thursday of the week, whose year the week counts to."""
    return moment + (4 - day_of_week(moment)) * DAY_US


def time_part(moment: int, cycle: int, unit: int) -> int:
    """Return how many whole units of its cycle have gone by, such as the hours of the day."""
    return moment % cycle // unit


def time_floor(moment: int, width: int, origin: int) -> int:
    """Return the last beginning of a span of time, counted from the origin, up to the moment."""
    return moment - (moment - origin) % width


def month_floor(moment: int, months: int) -> int:
    """Return the beginning of the span of 1, 3 or 12 months of the year."""
    year_, month_, _ = date_of(moment)
    return moment_of(year_, month_ - (month_ - 1) % months, 1)


def add_months(moment: int, months: int) -> int:
    """Return the same day and time some months on; the month's last day where it is shorter."""
    year_, month_, day_ = date_of(moment)
    year_, index = divmod(year_ * 12 + month_ - 1 + months, 12)
    date = moment_of(year_, index + 1, min(day_, _month_length(year_, index + 1)))
    return date + moment % DAY_US


def months_between(start: int, end: int) -> int:
    """Return the most whole months that can be added to ``start`` without passing ``end``.

    Where ``end`` is before ``start``, the months from ``end`` to ``start``, negative.
    """
    if end < start:
        return -months_between(end, start)
    (year_a, month_a, _), (year_b, month_b, _) = date_of(start), date_of(end)
    months = (year_b - year_a) * 12 + month_b - month_a
    return months - (add_months(start, months) > end)


def _month_length(year_: int, month_: int) -> int:
    leap = year_ % 4 == 0 and (year_ % 100 != 0 or year_ % 400 == 0)
    return 29 if month_ == 2 and leap else _MONTH_LENGTHS[month_ - 1]
