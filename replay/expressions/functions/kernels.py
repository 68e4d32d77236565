"""Functions of numbers and times, compiled: the one implementation for columns and for matches.

Transcendental functions are those of the C library, which Python's ``math`` calls too (that is
what the binder computes constants with). NumPy has faster ones of its own with other last bits,
so they are not used. ``replay/patterns/conditions/kernels.py`` compiles this in.
"""

from __future__ import annotations

import math

import numpy as np

from chronicle.compiled import njit

# Functions of doubles.
SQRT = 0
CBRT = 1
LN = 2
LOG10 = 3
LOG2 = 4
EXP = 5
SIN = 6
COS = 7
TAN = 8
ASIN = 9
ACOS = 10
ATAN = 11
DEGREES = 12
RADIANS = 13
FLOOR_F = 14
CEIL_F = 15
TRUNC_F = 16
SIGN_F = 17
POWER = 18
ATAN2 = 19
LOG = 20  # base, value
ROUND_F = 21  # value, whole number of digits
DISTANCE = 22  # latitude, longitude, latitude, longitude, in degrees

IS_DISTINCT = 99  # of either kind of operands; gives an int64

# Functions of int64; moments and widths are in microseconds.
SIGN_I = 0
ROUND_I = 1  # value, digits
YEAR = 2
QUARTER = 3
MONTH = 4
DAY = 5
DAY_OF_WEEK = 6
DAY_OF_YEAR = 7
WEEK = 8
YEAR_OF_WEEK = 9
TIME_PART = 10  # moment, cycle, unit
TIME_FLOOR = 11  # moment, width, origin
MONTH_FLOOR = 12  # moment, months: 1, 3 or 12
ADD_MONTHS = 13  # moment, months
MONTHS_BETWEEN = 14  # moment, moment
DAYS_TO_MOMENT = 15
MOMENT_TO_DAYS = 16
IS_NOT_ZERO = 17
IDENTITY = 18

INT64_MIN = np.iinfo(np.int64).min
INT64_MAX = np.iinfo(np.int64).max
DAY_US = 86_400_000_000
DAYS_MAX = INT64_MAX // DAY_US
DAYS_MIN = INT64_MIN // DAY_US
MONTHS_MAX = 12 * 600_000
"""More months than any two moments are apart."""
CUBE_LEAST = 1e-290
CUBE_MOST = 1e308
"""Between them a cube root can be cubed again without loss; NaN is not."""
EARTH_RADIUS_M = 6_371_008.8
DEGREES_PER_RADIAN = 180.0 / math.pi
RADIANS_PER_DEGREE = math.pi / 180.0


@njit(_nrt=False)
def _half_away(value):  # type: ignore[no-untyped-def]
    whole = np.trunc(value)
    if abs(value - whole) >= 0.5:
        whole += math.copysign(1.0, value)
    return whole


@njit(_nrt=False)
def _round(value, digits):  # type: ignore[no-untyped-def]
    """Round half away from zero at a decimal place."""
    power = 1.0
    for _ in range(int(abs(digits))):  # exact up to 10 ** 22
        power *= 10.0
    scaled = value * power if digits >= 0 else value / power
    if not math.isfinite(scaled) or scaled == np.floor(scaled):
        return value
    whole = math.copysign(_half_away(scaled), value)
    rounded = whole / power if digits >= 0 else whole * power
    return rounded if math.isfinite(rounded) else value


@njit(_nrt=False)
def _cube_root(value):  # type: ignore[no-untyped-def]
    """Return that of the C library, which has some last bits wrong, after a step of Newton's."""
    root = math.cbrt(value)
    if not CUBE_LEAST < abs(value) < CUBE_MOST:
        return root
    return root - (root * root * root - value) / (3.0 * root * root)


@njit(_nrt=False)
def _power(base, exponent):  # type: ignore[no-untyped-def]
    if base == 0.0 and exponent < 0.0:
        return 0.0, False
    finite = math.isfinite(base) and math.isfinite(exponent)
    if base < 0.0 and finite and exponent != np.trunc(exponent):
        return 0.0, False
    return math.pow(base, exponent), True


@njit(_nrt=False)
def _distance(latitude_a, longitude_a, latitude_b, longitude_b):  # type: ignore[no-untyped-def]
    """Great-circle distance in metres by the haversine formula."""
    if abs(latitude_a) > 90.0 or abs(latitude_b) > 90.0:
        return 0.0, False
    if math.isinf(longitude_a) or math.isinf(longitude_b):
        return 0.0, False
    up = math.sin((latitude_b - latitude_a) * RADIANS_PER_DEGREE / 2.0)
    along = math.sin((longitude_b - longitude_a) * RADIANS_PER_DEGREE / 2.0)
    both = math.cos(latitude_a * RADIANS_PER_DEGREE) * math.cos(latitude_b * RADIANS_PER_DEGREE)
    haversine = up * up + both * (along * along)
    if haversine > 1.0:  # noqa: PLR1730 - by rounding, for two ends of a diameter; NaN stays
        haversine = 1.0
    return 2.0 * EARTH_RADIUS_M * math.asin(math.sqrt(haversine)), True


@njit(_nrt=False)
def _of_two(function, a, b):  # type: ignore[no-untyped-def]
    if function == POWER:
        return _power(a, b)
    if function == ATAN2:
        return math.atan2(a, b), True
    if function == ROUND_F:
        return _round(a, b), True
    if a <= 0.0 or b <= 0.0 or a == 1.0:  # LOG
        return 0.0, False
    return math.log(b) / math.log(a), True


@njit(_nrt=False)
def _trigonometric(function, a):  # type: ignore[no-untyped-def]
    if function in (ASIN, ACOS):
        if abs(a) > 1.0:
            return 0.0, False
        return (math.asin(a) if function == ASIN else math.acos(a)), True
    if function == ATAN:
        return math.atan(a), True
    if math.isinf(a):
        return 0.0, False
    if function == SIN:
        return math.sin(a), True
    return (math.cos(a) if function == COS else math.tan(a)), True


@njit(_nrt=False)
def _logarithm(function, a):  # type: ignore[no-untyped-def]
    if a <= 0.0:
        return 0.0, False
    if function == LN:
        return math.log(a), True
    return (math.log10(a) if function == LOG10 else math.log2(a)), True


@njit(_nrt=False, is_exact=False)
def double_function(function, a, b, c, d):  # type: ignore[no-untyped-def]
    """Value of a function of doubles, and whether it exists; unused arguments are ignored."""
    if function == DISTANCE:
        return _distance(a, b, c, d)
    if function >= POWER:
        return _of_two(function, a, b)
    if SIN <= function <= ATAN:
        return _trigonometric(function, a)
    if LN <= function <= LOG2:
        return _logarithm(function, a)
    if function == SQRT:
        return (math.sqrt(a), True) if not a < 0.0 else (0.0, False)
    if function == CBRT:
        return _cube_root(a), True
    if function == EXP:
        return math.exp(a), True
    if function == DEGREES:
        return a * DEGREES_PER_RADIAN, True
    if function == RADIANS:
        return a * RADIANS_PER_DEGREE, True
    if function == FLOOR_F:
        return np.floor(a), True
    if function == CEIL_F:
        return np.ceil(a), True
    if function == TRUNC_F:
        return np.trunc(a), True
    return (1.0 if a > 0.0 else -1.0 if a < 0.0 else a), True  # SIGN_F


# ---------------------------------------------------------------------------------------------
# The proleptic Gregorian calendar. Years begin in March inside, so that leap days come last
# (https://howardhinnant.github.io/date_algorithms.html, days_from_civil and civil_from_days).


@njit(_nrt=False)
def _civil(days):  # type: ignore[no-untyped-def]
    """Year, month and day of a number of days since the epoch."""
    shifted = days + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (1 if month <= 2 else 0), month, day


@njit(_nrt=False)
def _days(year, month, day):  # type: ignore[no-untyped-def]
    """Days since the epoch of a date."""
    year = year - 1 if month <= 2 else year
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


@njit(_nrt=False)
def _month_length(year, month):  # type: ignore[no-untyped-def]
    if month == 2:
        return 29 if (year % 4 == 0 and year % 100 != 0) or year % 400 == 0 else 28
    return 30 if month in (4, 6, 9, 11) else 31


@njit(_nrt=False)
def _moment(days, time):  # type: ignore[no-untyped-def]
    """Microseconds since the epoch of a day and a time of day, and whether int64 holds them."""
    if days < DAYS_MIN or days > DAYS_MAX:
        return 0, False
    if days >= 0:
        return (days * DAY_US + time, True) if time <= INT64_MAX - days * DAY_US else (0, False)
    # Days count from their end here, as the first one there is begins below int64.
    end = (days + 1) * DAY_US
    return (end + (time - DAY_US), True) if time - DAY_US >= INT64_MIN - end else (0, False)


@njit(_nrt=False)
def _add_months(moment, months):  # type: ignore[no-untyped-def]
    """Return the same day and time some months on, or the month's last day where it is shorter."""
    if months > MONTHS_MAX or months < -MONTHS_MAX:
        return 0, False
    days = moment // DAY_US
    time = moment % DAY_US
    year, month, day = _civil(days)
    total = year * 12 + (month - 1) + months
    year = total // 12
    month = total % 12 + 1
    return _moment(_days(year, month, min(day, _month_length(year, month))), time)


@njit(_nrt=False)
def _months_between(a, b):  # type: ignore[no-untyped-def]
    """Return the most whole months that can be added to the earlier without passing the later."""
    sign = 1
    if b < a:
        a, b, sign = b, a, -1
    year_a, month_a, day_a = _civil(a // DAY_US)
    year_b, month_b, day_b = _civil(b // DAY_US)
    months = (year_b * 12 + month_b) - (year_a * 12 + month_a)
    reached = min(day_a, _month_length(year_b, month_b))
    if reached > day_b or (reached == day_b and a % DAY_US > b % DAY_US):
        months -= 1
    return sign * months


@njit(_nrt=False)
def _date_part(function, days):  # type: ignore[no-untyped-def]
    day_of_week = (days + 3) % 7 + 1  # 1970-01-01 is a Thursday
    if function == DAY_OF_WEEK:
        return day_of_week
    if function in (WEEK, YEAR_OF_WEEK):  # a week belongs to the year of its Thursday
        days += 4 - day_of_week
    year, month, day = _civil(days)
    if function in (YEAR, YEAR_OF_WEEK):
        return year
    if function == QUARTER:
        return (month + 2) // 3
    if function == MONTH:
        return month
    if function == DAY:
        return day
    day_of_year = days - _days(year, 1, 1)
    return day_of_year + 1 if function == DAY_OF_YEAR else day_of_year // 7 + 1


@njit(_nrt=False)
def _round_integer(value, digits):  # type: ignore[no-untyped-def]
    """Round half away from zero at a power of ten, and whether int64 holds the result."""
    if digits >= 0:
        return value, True
    if digits < -18:
        # Half of 10 ** 19 is within int64, and what it rounds to is not.
        far = value >= 5_000_000_000_000_000_000 or value <= -5_000_000_000_000_000_000
        return 0, not (far and digits == -19)
    unit = 1
    for _ in range(-digits):
        unit *= 10
    remainder = value % unit  # of the floor, so the two sides differ below zero
    up = remainder * 2 >= unit if value >= 0 else remainder * 2 > unit
    if not up:
        return (value - remainder, True) if value >= INT64_MIN + remainder else (0, False)
    more = unit - remainder
    return (value + more, True) if value <= INT64_MAX - more else (0, False)


@njit(_nrt=False)
def integer_function(function, a, b, c):  # type: ignore[no-untyped-def]
    """Value of a function of int64, and whether it exists; unused arguments are ignored."""
    if YEAR <= function <= YEAR_OF_WEEK:
        return _date_part(function, a // DAY_US), True
    if function == TIME_PART:
        return (a % b) // c, True
    if function == TIME_FLOOR:
        beyond = (a % b - c % b) % b
        return (a - beyond, True) if a >= INT64_MIN + beyond else (0, False)
    if function == MONTH_FLOOR:
        year, month, _ = _civil(a // DAY_US)
        return _moment(_days(year, month - (month - 1) % b, 1), 0)
    if function == ADD_MONTHS:
        return _add_months(a, b)
    if function == MONTHS_BETWEEN:
        return _months_between(a, b), True
    if function == DAYS_TO_MOMENT:
        return _moment(a, 0)
    if function == MOMENT_TO_DAYS:
        return a // DAY_US, True
    if function == ROUND_I:
        return _round_integer(a, b)
    if function == IS_NOT_ZERO:
        return (1 if a != 0 else 0), True
    if function == IDENTITY:
        return a, True
    return (1 if a > 0 else -1 if a < 0 else 0), True  # SIGN_I


@njit(_nrt=False)
def double_column(function, a, b, c, d, steps, out, exists):  # type: ignore[no-untyped-def]
    """``double_function`` of every row; arguments with step 0 have one value for all of them."""
    for row in range(len(out)):
        out[row], exists[row] = double_function(
            function, a[row * steps[0]], b[row * steps[1]], c[row * steps[2]], d[row * steps[3]]
        )


@njit(_nrt=False)
def integer_column(function, a, b, c, steps, out, exists):  # type: ignore[no-untyped-def]
    """``integer_function`` of every row; arguments with step 0 have one value for all of them."""
    for row in range(len(out)):
        out[row], exists[row] = integer_function(
            function, a[row * steps[0]], b[row * steps[1]], c[row * steps[2]]
        )


@njit(_nrt=False)
def _is_distinct(of_doubles, i, f, valid, p):  # type: ignore[no-untyped-def]
    """Whether two operands differ, NULL being like NULL and NaN like NaN."""
    q = p + 1
    if not (valid[p] and valid[q]):
        return valid[p] != valid[q]
    if not of_doubles:
        return i[p] != i[q]
    if math.isnan(f[p]) or math.isnan(f[q]):
        return math.isnan(f[p]) != math.isnan(f[q])
    return f[p] != f[q]


@njit(_nrt=False)
def apply_function(of_doubles, function, n_args, i, f, valid, p):  # type: ignore[no-untyped-def]
    """Put the value of a function in place of its operands, which begin at ``p`` of a stack.

    Returns whether a fault occurred. The stack holds three more entries than are in use.
    """
    if function == IS_DISTINCT:
        i[p] = 1 if _is_distinct(of_doubles, i, f, valid, p) else 0
        valid[p] = True
        return False
    for k in range(1, n_args):
        valid[p] = valid[p] and valid[p + k]
    if not valid[p]:
        return False
    if of_doubles:
        f[p], exists = double_function(function, f[p], f[p + 1], f[p + 2], f[p + 3])
    else:
        i[p], exists = integer_function(function, i[p], i[p + 1], i[p + 2])
    valid[p] = exists
    return not exists
