"""Read JSON: a record per line, or one array of records; each is parsed by itself."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.cells import (
    EXACT_INTEGER_MAX,
    JSON_BOOL,
    JSON_LARGE,
    JSON_NUMBER,
    JSON_OTHER,
)
from chronicle.ingest.raw_text import (
    NOT_UTF8,
    RECORD_BYTES_MAX,
    Place,
    RecordBatch,
    Reject,
    lines_of,
    too_long,
    utf8_chunks,
)

_BATCH_RECORDS = 1 << 14
"""Records handed on together."""

_PARSED_RECORDS = 512
"""Records held as objects: few, for Python looks them all over again and again."""

_NO_BLANK = re.compile(r"[^ \t\r\n]")

_NO_JSON = "the record does not parse"
_NO_OBJECT = "the record is no JSON object"
_TOO_DEEP = "the record does not parse: its values are nested too deeply"
_NO_TEXT = "the record does not parse: half a surrogate pair is no text"

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""How a half is written; most have their other one beside them."""


@dataclass(slots=True)
class JsonRecords:
    """The records of one JSON file, to be read from front to back; see ``read_plan.Records``."""

    path: Path
    encoding: str = "utf-8"
    flatten: bool = False
    """Whether fields of objects become columns."""

    null: tuple[str, ...] = ()
    """Texts that stand for no value."""

    exact: bool = False
    """Whether numbers with a fraction are read as decimals, not as doubles."""

    names: tuple[str, ...] | None = None
    """Columns to hand on; None for all that a batch has."""

    texts: frozenset[str] = frozenset()
    """Columns of text, in which numbers are spelled as the file spells them."""

    _rejects: list[Reject] = field(default_factory=list)

    def __iter__(self) -> Iterator[RecordBatch]:
        found = self._scan(self._rejects)
        first, columns = 0, _Columns(self.names)
        while scanned := list(islice(found, _PARSED_RECORDS)):
            columns.add([self._flat(record) for _, _, record in scanned])
            if self.texts:
                columns.spell(self.texts, [text for _, text, _ in scanned], self._spelled)
            if columns.n_records >= _BATCH_RECORDS:
                yield columns.to_batch(first)
                first, columns = first + columns.n_records, _Columns(self.names)
        if columns.n_records:
            yield columns.to_batch(first)

    def _flat(self, record: dict[str, Any]) -> dict[str, Any]:
        return flattened(record) if self.flatten else record

    def _spelled(self, text: str) -> dict[str, Any]:
        """Return a record with its numbers as they are spelled."""
        return self._flat(_SPELLING.decode(text))

    def rejects(self) -> Sequence[Reject]:
        """Return what is no record, with its line."""
        return self._rejects

    def places(self, numbers: Sequence[int]) -> Iterator[Place]:
        """Yield the places of some records, by reading the file again."""
        wanted = frozenset(numbers)
        if wanted:
            last = max(wanted)
            for at, (line, text, _) in enumerate(islice(self._scan([]), last + 1)):
                if at in wanted:
                    yield Place(line, text)

    def cells_of(self, text: str, *, doubtful: str | None = None) -> str | None:  # noqa: ARG002
        """Return the fields of a record as a JSON object, once its objects are flattened.

        None without --flatten: a record is an object itself, which has its cells by name.
        """
        if not self.flatten:
            return None
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return json.dumps(flattened(record)) if type(record) is dict else None

    def first(self, n: int) -> list[tuple[int, dict[str, Any]]]:
        """Return the first records and their lines."""
        found = islice(self._scan([]), n)
        return [(line, self._flat(record)) for line, _, record in found]

    def _scan(self, rejects: list[Reject]) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Yield line, text and value of each record; what is none is added to the rejects."""
        decoder = self._decoder()
        if starts_array(self.path, self.encoding):
            found = array_elements(self.path, self.encoding, decoder.raw_decode)
        else:
            found = _parsed_lines(self.path, self.encoding, decoder.raw_decode, rejects)
        for number, text, value in found:
            if type(value) is not dict:
                rejects.append(Reject(number, text, _NO_OBJECT))
            elif _SURROGATE.search(text) and not _is_text(value):
                rejects.append(Reject(number, text, _NO_TEXT))
            elif _may_repeat(text, value) and (key := _repeated_key(text)) is not None:
                rejects.append(Reject(number, text, f"the record has the key '{key}' twice"))
            else:
                yield number, text, value

    def _decoder(self) -> json.JSONDecoder:
        # A number with a fraction is a double, as JSON has it, unless columns are decimals.
        given: dict[str, Any] = {"parse_float": Decimal} if self.exact else {}
        if self.null:
            return json.JSONDecoder(object_hook=self._without_null_texts, **given)
        return json.JSONDecoder(**given)

    def _without_null_texts(self, record: dict[str, Any]) -> dict[str, Any]:
        return {
            name: None if type(value) is str and value in self.null else value
            for name, value in record.items()
        }


def _parsed_lines(
    path: Path,
    encoding: str,
    scan: Callable[[str, int], tuple[Any, int]],
    rejects: list[Reject],
) -> Iterator[tuple[int, str, Any]]:
    """Yield line, text and value of each line that is JSON; others are added to the rejects."""
    for number, line in enumerate(lines_of(path, encoding), 1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        line = line.rstrip(b"\r\n")
        if not line.strip():
            continue
        text = record = ""
        try:
            text = line.decode()
            record = text.rstrip()
            value, end = scan(record, len(record) - len(record.lstrip()))
            while end < len(record):  # several records without a line end between
                begin = end + len(record[end:]) - len(record[end:].lstrip())
                if type(value) is not dict or record[begin] != "{":
                    raise json.JSONDecodeError("Extra data", record, end)
                yield number, record[:end].lstrip(), value
                text = record = record[begin:]
                value, end = scan(record, 0)
        except UnicodeDecodeError:
            text = line.decode("utf-8", "replace")
            rejects.append(Reject(number, text, f"the record is {NOT_UTF8}"))
        except json.JSONDecodeError as error:
            why = f"{error.msg} (character {error.pos + 1:,})"
            rejects.append(Reject(number, text, f"{_NO_JSON}: {why}"))
        except ValueError:  # Python's limit for integers
            rejects.append(Reject(number, text, f"{_NO_JSON}: a number has thousands of digits"))
        except RecursionError:
            rejects.append(Reject(number, text, _TOO_DEEP))
        else:
            yield number, text, value


def _may_repeat(text: str, record: dict[str, Any]) -> bool:
    """Return whether an object of a record may have a key twice; False is certain.

    Behind each key stands its quote, then blanks, then a colon. So where no blank follows a quote,
    there are no more keys than quotes with a colon.
    """
    n_marks = text.count('":')
    if any(gap in text for gap in _GAPS):
        n_marks = len(_KEY_END.findall(text))
    return n_marks != len(record) and n_marks != _n_keys(record)


_GAPS = ('" ', '"\t', '"\n', '"\r')
_KEY_END = re.compile(r'"[ \t\r\n]*:')


def _n_keys(value: Any) -> int:
    """Return how many keys the objects in a value have."""
    if type(value) is dict:
        return len(value) + sum(map(_n_keys, value.values()))
    return sum(map(_n_keys, value)) if type(value) is list else 0


def _repeated_key(text: str) -> str | None:
    """Return the first key that an object of a record has twice; None if there is none."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            found.append(next(name for at, name in enumerate(names) if name in names[:at]))

    json.loads(text, object_pairs_hook=look)
    return found[0] if found else None


_SPELLING = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


def _is_text(record: dict[str, Any]) -> bool:
    """Return whether all texts of a record, names as well, can be written."""
    try:
        json.dumps(record, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True


def starts_array(path: Path, encoding: str) -> bool:
    """Return whether the first sign of a file is that of a JSON array.

    A line of its own such as ``[1]`` is none: an array of records begins with an object.
    """
    head = b""
    for chunk in utf8_chunks(path, encoding):
        head = (head + chunk).removeprefix(b"\xef\xbb\xbf").lstrip()
        if len(head) > 1 and (head[:1] != b"[" or head[1:].lstrip()):
            break
    return head[:1] == b"["


def array_elements(
    path: Path, encoding: str, scan: Callable[[str, int], tuple[Any, int]]
) -> Iterator[tuple[int, str, Any]]:
    """Yield line, text and value of each element of an array, a piece of the file at a time."""
    ahead = _Ahead(path, _texts(path, encoding))
    ahead.expect("[")
    if ahead.next_sign() == "]":
        return
    while True:
        ahead.next_sign()
        line = ahead.line
        text, value = ahead.scan(scan)
        yield line, text, value
        if ahead.expect(",]") == "]":
            return


class _Ahead:
    """A text that is read piece by piece, looked at from front to back."""

    def __init__(self, path: Path, source: Iterator[str]) -> None:
        self._path = path
        self._source = source
        self._held = ""
        self._at = 0
        """Place in what is held."""

        self.line = 1
        """Line of the place."""

    def next_sign(self) -> str:
        """Go to the next sign that is no blank and return it."""
        while True:
            found = _NO_BLANK.search(self._held, self._at)
            self._go_to(len(self._held) if found is None else found.start())
            if found is not None:
                return found[0]
            if not self._read_on():
                raise _broken(self._path, self.line)

    def expect(self, signs: str) -> str:
        """Go past the next sign, which must be one of these, and return it."""
        sign = self.next_sign()
        if sign not in signs:
            raise _broken(self._path, self.line)
        self._at += 1
        return sign

    def scan(self, scan: Callable[[str, int], tuple[Any, int]]) -> tuple[str, Any]:
        """Go past the next value and return it, as it is written and as it is read."""
        while True:
            try:
                value, end = scan(self._held, self._at)
            except RecursionError as error:
                raise _broken(self._path, self.line, "values are nested too deeply") from error
            except (ValueError, IndexError):
                end = len(self._held)
            if end < len(self._held):  # else it can go on in the next piece
                text = self._held[self._at : end]
                self._go_to(end)
                return text, value
            if len(self._held) - self._at > RECORD_BYTES_MAX:
                raise too_long(self._path, self.line)
            if not self._read_on():
                raise _broken(self._path, self.line)

    def _go_to(self, at: int) -> None:
        self.line += self._held.count("\n", self._at, at)
        self._at = at

    def _read_on(self) -> bool:
        more = next(self._source, None)
        if more is None:
            return False
        self._held, self._at = self._held[self._at :] + more, 0
        return True


def _texts(path: Path, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        for chunk in utf8_chunks(path, encoding):
            yield decoder.decode(chunk)
    except UnicodeDecodeError as error:
        raise SourceError(f"'{path}' is {NOT_UTF8}") from error


def _broken(path: Path, line: int, why: str = "what follows is no JSON") -> SourceError:
    return SourceError(
        f"the JSON array in '{path}' breaks off at line {line:,}: {why}; mend the file, or write "
        "one object per line (jq -c '.[]')"
    )


def flattened(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a record with the fields of its objects as fields of its own. Pure.

    Examples
    --------
    >>> flattened({"a": 1, "b": {"c": 2, "d": {"e": 3}}})
    {'a': 1, 'b_c': 2, 'b_d_e': 3}
    """
    found: dict[str, Any] = {}
    for name, value in record.items():
        parts = {prefix + name: value}
        if type(value) is dict and value:
            parts = flattened(value, f"{prefix}{name}_")
        for part, one in parts.items():
            if part in found:
                raise SchemaError(
                    f"two fields of a record are called '{part}' once objects are flattened; "
                    "rename one, or leave --flatten out"
                )
            found[part] = one
    return found


# ---------------------------------------------------------------------------------------------
# From records to columns.


class _Columns:
    """Values of records by column: those that were asked for, and whatever else there is."""

    def __init__(self, names: Sequence[str] | None) -> None:
        self.n_records = 0
        self._values: dict[str, list[Any]] = {name: [] for name in names or ()}

    def add(self, records: Sequence[dict[str, Any]]) -> None:
        """Take in further records."""
        for name in dict.fromkeys(chain.from_iterable(records)):
            if name not in self._values:
                self._values[name] = [None] * self.n_records
        for name, values in self._values.items():
            values += [record.get(name) for record in records]
        self.n_records += len(records)

    def spell(
        self, names: AbstractSet[str], texts: Sequence[str], read: Callable[[str], dict[str, Any]]
    ) -> None:
        """Spell the numbers of text columns as the texts of the last records do."""
        begin = self.n_records - len(texts)
        for name in names & self._values.keys():
            values = self._values[name]
            for at, text in enumerate(texts, begin):
                if type(values[at]) in _NUMBERS:
                    values[at] = read(text)[name]

    def to_batch(self, first: int) -> RecordBatch:
        """Return the records as cells."""
        found = {name: to_cells(values) for name, values in self._values.items()}
        cells = {name: one.cells for name, one in found.items()}
        nested = {name: one.nested for name, one in found.items() if one.nested is not None}
        kinds = {name: one.kinds for name, one in found.items() if one.kinds is not None}
        return RecordBatch(first, cells, self.n_records, nested, kinds)


_NUMBERS = (int, float, Decimal)


class Cells(NamedTuple):
    """Values of a column as an array of the type they have, as texts where they have several."""

    cells: pa.Array
    """Null where there is no value, and where there is an object or an array."""

    nested: pa.Array | None
    """Where there is an object or an array; None for nowhere."""

    kinds: npt.NDArray[np.int8] | None = None
    """What each is, where they are of several types."""


def to_cells(values: list[Any]) -> Cells:
    """Return values as cells."""
    try:
        found = pa.array(values)
        # Arrow takes true behind 1.5 for 1.0.
        is_mixed = pat.is_floating(found.type) and bool in set(map(type, values))
        if not (is_mixed or pat.is_nested(found.type) or pat.is_decimal(found.type)):
            return Cells(found, None)
    except (pa.ArrowException, TypeError, OverflowError):
        pass
    nested = np.array([type(value) in (dict, list) for value in values], bool)
    if nested.any():
        values = [None if deep else value for value, deep in zip(values, nested, strict=True)]
        if all(value is None for value in values):
            return Cells(pa.nulls(len(values)), pa.array(nested))
        return to_cells(values)._replace(nested=pa.array(nested))
    kinds = np.array(list(map(_kind, values)), np.int8)
    return Cells(pa.array([_text(value) for value in values], pa.string()), None, kinds)


def _kind(value: Any) -> int:
    if value is None:
        return 0
    if type(value) is int:
        is_small = abs(value) <= EXACT_INTEGER_MAX
        is_long = not -(1 << 63) <= value < 1 << 63
        return JSON_NUMBER if is_small else JSON_OTHER if is_long else JSON_LARGE
    if type(value) is bool:
        return JSON_BOOL
    return JSON_OTHER if type(value) is str else JSON_NUMBER


def _text(value: Any) -> str | None:
    if value is None or type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    return str(value)
