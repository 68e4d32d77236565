"""What DuckDB adds to our language: the written list that sends a statement to it.

A statement is DuckDB's if our language cannot read it and it has one of these. Anything else keeps
our own message. What stands in the parentheses of `PATTERN_CLAUSES` is always ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from replay.language.functions import FUNCTIONS, PARTS
from replay.language.syntax import WINDOW_ARGUMENTS
from replay.language.tokens import NAME, NUMBER, QUOTED, STRING, Token

_FUNCTION_WORDS = """
    abs acos acosh aggregate any_value apply approx_count_distinct approx_quantile approx_top_k
    arbitrary arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last
    argmax argmin array_agg array_aggr array_aggregate array_append array_apply array_cat
    array_concat array_contains array_cosine_distance array_cosine_similarity array_cross_product
    array_distance array_distinct array_dot_product array_extract array_filter array_grade_up
    array_has array_has_all array_has_any array_indexof array_inner_product array_intersect
    array_length array_negative_dot_product array_negative_inner_product array_pop_back
    array_pop_front array_position array_prepend array_push_back array_push_front array_reduce
    array_resize array_reverse array_reverse_sort array_select array_slice array_sort
    array_to_json array_to_string array_transform array_unique array_where array_zip ascii asin
    asinh atan atan2 atanh avg bar base64 bin binom bit_and bit_count bit_length bit_or
    bit_position bit_xor bitstring bitstring_agg bool_and bool_or cardinality cbrt ceil ceiling
    century char_length character_length chr coalesce concat concat_ws contains corr cos cosh cot
    count count_if countif covar_pop covar_samp cume_dist damerau_levenshtein date_add date_diff
    date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth
    dayofweek dayofyear days_in_month decade decode degrees dense_rank element_at encode ends_with
    entropy epoch epoch_ms epoch_ns epoch_us equi_width_bins era even exp factorial fdiv fill
    filter first first_value flatten floor fmod format format_bytes formatreadabledecimalsize
    formatreadablesize from_base64 from_binary from_hex from_json from_json_strict fsum gamma gcd
    generate_series generate_subscripts geomean geometric_mean get_bit greatest
    greatest_common_divisor group_concat hamming hash hex histogram histogram_exact hour if ifnull
    instr isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity json
    json_array json_array_length json_contains json_deep_merge json_exists json_extract
    json_extract_path json_extract_path_text json_extract_string json_group_array
    json_group_object json_insert json_keys json_merge_patch json_merge_patch_diff json_normalize
    json_object json_pretty json_quote json_remove json_replace json_set json_strip_nulls
    json_structure json_transform json_transform_strict json_type json_valid json_value julian
    kahan_sum kurtosis kurtosis_pop lag last last_day last_value lcase lcm lead least
    least_common_multiple left left_grapheme len length length_grapheme levenshtein lgamma list
    list_aggr list_aggregate list_any_value list_append list_apply list_approx_count_distinct
    list_avg list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_cat list_concat
    list_contains list_cosine_distance list_cosine_similarity list_count list_distance
    list_distinct list_dot_product list_element list_entropy list_extract list_filter list_first
    list_grade_up list_has list_has_all list_has_any list_histogram list_indexof
    list_inner_product list_intersect list_kurtosis list_kurtosis_pop list_last list_mad list_max
    list_median list_min list_mode list_negative_dot_product list_negative_inner_product list_pack
    list_position list_prepend list_product list_reduce list_resize list_reverse list_reverse_sort
    list_select list_sem list_skewness list_slice list_sort list_stddev_pop list_stddev_samp
    list_string_agg list_sum list_transform list_unique list_value list_var_pop list_var_samp
    list_where list_zip listagg ln log log10 log2 lower lpad ltrim lttb mad make_date make_time
    make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz map map_concat
    map_contains map_contains_entry map_contains_value map_entries map_extract map_from_entries
    map_keys map_values max max_by md5 md5_number md5_number_lower md5_number_upper mean median
    microsecond millennium millisecond min min_by minute mismatches mod mode month monthname
    nanosecond nextafter nfc_normalize normalized_interval nth_value ntile nullif octet_length ord
    overlay parse_dirname parse_dirpath parse_filename parse_formatted_bytes parse_path
    percent_rank pi position pow power prefix printf product quantile quantile_cont quantile_disc
    quarter radians range rank rank_dense reduce regexp_escape regexp_extract regexp_extract_all
    regexp_full_match regexp_matches regexp_replace regexp_split_to_array regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse
    right right_grapheme round round_even roundbankers row_number row_to_json rpad rtrim second
    sem set_bit sha1 sha256 sign signbit sin sinh skewness split split_part sqrt starts_with
    stddev stddev_pop stddev_samp str_split str_split_regex strftime string_agg string_split
    string_split_regex string_to_array strip_accents strlen strpos strptime struct_concat
    struct_contains struct_extract struct_extract_at struct_has struct_indexof struct_insert
    struct_keys struct_pack struct_position struct_values substr substring substring_grapheme
    suffix sum sum_no_overflow sumkahan tan tanh time_bucket timezone timezone_hour
    timezone_minute to_base to_base64 to_binary to_centuries to_days to_decades to_hex to_hours
    to_json to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters
    to_seconds to_timestamp to_weeks to_years translate trim trunc try_strptime typeof ucase unbin
    unhex unicode upper url_decode url_encode uuid_extract_timestamp uuid_extract_version var_pop
    var_samp variance wavg week weekday weekofyear weighted_avg xor year yearweek
"""
CALLABLE = frozenset(_FUNCTION_WORDS.split())
"""Functions of DuckDB that a statement may call: the same arguments give the same value.

Not among them: what reads the clock, chance, files, settings or the catalog.
"""

_SPECIAL_FORMS_WORDS = """
    cast columns extract grouping grouping_id percentile_cont percentile_disc try try_cast unnest
"""
SPECIAL_FORMS = frozenset(_SPECIAL_FORMS_WORDS.split())
"""Calls that are syntax to DuckDB, not functions of its catalog."""

TABLE_FUNCTIONS = frozenset({"generate_series", "range", "unnest"})
"""Functions that may stand in FROM."""

_OUR_AGGREGATES_WORDS = """
    avg bool_and bool_or count count_if every max min stddev stddev_pop stddev_samp sum var_pop
    var_samp variance
"""
_OUR_AGGREGATES = frozenset(_OUR_AGGREGATES_WORDS.split())
_OF_WINDOWS_WORDS = """
    approx_count_distinct approx_quantile first first_value last last_value median
"""
_OF_WINDOWS = frozenset(_OF_WINDOWS_WORDS.split())
"""Aggregates of our windows and groups, which the answer of a MATCH_RECOGNIZE lacks."""

_PERCENTILES = frozenset({"percentile_cont"})
"""Aggregates of our windows that elsewhere are DuckDB's."""

AGGREGATES_OF_WINDOWS = _OUR_AGGREGATES | _OF_WINDOWS | _PERCENTILES | {"approx_percentile"}
"""Aggregates that our windows have."""

_FURTHER = (
    (CALLABLE | SPECIAL_FORMS)
    - frozenset(FUNCTIONS)
    - _OUR_AGGREGATES
    - _OF_WINDOWS
    - _PERCENTILES
    - {"cast", "extract", "try_cast"}
)

_SET_OPERATIONS = frozenset({"EXCEPT", "INTERSECT", "UNION"})
_OTHER_JOINS = frozenset({"ANTI", "CROSS", "FULL", "NATURAL", "POSITIONAL", "RIGHT", "SEMI"})
_QUERY_BEGINS = frozenset({"FROM", "SELECT", "TABLE", "VALUES", "WITH"})
_SIGNS = frozenset({"::", "[", "{", "~", "&", "@", "#"})
_TYPES_WORDS = """
    BIGNUM BLOB DECIMAL HUGEINT INTERVAL JSON LIST MAP NUMERIC STRUCT TIME TINYINT UBIGINT
    UINTEGER UUID
"""
_TYPES = frozenset(_TYPES_WORDS.split())
_CALENDAR_WORDS = "MONTH MONTHS QUARTER QUARTERS YEAR YEARS"
_CALENDAR = frozenset(_CALENDAR_WORDS.split())
_END_FROM_WORDS = """
    DEFINE EXCEPT FETCH GROUP HAVING INTERSECT LIMIT OFFSET ORDER PARTITION QUALIFY SELECT UNION
    WHERE WINDOW
"""
END_FROM = frozenset(_END_FROM_WORDS.split())
"""Words that end the sources of a SELECT, or of a temporal pattern."""

_FROM_SUBQUERY = frozenset({"AS", "FROM", "JOIN", "MATERIALIZED", "TABLE", "=>"})
"""What stands before a subquery of FROM, or before a query of WITH."""


def closings(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the place of each closing sign by that of its opening one; unmatched ones are left."""
    pairs = {")": "(", "]": "[", "}": "{"}
    waiting: list[int] = []
    found: dict[int, int] = {}
    for i, token in enumerate(tokens):
        if token.key in ("(", "[", "{"):
            waiting.append(i)
        elif token.key in pairs and waiting and tokens[waiting[-1]].key == pairs[token.key]:
            found[waiting.pop()] = i
    return found


PATTERN_CLAUSES = ("MATCH_RECOGNIZE", "MATCH_SITUATIONS")
"""Clauses of ours that stand behind a source, in parentheses."""


def is_pattern_clause(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether one of `PATTERN_CLAUSES` begins here."""
    return tokens[i].key in PATTERN_CLAUSES and tokens[i + 1].key == "("


def is_definition(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether ``DEFINE name AS`` begins here, of ``FROM source DEFINE …``."""
    return tokens[i].key == "DEFINE" and tokens[min(i + 2, len(tokens) - 1)].key == "AS"


def outside_patterns(
    tokens: Sequence[Token], closing: dict[int, int], first: int, stop: int
) -> Iterator[int]:
    """Yield the places of tokens that are not inside one of `PATTERN_CLAUSES`."""
    i = first
    while i < stop:
        yield i
        if is_pattern_clause(tokens, i):
            yield i + 1
            i = closing.get(i + 1, stop)
        else:
            i += 1


def has_construct(tokens: Sequence[Token], closing: dict[int, int], first: int, stop: int) -> bool:
    """Tell whether something of the list stands in these tokens."""
    in_from = [False]
    selects = _Selects()
    # Windows of the calendar are ours; elsewhere intervals of months are DuckDB's.
    has_windows = any(is_window_call(tokens, i) for i in range(first, stop))
    for i in outside_patterns(tokens, closing, first, stop):
        key = tokens[i].key
        selects.take(tokens, i)
        if key in ("(", "[", "{"):
            in_from.append(False)
        elif key in (")", "]", "}") and len(in_from) > 1:
            in_from.pop()
        elif begins_sources(tokens, i):
            in_from[-1] = True
        elif key in END_FROM:
            in_from[-1] = False
        if key == "," and in_from[-1]:
            return True  # a list of sources
        if key in _SIGNS or _is_call_of(_FURTHER, tokens, i) or _is_sign_pair(tokens, i):
            return True
        if key in _WORDS and _WORDS[key](tokens, i) and not (key == "INTERVAL" and has_windows):
            return True
    return selects.have_foreign_aggregates


class _Selects:
    """What each SELECT has at its own level."""

    def __init__(self) -> None:
        self._n = 1
        self._open = [0]
        """Numbers of the SELECTs that parentheses stand in."""
        self._windows: set[int] = set()
        self._of_windows: set[int] = set()
        self._percentiles: set[int] = set()
        self._has_pattern = False

    def take(self, tokens: Sequence[Token], i: int) -> None:
        """Take the next token that is not inside of a pattern clause."""
        key, select = tokens[i].key, self._open[-1]
        if key in ("(", "[", "{"):
            is_query = begins_query(tokens, i)
            self._open.append(self._n if is_query else select)
            self._n += is_query
        elif key in (")", "]", "}") and len(self._open) > 1:
            self._open.pop()
        elif is_window_call(tokens, i):
            self._windows.add(select)
        elif _is_call_of(_OF_WINDOWS, tokens, i):
            self._of_windows.add(select)
        elif _is_call_of(_PERCENTILES, tokens, i) or _is_within_group(tokens, i):
            self._percentiles.add(select)
        self._has_pattern |= is_pattern_clause(tokens, i)

    @property
    def have_foreign_aggregates(self) -> bool:
        """Whether an aggregate stands where it is DuckDB's, which runs no windows of ours."""
        of_both = self._of_windows if self._has_pattern else set[int]()
        return bool((of_both | self._percentiles) - self._windows)


def is_window_call(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether TUMBLE(TABLE …) or the like begins here."""
    is_call = tokens[i].key in WINDOW_ARGUMENTS and tokens[i + 1].key == "("
    return is_call and tokens[i + 2].key in ("TABLE", "DATA")


def begins_query(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether a query in parentheses begins here."""
    return tokens[i].key == "(" and tokens[i + 1].key in _QUERY_BEGINS


def begins_sources(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether a FROM is that of a SELECT; IS DISTINCT FROM is none."""
    return tokens[i].key == "FROM" and not (
        i > 1 and tokens[i - 1].key == "DISTINCT" and tokens[i - 2].key in ("IS", "NOT")
    )


def is_window_join(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether a JOIN is one of ours: ASOF, or WITHIN a span."""
    is_asof = any(token.key == "ASOF" for token in tokens[max(0, i - 3) : i])
    return is_asof or _says(tokens, i, "WITHIN")


def _says(tokens: Sequence[Token], i: int, *keys: str) -> bool:
    """Tell whether one of some words belongs to a JOIN."""
    depth = 0
    for token in tokens[i + 1 :]:
        depth += (token.key == "(") - (token.key == ")")
        if depth < 0 or (depth == 0 and (token.key == "JOIN" or token.key in END_FROM)):
            return False
        if depth == 0 and token.key in keys:
            return True
    return False


def _is_call_of(names: frozenset[str], tokens: Sequence[Token], i: int) -> bool:
    token = tokens[i]
    return token.kind == NAME and tokens[i + 1].key == "(" and token.text.lower() in names


def _is_within_group(tokens: Sequence[Token], i: int) -> bool:
    return tokens[i].key == "WITHIN" and tokens[i + 1].key == "GROUP"


def _is_sign_pair(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether two signs are one of DuckDB's: ``->``, ``//``, ``**``."""
    pair = tokens[i].key + tokens[i + 1].key
    return pair in ("->", "//", "**", "==") and tokens[i + 1].at == tokens[i].at + 1


_Test = Callable[[Sequence[Token], int], bool]


def _before(*keys: str) -> _Test:
    return lambda tokens, i: tokens[i + 1].key in keys


def _subquery(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether a query in parentheses is no plain subquery of FROM or WITH."""
    following = tokens[i + 1].key
    if following not in _QUERY_BEGINS - {"TABLE"}:  # TUMBLE(TABLE s, …)
        return False
    return following not in ("SELECT", "WITH") or i == 0 or tokens[i - 1].key not in _FROM_SUBQUERY


def _plain_join(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether a JOIN is DuckDB's; without a condition it is nobody's, and our message told."""
    is_file = tokens[i + 1].kind == STRING
    return is_file or (not is_window_join(tokens, i) and _says(tokens, i, "ON", "USING"))


def _is_set_operation(tokens: Sequence[Token], i: int) -> bool:
    return tokens[i + 1].key in (*_QUERY_BEGINS, "ALL", "BY", "DISTINCT", "(")


def _qualify(tokens: Sequence[Token], i: int) -> bool:
    return i > 0 and tokens[i - 1].key != "." and tokens[i + 1].kind in (NAME, QUOTED, STRING)


def _named_window(tokens: Sequence[Token], i: int) -> bool:
    return tokens[i + 1].kind == NAME and tokens[i + 2].key == "AS"


def _star_change(tokens: Sequence[Token], i: int) -> bool:
    follows = tokens[i + 1]
    return i > 0 and tokens[i - 1].key == "*" and (follows.key == "(" or follows.kind == NAME)


def _over(tokens: Sequence[Token], i: int) -> bool:
    return i > 0 and tokens[i - 1].key == ")" and tokens[i + 1].kind in (NAME, "operator")


def _as(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether AS names a type of DuckDB's, or a query that is (not) materialised."""
    following = tokens[i + 1].key
    if following == "MATERIALIZED" or (following == "NOT" and tokens[i + 2].key == "MATERIALIZED"):
        return True
    if "".join(token.text for token in tokens[i + 2 : i + 7]) == "(76,0)":
        return False  # the type of large counts, which is ours
    return following in _TYPES and tokens[i + 2].key in (")", "(")


def _calendar(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether an interval is one of months or years."""
    if tokens[i + 1].kind == STRING:
        words = tokens[i + 1].text.upper().split()
        return bool(_CALENDAR.intersection(words)) or tokens[i + 2].key in _CALENDAR
    return tokens[i + 1].kind == NUMBER and tokens[i + 2].key in _CALENDAR


def _further_part(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether a part of a time is extracted that our language lacks."""
    is_call = tokens[i + 1].key == "(" and tokens[i + 2].kind in (NAME, STRING)
    return is_call and tokens[i + 2].text.lower() not in PARTS


def _columns_of_with(tokens: Sequence[Token], i: int) -> bool:
    return tokens[i + 1].key == "RECURSIVE" or tokens[i + 2].key == "("


_WORDS: dict[str, _Test] = {
    "OVER": _over,
    "WINDOW": _named_window,
    "QUALIFY": _qualify,
    **dict.fromkeys(_SET_OPERATIONS, _is_set_operation),
    "(": _subquery,
    "EXISTS": _before("("),
    "EXTRACT": _further_part,
    "JOIN": _plain_join,
    **dict.fromkeys(_OTHER_JOINS, _before("JOIN", "OUTER", "LEFT", "INNER", "RIGHT", "FULL")),
    "LATERAL": _before("(", "UNNEST"),
    "FROM": lambda tokens, i: tokens[i + 1].kind == STRING and begins_sources(tokens, i),
    "SIMILAR": _before("TO"),
    "GLOB": lambda tokens, i: tokens[i + 1].kind == STRING,
    "ALL": lambda tokens, i: i > 0 and tokens[i - 1].key == "BY",
    "ROLLUP": _before("("),
    "CUBE": _before("("),
    "GROUPING": _before("SETS", "("),
    "DISTINCT": _before("ON"),
    "EXCLUDE": _star_change,
    "REPLACE": _star_change,
    "RENAME": _star_change,
    "FILTER": _before("("),
    "TABLESAMPLE": lambda _, __: True,
    "SAMPLE": lambda tokens, i: i > 0 and tokens[i - 1].key == "USING",
    "ANY": _before("("),
    "AS": _as,
    "WITH": _columns_of_with,
    "INTERVAL": _calendar,
}
"""By its first word: whether it is the construct that the word begins."""
