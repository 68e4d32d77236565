"""Compiled leaves of the cost model: coverage and lookups of many plans at once."""

from __future__ import annotations

import math

import numpy as np

from chronicle.compiled import njit

DENSITY_MIN = 1e-15
DENSITY_MAX = 1.0 - 1e-12
_PROBABILITY_MIN = 1e-200
_UNUSED = 2.0
"""Density of a basic block that a plan does not use: never the rarest."""

CANDIDATES, LENGTH, SHARE, TOUCHED, BLOCKS, STRETCHES, SEARCHES = range(7)
"""Rows of what `cover` returns."""

ENTRIES, COMPARED, DECODED, ASKED = range(4)
"""Rows of what `ask` returns."""


@njit(error_model="numpy")
def _rate(density):  # type: ignore[no-untyped-def]
    return -math.log1p(-min(density, DENSITY_MAX))


@njit(error_model="numpy")
def _inverse(x, z):  # type: ignore[no-untyped-def]
    """Return ``1 / (x + z)``, which never overflows here: x is not negative, z of a few tens."""
    real = x + z.real
    size = real * real + z.imag * z.imag
    return complex(real / size, -z.imag / size)


@njit(error_model="numpy")
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


@njit(error_model="numpy")
def _invert(a, b, weights):  # type: ignore[no-untyped-def]
    """Return the function at 1 whose transform is the product of two (`costmodel.waiting`)."""
    total = 0.0
    for z in range(len(weights)):
        total += (a[z] * b[z] * weights[z]).real
    return total


@njit(error_model="numpy")
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


@njit(error_model="numpy")
def cover(  # type: ignore[no-untyped-def]
    codes,
    by_set,
    basic_block,
    logs,
    lifts,
    lift_start,
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
    lifts, lift_start
        ``PlanFeatures.lifts`` one behind the other, and where each block's begin, shape (B + 1,).
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
                if lift_start[b] < lift_start[b + 1]:
                    together += lifts[lift_start[b] + code]
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


@njit(error_model="numpy")
def _turns(used, rarity, basic_block, lookup, entries, by_entries, wider_share, places, turns):  # type: ignore[no-untyped-def]
    """Write a plan's lookups in the order they are asked (`replay.planning.lookup_order`).

    ``used`` are its conditions, ``rarity`` logarithms of the density of each basic block.
    ``places`` receives how many conditions ask each lookup. Returns how many lookups there are.
    """
    for x in range(len(entries)):
        places[x] = 0
    first = -1
    for c in range(len(used)):
        if not used[c]:
            continue
        places[lookup[c]] += 1
        if first >= 0:
            here, there = rarity[basic_block[c]], rarity[basic_block[first]]
            if here > there or (here == there and entries[lookup[c]] >= entries[lookup[first]]):
                continue
        first = c
    if first < 0:
        return 0
    n = 0
    rarest = lookup[first]
    for x in by_entries:
        if places[x] > places[rarest] and entries[x] * wider_share < entries[rarest]:
            turns[0], n = x, 1
            break
    turns[n] = rarest
    n += 1
    for x in by_entries:
        if places[x] and x != rarest and x != turns[0]:
            turns[n] = x
            n += 1
    return n


@njit(error_model="numpy")
def ask(  # type: ignore[no-untyped-def]
    selected,
    codes,
    basic_block,
    bit,
    lookup,
    logs,
    lifts,
    lift_start,
    exact,
    entries,
    in_order,
    group_entries,
    by_entries,
    n_events,
    window,
    limits,
    reals,
    whole,
    out,
):
    """Return what the lookups of plans take, one asked after the other.

    See `costmodel.lookups.estimate_lookups`. P plans, L lookups, B basic blocks, C conditions.

    Parameters
    ----------
    selected, basic_block, lookup, entries, in_order, group_entries
        As in `PlanFeatures`; ``in_order`` of shape (L,).
    codes, bit
        The set each plan uses of each block's conditions, shape (B, P), and the bit of it that
        stands for each condition, shape (C,).
    by_entries
        Lookups, those of fewest entries first.
    logs
        Logarithms of the density of each condition in all that remains, shape (C,).
    lifts, lift_start, exact
        As in `cover`.
    n_events, window
        Events that remain, and of a window on average.
    limits
        Of `costmodel.lookups.LIMITS`.
    reals, whole
        Room to work in, of shapes (2, B) and (3, max(B, L)).
    out
        Receives the result: zeros, shape (4, P).
    """
    entries_min, hits_max, given_max, cover_max, saturated, rows_max, within_share = limits
    n_plans, n_basic = len(selected), len(lift_start) - 1
    rarity, density = reals[0], reals[1]
    known, places, turns = whole[0], whole[1], whole[2]
    for p in range(n_plans):
        for b in range(n_basic):
            rarity[b] = _together(codes[b, p], b, basic_block, logs)
        n_turns = _turns(
            selected[p],
            rarity,
            basic_block,
            lookup,
            entries,
            by_entries,
            hits_max,
            places,
            turns,
        )
        for b in range(n_basic):
            known[b] = 0
            density[b] = 1.0
        given = 0.0
        for place in range(n_turns):
            here = turns[place]
            n = entries[here]
            read, joined, spans = n, n, -1.0
            if place and n >= entries_min:
                rarest = 0
                for b in range(n_basic):
                    if density[b] < density[rarest]:
                        rarest = b
                hits = n_events * density[rarest]
                # A candidate has the others in its window, by chance.
                candidates = hits
                for b in range(n_basic):
                    if b != rarest and known[b]:
                        candidates *= -math.expm1(-density[b] * window)
                is_known, rows = True, 0.0
                for c in range(len(lookup)):
                    if selected[p, c] and lookup[c] == here:
                        is_known = is_known and known[basic_block[c]] > 0
                        rows = max(rows, n_events * density[basic_block[c]])
                may_narrow = hits <= hits_max * n and given <= given_max * n
                if may_narrow and hits * window <= saturated * n_events:
                    length = window
                    if not (exact[0] and rarest == 0) and not (exact[1] and rarest == n_basic - 1):
                        length = 2.0 * window
                    covered = -math.expm1(-candidates * length / n_events)
                    given = min(given, n_events * covered)
                    if is_known:
                        spans = min(rows, candidates if rows == hits else rows)
                        joined = n * spans / n_events
                    elif covered <= cover_max:
                        spans = candidates
                        joined = n * covered
                elif is_known and rows <= rows_max * n:
                    spans = rows
                    joined = n * rows / n_events
            if spans >= 0.0:
                if in_order[here]:
                    read = min(n, (spans + 1.0) * group_entries)
                joined = min(joined, read)
                out[ENTRIES, p] += within_share * read + joined
            else:
                out[ENTRIES, p] += n
            if not in_order[here]:
                out[COMPARED, p] += joined * math.log2(max(joined, 1.0))
            out[DECODED, p] += read
            out[ASKED, p] += 1.0
            given += joined
            for c in range(len(lookup)):
                if selected[p, c] and lookup[c] == here:
                    b = basic_block[c]
                    known[b] |= np.int64(1) << bit[c]
                    together = _together(known[b], b, basic_block, logs)
                    if lift_start[b] < lift_start[b + 1]:
                        together += lifts[lift_start[b] + known[b]]
                    density[b] = min(max(math.exp(together), DENSITY_MIN), 1.0)
