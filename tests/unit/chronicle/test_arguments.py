"""What a Python user is told who gives a call the wrong thing."""

import pyarrow as pa
import pytest

import chronicle

SCHEMA = pa.schema([("t", pa.int64()), ("page", pa.string())])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = chronicle.create_store(tmp_path_factory.mktemp("arguments") / "store")
    stream = store.create_stream("clicks", SCHEMA, chronicle.StreamSettings(time="t"))
    stream.append(pa.table({"t": [1, 7], "page": ["a", "b"]}))
    return store


def test_a_store_may_be_named_by_text(store):
    assert chronicle.Store(str(store.path)).stream_names() == ("clicks",)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("create_index(stream, 'page')", r"expected a list of attribute names.*\['page'\]"),
        ("create_index(stream, [1])", "expected the attribute name as text, not 1"),
        ("create_index('clicks', ['page'])", r"expected Stream \(store.stream\(name\)\)"),
        ("drop_index(stream, ['page'])", "expected the attribute name as text, not list"),
        ("list_indexes(stream)", r"expected Snapshot \(store.stream\(name\).snapshot\(\)\)"),
        ("drop_stream(store, stream)", "expected the stream name as text, not Stream"),
        ("drop_stream('data', 'clicks')", r"expected Store \(chronicle.open_store\(path\)\)"),
        ("rename_stream(store, stream, 'b')", "expected the stream name as text"),
        ("open_store(3)", "expected the path of a store as text or pathlib.Path, not 3"),
        ("ensure_store(None)", "expected the path of a store .* not NoneType"),
        ("create_store(b'x')", "expected the path of a store .* not bytes"),
        ("delete_range(stream, 'a', 'b')", "expected a time as an integer .* not 'a'"),
        ("delete_range('clicks', 1, 2)", r"expected Stream \(store.stream\(name\)\)"),
        ("history('clicks')", "expected Stream"),
        (
            "append_files(store, 'clicks', 'a.csv')",
            r"a list of files, such as \['a.csv'\]",
        ),
        ("append_files(store, 'clicks', [3])", "expected the path of a file .* not 3"),
        ("vacuum(store)", "expected Stream .* not Store"),
        ("check_stream('clicks')", r"expected Stream .* or P\w*ath .* not 'clicks'"),
        ("describe_stream(stream)", "expected Snapshot"),
        ("query(stream, 'SELECT * FROM clicks')", "a query asks a store"),
        ("explain(stream, 'SELECT * FROM clicks')", "a query asks a store"),
        ("query(store, stream)", "expected the query as text, not Stream"),
        ("online(3, None)", "expected the query as text, not int"),
        ("online('SELECT * FROM a', 4)", "expected the schema of the events"),
        ("stream(stream, 'x')", "a query asks a store"),
        ("query(store, QUERY, plan=3)", "plan is a text such as 'auto'.* not int"),
        ("explain(store, QUERY, plan=3)", "plan is a text"),
        ("query(store, QUERY, params={1})", "params holds the values of parameters by name.* set"),
        ("batches(store, QUERY, params={1})", "params holds the values"),
        ("online(QUERY, stream.schema, params=[1])", "params holds the values"),
        ("query(store, QUERY, timeout=[30])", r"timeout takes seconds, .* not \[30\]"),
        ("query(store, QUERY, memory=1.5)", "memory takes a whole number of bytes .* not 1.5"),
        ("query(store, QUERY, max_rows=2.5)", "max_rows takes a whole number of rows.* not 2.5"),
        ("batches(store, QUERY, max_rows='3')", "max_rows takes a whole number of rows.* not '3'"),
    ],
)
def test_a_wrong_argument_is_told_in_a_sentence(store, call, message):
    names = {"store": store, "stream": store.stream("clicks"), "QUERY": "SELECT * FROM clicks"}
    function, arguments = call.split("(", 1)
    with pytest.raises(TypeError, match=message):
        eval(f"function({arguments}", names | {"function": getattr(chronicle, function)})


def test_a_stream_where_a_name_is_due_is_told_in_a_sentence(store):
    with pytest.raises(TypeError, match="expected the stream name as text, not Stream"):
        store.stream(store.stream("clicks"))


def test_an_unknown_treatment_of_late_events_is_told_with_those_there_are(store):
    with pytest.raises(chronicle.SourceError, match="there are: merge, reject, quarantine") as one:
        store.stream("clicks").append(pa.table({"t": [9], "page": ["c"]}), late="regect")
    assert "did you mean 'reject'" in str(one.value)


def test_a_report_of_one_event_is_written_in_the_singular():
    report = chronicle.AppendReport(1, 1, 1, 1, 3)
    assert str(report).splitlines() == [
        "1 event added, 1 of them late into 1 file rewritten, version 3",
        "quarantined: 1 row, kept in table 'quarantine'",
    ]


def test_a_range_is_deleted_without_a_writer_of_runs(tmp_path):
    made = chronicle.create_store(tmp_path / "s")
    stream = made.create_stream("clicks", SCHEMA, chronicle.StreamSettings(time="t"))
    stream.append(pa.table({"t": [1, 7], "page": ["a", "b"]}))
    assert chronicle.delete_range(stream, 1, 2).n_events == 1


def test_a_store_and_a_stream_say_what_they_hold(store):
    stream = store.stream("clicks")
    assert "clicks" in repr(store)
    assert repr(stream) == (
        "<Stream 'clicks': 2 events from 1 to 7, version 1; time 't', columns t, page>"
    )


def test_a_stream_that_is_gone_says_so_instead_of_failing(tmp_path):
    store = chronicle.create_store(tmp_path / "s")
    stream = store.create_stream("clicks", SCHEMA, chronicle.StreamSettings(time="t"))
    chronicle.drop_stream(store, "clicks")
    assert repr(stream).startswith("<Stream 'clicks': no stream 'clicks' in this store")


def test_an_explanation_shows_its_plan(store):
    shown = repr(chronicle.explain(store, "SELECT * FROM clicks"))
    assert shown.startswith("reads all 1 block")


def test_a_notebook_shows_a_mistake_in_three_lines(store):
    with pytest.raises(chronicle.QueryError) as caught:
        chronicle.query(store, "SELECT pge FROM clicks")
    shown = "\n".join(caught.value._render_traceback_())
    assert len(shown.splitlines()) <= 3
    assert "did you mean 'page'" in shown
