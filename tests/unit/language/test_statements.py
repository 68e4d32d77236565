"""A text of several statements is parted where they end, and nowhere else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replay.language.statements import split_statements

BODIES = (
    "SELECT 1",
    "SELECT ';' FROM s",
    'WITH q AS (SELECT 1) SELECT "a;" FROM q',
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN (A B) DEFINE B AS x > 1)",
    "FROM s DEFINE A AS x, B AS y PATTERN A meets; overlaps B; B contains A",
    "FROM s DEFINE show AS x, B AS y PATTERN B meets show; show met by B WITHIN 5",
    "SELECT * FROM s MATCH_SITUATIONS (DEFINE A AS x, B AS y\nPATTERN A meets; overlaps B)",
    "RETURN COUNT(*) FROM s PATTERN SEQ(A a, B b)",
    "SHOW STREAMS",
)
BLANKS = st.sampled_from([" ", "\n", "-- a; b\n", "/* ; ' \n */", "\t", "\x0c", ";"])


@given(st.lists(st.tuples(BLANKS, st.sampled_from(BODIES), BLANKS), min_size=2, max_size=5))
def test_each_statement_stands_in_its_place(parts: list[tuple[str, str, str]]) -> None:
    text, places = "", []
    for before, body, after in parts:
        places.append(len(text + before))
        text += f"{before}{body}{after};"
    found = split_statements(text)

    assert len(found) == len(parts)
    for statement, (_, body, _), at in zip(found, parts, places, strict=True):
        assert statement[at:].startswith(body)
        assert not statement[:at].strip()
        assert len(statement[:at].splitlines()) == len(text[:at].splitlines())
