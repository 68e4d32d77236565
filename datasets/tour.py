"""The demo: three questions about twelve years of crime reports, each proven by a full replay."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import replay
from chronicle import Store, create_store
from chronicle.config import MARKER_FILE
from chronicle.errors import ChronicleError, StoreExistsError
from chronicle.ingest import IngestOptions, ingest
from datasets.crimes import write_usable
from indexing import RunWriter
from replay import Result

STREAM = "crimes"
INDEXES = ("primary_type", "neighborhood", "district")
ROUNDS = 9
"""Times a question is asked under each plan; the median is shown."""

# Reports that take an earlier one back have count = -1 and are no crime; they are left out of the
# symbols, not out of the stream, so that Z* may pass over them.
ROBBERY_TO_CAR_THEFT = """
SELECT * FROM crimes MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES R.ts AS robbery, A.ts AS assault, M.ts AS car_theft, M.ts - R.ts AS took
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN ( R Z* A Z* M ) WITHIN INTERVAL '30' MINUTE
  DEFINE
    R AS R.primary_type = 'ROBBERY' AND R.neighborhood = 35 AND R.count = 1,
    A AS A.primary_type = 'AGGRAVATED ASSAULT' AND A.neighborhood = 35 AND A.count = 1,
    M AS M.primary_type = 'MOTOR VEHICLE THEFT' AND M.neighborhood = 35 AND M.count = 1
)"""

HOMICIDE_TO_HOMICIDE = """
SELECT * FROM crimes MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES H.neighborhood AS neighborhood, FIRST(ts) AS since, LAST(ts) AS until,
           R.ts AS last_robbery, A.ts AS last_assault
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN ( H Z*? (R | A)+ Z*? K ) WITHIN INTERVAL '30' MINUTE
  DEFINE
    H AS H.primary_type = 'HOMICIDE' AND H.count = 1,
    R AS R.primary_type = 'ROBBERY' AND R.neighborhood = H.neighborhood AND R.count = 1,
    A AS A.primary_type = 'AGGRAVATED ASSAULT' AND A.neighborhood = H.neighborhood AND A.count = 1,
    K AS K.primary_type = 'HOMICIDE' AND K.neighborhood = H.neighborhood AND K.count = 1
)"""

LARCENIES_IN_A_ROW = """
SELECT * FROM crimes MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES L.neighborhood AS neighborhood, FIRST(ts) AS since, LAST(ts) AS until
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN ( L S{4,} )
  DEFINE
    L AS L.primary_type = 'LARCENY-THEFT' AND L.count = 1,
    S AS S.primary_type = 'LARCENY-THEFT' AND S.neighborhood = L.neighborhood AND S.count = 1
)"""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the tour."""

    text: str
    sql: str


QUESTIONS = (
    Question(
        "A robbery, then an aggravated assault, then a car theft in neighbourhood 35, "
        "all within 30 minutes?",
        ROBBERY_TO_CAR_THEFT,
    ),
    Question(
        "A homicide, then robberies or aggravated assaults, then another homicide in the same "
        "neighbourhood, all within 30 minutes?",
        HOMICIDE_TO_HOMICIDE,
    ),
    Question(
        "Five or more thefts in one neighbourhood with no other report in the city in between? "
        "(So common a crime, and no window of time: no index can help.)",
        LARCENIES_IN_A_ROW,
    ),
)


class TourError(ChronicleError):
    """Two plans gave different answers: a bug in Chronicle, never a property of the data."""


def run_tour(
    store_path: Path,
    *,
    command: str,
    say: Callable[[str], None],
    show: Callable[[Result], None],
) -> None:
    """Ingest the bundled crimes, ask the questions, and prove each answer by a full replay.

    Parameters
    ----------
    store_path
        Where the demo's store is made; one of an earlier demo is replaced.
    command
        How the user calls Chronicle's command line, for the commands to try next.
    say
        Takes words for a person.
    show
        Takes an answer to print.

    Raises
    ------
    TourError
        If a plan's answer differs from the full replay's.
    StoreExistsError
        If there is something else than an earlier demo's store at ``store_path``.
    """
    store = _new_store(store_path)
    source = store_path / "source" / "crimes.parquet"
    source.parent.mkdir()
    say(str(write_usable(source)))
    report = ingest(
        store,
        STREAM,
        [source],
        IngestOptions(time="ts", index=INDEXES),
        derived=RunWriter,
        progress=say,
    )
    shutil.rmtree(source.parent)
    say(f"{report}\n")
    for number, question in enumerate(QUESTIONS, start=1):
        say(f"Question {number}. {question.text}\n{question.sql}\n")
        _ask(store, question, say, show)
    _point_onwards(store_path, command, say)


def _new_store(path: Path) -> Store:
    """Make an empty store, replacing only what an earlier demo left."""
    if path.exists():
        is_demo = (path / MARKER_FILE).exists() and set(_stream_folders(path)) <= {STREAM, "source"}
        if not is_demo and any(path.iterdir()):
            raise StoreExistsError(
                f"'{path}' holds something else than an earlier demo's store; "
                "name another folder with --store"
            )
        shutil.rmtree(path)
    return create_store(path)


def _stream_folders(path: Path) -> list[str]:
    return [child.name for child in path.iterdir() if child.is_dir()]


def _ask(
    store: Store, question: Question, say: Callable[[str], None], show: Callable[[Result], None]
) -> None:
    """Ask one question under the chosen plan and in full, compare, and print both."""
    chosen_ms, full_ms = [], []
    chosen = replay.query(store, question.sql)  # warms caches; the rounds below count
    full = replay.query(store, question.sql, plan="full")
    for _ in range(ROUNDS):
        chosen, seconds = _timed(store, question.sql, "auto")
        chosen_ms.append(1e3 * seconds)
        full, seconds = _timed(store, question.sql, "full")
        full_ms.append(1e3 * seconds)
    if not chosen.table.equals(full.table):
        raise TourError(f"the answer of plan {chosen.plan} differs from the full replay's")
    show(chosen)
    read, total = chosen.actual.blocks_read, chosen.actual.blocks_total
    reason = "" if chosen.plan is None else chosen.plan.reason
    fast, slow = median(chosen_ms), median(full_ms)
    say(f"plan {reason}")
    say(f"blocks read: {read:,} of {total:,}")
    say(f"chosen plan {fast:.1f} ms, full replay {slow:.1f} ms: {slow / fast:.1f} times as long")
    say("the full replay gives the same answer, row for row\n")


def _timed(store: Store, sql: str, plan: str) -> tuple[Result, float]:
    started = perf_counter()
    result = replay.query(store, sql, plan=plan)
    return result, perf_counter() - started


def _point_onwards(store_path: Path, command: str, say: Callable[[str], None]) -> None:
    two_fires = (
        "SELECT * FROM crimes MATCH_RECOGNIZE (ORDER BY ts MEASURES A.ts AS fire, B.ts AS next "
        "PATTERN (A Z*? B) WITHIN 10 MINUTES DEFINE A AS A.primary_type = 'ARSON' "
        "AND A.district = 3, B AS B.primary_type = 'ARSON' AND B.district = 3)"
    )
    say(
        f"The store stays in {store_path}. Three commands to try next:\n"
        f"  {command} describe crimes --store {store_path}\n"
        f'  {command} query --store {store_path} --analyze "{two_fires}"\n'
        f'  {command} query --store {store_path} --explain "{two_fires}"'
    )
