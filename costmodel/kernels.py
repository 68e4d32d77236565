"""Compiled leaves of the cost model: coverage of many plans at once."""

from __future__ import annotations

import math

from chronicle.compiled import njit

DENSITY_MIN = 1e-15
DENSITY_MAX = 1.0 - 1e-12
_PROBABILITY_MIN = 1e-200
_UNUSED = 2.0
"""Density of a basic block that a plan does not use: never the rarest."""

CANDIDATES, LENGTH, SHARE, TOUCHED, BLOCKS, STRETCHES, SEARCHES = range(7)
"""Rows of what `cover` returns."""


@njit(_nrt=False, error_model="numpy")
def _rate(density):  # type: ignore[no-untyped-def]
    return -math.log1p(-min(density, DENSITY_MAX))


@njit(_nrt=False, error_model="numpy")
def _inverse(x, z):  # type: ignore[no-untyped-def]
    """Return ``1 / (x + z)``, which never overflows here: x is not negative, z of a few tens."""
    real = x + z.real
    size = real * real + z.imag * z.imag
    return complex(real / size, -z.imag / size)


@njit(_nrt=False, error_model="numpy")
def _together(code, b, basic_block, logs):  # type: ignore[no-untyped-def]
    """Return the logarithm of the density of a set of a block's conditions, were they independent.

    ``logs`` are those of one segment, shape (n_conditions,).
    """
    total = 0.0
    for c in range(len(basic_block)):
        if basic_block[c] == b:
            if code & 1:
                total += logs[c]
            code >>= 1
    return total


@njit(_nrt=False, error_model="numpy")
def _invert(a, b, weights):  # type: ignore[no-untyped-def]
    """Return the function at 1 whose transform is the product of two (`costmodel.waiting`)."""
    total = 0.0
    for z in range(len(weights)):
        total += (a[z] * b[z] * weights[z]).real
    return total


@njit(_nrt=False, error_model="numpy")
def _read(clumps, length, n, events, pieces, bridge):  # type: ignore[no-untyped-def]
    """Return blocks touched, blocks read and stretches of a segment of ``n`` blocks.

    With clumps at random, k neighbouring blocks are all untouched with probability ``c u**k``.
    """
    per_block = events / max(n, 1.0)
    c = math.exp(-clumps * (length - 1.0))
    u = math.exp(-clumps * per_block)
    touched = read = -n * math.expm1(-clumps * (length - 1.0 + per_block))
    power = 1.0
    for run in range(1, bridge + 1):
        power *= u
        read += max(n - run - 1.0, 0.0) * run * c * power * (1.0 - u) ** 2
    inner = max(n - (bridge + 1) * max(pieces, 1.0), 0.0)
    unread = c * power * u
    stretches = inner * unread * (1.0 - u) + pieces * (1.0 - unread)
    return touched, min(read, n), min(stretches, read)


@njit(_nrt=False, error_model="numpy")
def cover(  # type: ignore[no-untyped-def]
    codes,
    by_set,
    basic_block,
    logs,
    lengths,
    offset,
    exact,
    n_keys,
    window,
    half,
    segment_events,
    segment_blocks,
    segment_stretches,
    bridge,
    points,
    weights,
    summed,
    lag,
    shift,
    reals,
    terms,
    work,
    out,
):
    """Return candidates, length, share, blocks touched and read, stretches, and searches.

    See `costmodel.coverage.estimate_coverage`. P plans, S segments, B basic blocks, C conditions.

    Parameters
    ----------
    codes
        The set each plan uses of each block's conditions, shape (B, P): bit j stands for the j-th.
    by_set
        For each block its sets if all of them are worked out, 0 if plans are; shape (B,).
    basic_block, lengths, offset
        Of the conditions, shape (C,); of the blocks, shape (B,), and summed up, shape (B + 1,).
    logs
        Logarithms of densities, shape (S, C).
    exact
        ``starts_exact`` and ``ends_exact``.
    n_keys, segment_events, segment_blocks, segment_stretches, bridge
        As in `PlanFeatures`.
    window, half
        Events of a window, and half a step of them; shape (S,).
    points, weights
        Of the contour, shape (Z,).
    summed, lag, shift
        What they are multiplied with in each segment, shape (S, Z); see `costmodel.coverage`.
    reals, terms, work
        Room to work in, of shapes (2, B, P), (3, B, P, Z) of complex numbers, and (5, Z) of them.
    out
        Receives the result, shape (7, P, S).
    """
    n_plans, n_segments, n_basic = codes.shape[1], len(logs), len(lengths)
    # Of each block under each set of its conditions, or under each plan if these are fewer.
    density, rate = reals[0], reals[1]
    # What the transform of all has of a block, and what takes the block out of it again.
    term, factor, taken_out = terms[0], terms[1], terms[2]
    transform, others, near, spent = work[0], work[1], work[2], work[3:]
    for s in range(n_segments):
        events = max(segment_events[s], 1.0)
        for b in range(n_basic):
            for row in range(by_set[b] or n_plans):
                code = row if by_set[b] else codes[b, row]
                together = _together(code, b, basic_block, logs[s])
                known = min(max(math.exp(together), DENSITY_MIN), DENSITY_MAX)
                density[b, row] = known if code else _UNUSED
                rate[b, row] = _rate(known / n_keys) * window[s]
                x = rate[b, row]
                for z in range(len(points)):
                    term[b, row, z] = _inverse(x, points[z])
                    factor[b, row, z] = x * term[b, row, z] * shift[s, z]
                    apart = lag[s, z]
                    taken_out[b, row, z] = summed[s, z] + complex(apart.real / x, apart.imag / x)
        for p in range(n_plans):
            first = rarest = second = -1
            least = next_least = _UNUSED
            for b in range(n_basic):
                here = density[b, codes[b, p] if by_set[b] else p]
                if here < _UNUSED and first < 0:
                    first = b
                if here < least:
                    second, next_least = rarest, least
                    rarest, least = b, here
                elif here < next_least:
                    second, next_least = b, here
            if first < 0:
                n, pieces = segment_blocks[s], segment_stretches[s]
                out[CANDIDATES, p, s] = 0.0
                out[LENGTH, p, s] = events
                out[SHARE, p, s] = 1.0
                out[TOUCHED, p, s] = n
                out[BLOCKS, p, s] = n
                out[STRETCHES, p, s] = pieces
                out[SEARCHES, p, s] = 1.0
                continue
            for z in range(len(points)):  # assigning a slice takes seconds to compile
                transform[z] = 1.0
                spent[0, z] = 0.0
                spent[1, z] = 0.0
            spent_left = spent_right = 0.0
            for b in range(n_basic):
                row = codes[b, p] if by_set[b] else p
                if density[b, row] == _UNUSED:
                    continue
                left = 1.0 if rarest < b else 0.0
                right = 1.0 if rarest > b else 0.0
                if rarest != b:
                    left += 1.0 if b == 0 and exact[0] else 0.0
                    right += 1.0 if b == n_basic - 1 and exact[1] else 0.0
                spent_left += left
                spent_right += right
                for z in range(len(points)):
                    transform[z] *= factor[b, row, z]
                if left > 0.0:
                    for z in range(len(points)):
                        spent[0, z] += left * term[b, row, z]
                if right > 0.0:
                    for z in range(len(points)):
                        spent[1, z] += right * term[b, row, z]
            of_rarest = codes[rarest, p] if by_set[rarest] else p
            of_first = codes[first, p] if by_set[first] else p
            x_rarest = rate[rarest, of_rarest]
            first_density = density[first, of_first]
            begins = _invert(transform, taken_out[first, of_first], weights)
            for z in range(len(points)):
                others[z] = transform[z] * taken_out[rarest, of_rarest, z]
            for z in range(len(points)):
                near[z] = 1.0
            fits = max(_invert(others, near, weights), _PROBABILITY_MIN)
            begins = min(max(begins, 0.0), 1.0)
            distinct = 1.0
            if second < 0:
                begins = 1.0
            else:
                # Occurrences of the rarest block without one of the next between them have their
                # candidates in common: only the nearest counts.
                x_next = rate[second, codes[second, p] if by_set[second] else p]
                for z in range(len(points)):
                    near[z] = x_rarest * _inverse(x_next + x_rarest, points[z])
                distinct = min(max(fits - _invert(others, near, weights), 0.0), 1.0)
            length = 1.0
            for side in range(2):
                end = 0 if side == 0 else n_basic - 1
                if exact[side] and rarest == end:
                    length += 0.0 if side == 0 else float(lengths[end] - 1)
                    continue
                positions = offset[rarest]
                if side == 1:
                    positions = offset[n_basic] - 1 - offset[rarest]
                lost = min(max(_invert(others, spent[side], weights) / fits, 0.0), 2.0) * window[s]
                lost -= (spent_left if side == 0 else spent_right) * half[s] * window[s]
                length += max(positions + (window[s] - 1.0) - lost, 0.0)
            length = min(length, events)
            clumps = -math.log1p(-min(least * distinct, DENSITY_MAX))
            touched, read, pieces = _read(
                clumps,
                length,
                segment_blocks[s],
                segment_events[s],
                segment_stretches[s],
                bridge,
            )
            out[CANDIDATES, p, s] = events * first_density * begins
            out[LENGTH, p, s] = length
            out[SHARE, p, s] = -math.expm1(-clumps * length)
            out[TOUCHED, p, s] = touched
            out[BLOCKS, p, s] = read
            out[STRETCHES, p, s] = pieces
            out[SEARCHES, p, s] = begins if first == 0 else 0.0
