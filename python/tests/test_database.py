from __future__ import annotations

import json
import signal
import sqlite3
import threading
import time

import pytest
from conftest import Child, Service

import unspoken
from unspoken import Database, read_records

CODES = {"A00": "Cholera", b"B01": b"Varicella", "Ä1": "Umlaut"}
DAYS = ["Monday", "Tuesday", "Wednesday"]


def build(path, records, **options) -> Database:
    return Database.build(path, records, progress=False, **options)


@pytest.fixture
def codes(tmp_path) -> Database:
    return build(tmp_path / "codes", CODES)


@pytest.fixture
def days(tmp_path) -> Database:
    return build(tmp_path / "days", DAYS, capacity=5)


def test_a_mapping_is_read_by_key(codes, tmp_path):
    assert (len(codes), codes.version) == (3, 1)
    assert codes["A00"] == codes[b"A00"] == b"Cholera"
    assert codes["Ä1"] == codes["Ä1".encode()] == b"Umlaut"
    assert (codes.get("A01"), codes.get("A01", b"none")) == (None, b"none")
    assert "B01" in codes
    assert "B02" not in codes
    with pytest.raises(KeyError, match="'B02'") as caught:
        codes["B02"]
    assert isinstance(caught.value, unspoken.NoSuchKeyError)
    assert caught.value.key == "B02"
    again = Database(str(tmp_path / "codes"))
    assert again["A00"] == b"Cholera"
    assert repr(again) == f"<Database {tmp_path / 'codes'}: 3 records by key, version 1>"
    for wrong in (lambda: codes[0], lambda: None in codes, lambda: list(codes)):
        with pytest.raises(TypeError, match="by key"):
            wrong()


def test_an_iterable_is_read_by_index(days):
    assert len(days) == 3
    assert list(days) == [b"Monday", b"Tuesday", b"Wednesday"]
    assert (days[2], days.get(3), 2 in days, 3 in days) == (b"Wednesday", None, True, False)
    for index in (3, 4, 5, -1, 2**70):
        with pytest.raises(IndexError, match="from 0 to 2") as caught:
            days[index]
        assert isinstance(caught.value, unspoken.NoSuchIndexError)
    with pytest.raises(TypeError, match="by index"):
        days["Monday"]


def test_pairs_have_keys_and_duplicates_are_chosen(tmp_path):
    pairs = [("a", "1"), ("b", b"2"), (b"a", "3")]
    with pytest.raises(unspoken.DatabaseError, match=r"record 2 has the key 'a'.*duplicates="):
        build(tmp_path / "db", iter(pairs))
    assert not (tmp_path / "db").exists()
    assert build(tmp_path / "first", iter(pairs), duplicates="first")["a"] == b"1"
    assert build(tmp_path / "last", pairs, duplicates="last")["a"] == b"3"


def test_objects_with_items_are_mappings(tmp_path):
    class Series:
        def items(self):
            return zip(["x", "y"], ["1", "2"])

    assert build(tmp_path / "series", Series())["y"] == b"2"


def test_iterables_are_read_on_the_calling_thread(tmp_path):
    # A connection of the module sqlite3 refuses calls of other threads.
    connection = sqlite3.connect(":memory:")
    connection.execute("create table codes (code text, title text)")
    connection.executemany("insert into codes values (?, ?)", [("A00", "Cholera"), ("A01", "Typhoid")])
    assert build(tmp_path / "codes", connection.execute("select * from codes"))["A01"] == b"Typhoid"


def test_files_are_read_as_by_the_command(tmp_path):
    (tmp_path / "codes.csv").write_text("code,title,group\nA00,Cholera,1\nA01,Typhoid,2\n")
    (tmp_path / "lines.txt").write_text('{"code": "A00", "title": "Cholera"}\n')
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "page").write_text("text")
    with sqlite3.connect(tmp_path / "codes.db") as connection:
        connection.execute("create table others (id int)")
        connection.execute("create table codes (code text, title text)")
        connection.execute("insert into codes values ('A00', 'Cholera')")
    csv = read_records(tmp_path / "codes.csv", key="code", value="title")
    assert csv.keyed
    assert repr(csv) == f"<Records of {tmp_path / 'codes.csv'}, with keys>"
    assert list(csv) == list(csv) == [(b"A00", b"Cholera"), (b"A01", b"Typhoid")]
    assert list(read_records(tmp_path / "codes.csv", value="title")) == [b"Cholera", b"Typhoid"]
    several = read_records(str(tmp_path / "codes.csv"), key="code", value=("group", "title"))
    assert json.loads(dict(several)[b"A01"]) == {"group": "2", "title": "Typhoid"}
    assert build(tmp_path / "1", csv)["A01"] == b"Typhoid"
    assert list(build(tmp_path / "2", read_records(tmp_path / "codes.csv", value="title"))) == [b"Cholera", b"Typhoid"]
    upper = ((key, value.upper()) for key, value in csv)
    assert build(tmp_path / "3", upper)["A00"] == b"CHOLERA"
    lines = read_records(tmp_path / "lines.txt", kind="jsonl", key="code", value="title")
    assert build(tmp_path / "4", lines)["A00"] == b"Cholera"
    assert build(tmp_path / "5", read_records(tmp_path / "folder"))["page"] == b"text"
    table = read_records(tmp_path / "codes.db", table="codes", key="code", value="title")
    assert build(tmp_path / "6", table)["A00"] == b"Cholera"


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "codes.csv").write_text("code,title\nA00,Cholera\nA01,broken,3\n")
    (tmp_path / "codes.txt").write_text("A00")
    with pytest.raises(unspoken.DatabaseError, match=r"nothing\.csv"):
        read_records(tmp_path / "nothing.csv")
    with pytest.raises(unspoken.DatabaseError, match=r"ending \"txt\".*kind="):
        read_records(tmp_path / "codes.txt")
    with pytest.raises(unspoken.ConfigurationError, match=r"kind=\"excel\".*csv, tsv"):
        read_records(tmp_path / "codes.txt", kind="excel")
    missing = read_records(tmp_path / "codes.csv", key="id")
    with pytest.raises(unspoken.DatabaseError, match=r'needed "id"'):
        list(missing)
    with pytest.raises(unspoken.DatabaseError, match=r"codes.csv: found the columns.*needed \"id\""):
        build(tmp_path / "codes", missing)
    with pytest.raises(unspoken.DatabaseError, match=r"codes.csv, line 3"):
        build(tmp_path / "codes", read_records(tmp_path / "codes.csv", key="code"))
    assert not (tmp_path / "codes").exists()


def test_empty_keys_are_refused_as_by_the_command(codes, tmp_path):
    for records in ({"": "x"}, [("a", "1"), (b"", "2")]):
        with pytest.raises(ValueError, match=r"record [01]: found an empty key") as caught:
            build(tmp_path / "new", records)
        assert isinstance(caught.value, unspoken.UnspokenError)
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="found an empty key"), codes.edit() as change:
        change[""] = "x"
    assert codes.version == 1


def test_hidden_files_are_records_only_on_request(tmp_path):
    folder = tmp_path / "pages"
    (folder / ".git").mkdir(parents=True)
    for name in ("a.html", ".env", ".git/config"):
        (folder / name).write_text(name)
    with pytest.warns(UserWarning, match=r"2 hidden files and folders are left out: \.env, \.git; pass hidden=True"):
        shown = build(tmp_path / "shown", read_records(folder))
    assert len(shown) == 1
    assert shown.get(".env") is None
    everything = build(tmp_path / "everything", read_records(folder, hidden=True))
    assert everything[".git/config"] == b".git/config"


def test_files_of_other_encodings_are_refused_or_decoded(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_bytes("code,title\nA00,café\n".encode("latin-1"))
    with pytest.raises(unspoken.DatabaseError, match=r"line 2: found bytes that are not UTF-8 .*pass encoding="):
        build(tmp_path / "codes", read_records(path, key="code"))
    db = build(tmp_path / "codes", read_records(path, key="code", encoding="latin-1"))
    assert db["A00"].decode() == "café"


@pytest.mark.parametrize(
    ("records", "error"),
    [
        ("one text", r"found one str"),
        ([1], r"record 0: found a record of type int"),
        (["a", None], r"record 1: found a record of type NoneType"),
        ({1: "a"}, r"record 0: found a key of type int"),
        ({"a": 1}, r"record 0: found a record of type int"),
        ([("a", "b", "c")], r"record 0: found a tuple of 3"),
        (7, r"not iterable"),
    ],
)
def test_records_are_bytes_or_text(tmp_path, records, error):
    with pytest.raises(TypeError, match=error):
        build(tmp_path / "db", records)


def test_builds_that_cannot_be_are_refused(tmp_path, codes):
    with pytest.raises(unspoken.DatabaseError, match="there are no records"):
        build(tmp_path / "empty", {})
    with pytest.raises(unspoken.DatabaseError, match="record 1 has no key"):
        build(tmp_path / "mixed", [("a", "1"), "2"])
    with pytest.raises(unspoken.DatabaseError, match="replace=True"):
        build(tmp_path / "codes", CODES)
    for options in ({"candidates": 4}, {"capacity": -1}, {"duplicates": "any"}):
        with pytest.raises(unspoken.ConfigurationError, match=next(iter(options))):
            build(tmp_path / "new", CODES, **options)
    with pytest.raises(unspoken.DatabaseError, match="no database in"):
        Database(tmp_path / "new")

    def broken():
        yield "a", "1"
        raise RuntimeError("from the iterator")

    with pytest.raises(RuntimeError, match="from the iterator"):
        build(tmp_path / "new", broken())
    assert build(tmp_path / "codes", {"C00": "new"}, replace=True).version == 2
    assert codes.refresh()
    assert (codes["C00"], codes.get("A00"), codes.version) == (b"new", None, 2)
    assert not codes.refresh()


def test_changes_are_one_version(codes, tmp_path):
    reader = Database(tmp_path / "codes")
    with codes.edit() as change:
        change["B05"] = "Measles"
        change[b"A00"] = b"changed"
        del change["B01"]
        change.update({"B06": "Rubella"})
        change.update([("B07", "Warts")])
        assert len(change) == 5
        assert (len(codes), "B05" in codes, change.version) == (3, False, None)
    assert change.version == codes.version == 2
    assert [codes.get(key) for key in ("B05", "A00", "B01", "B07")] == [b"Measles", b"changed", None, b"Warts"]
    assert (reader.version, "B05" in reader) == (1, False)
    assert reader.refresh()
    assert (reader.version, "B05" in reader, len(reader)) == (2, True, 5)
    with codes.edit() as change:
        pass
    assert change.version == codes.version == 2


def test_records_by_index_are_set_deleted_and_appended(days):
    with days.edit() as change:
        change[0] = "Mon"
        del change[1]
        assert change.append("Thursday") == 3
        change.extend(iter([b"Friday"]))
        with pytest.raises(unspoken.DatabaseError, match="capacity="):
            change.append("Saturday")
        with pytest.raises(IndexError, match="room for 5"):
            change[5] = "Saturday"
        with pytest.raises(unspoken.DatabaseError, match="record 0 of the records: no room"):
            change.extend(["Saturday"])
        for index in (-1, 7):
            with pytest.raises(unspoken.NoSuchIndexError):
                del change[index]
        with pytest.raises(unspoken.DatabaseError, match="does not fit"):
            change[1] = "a day with a very long name"
    assert list(days) == [b"Mon", None, b"Wednesday", b"Thursday", b"Friday"]
    assert 1 not in days
    with pytest.raises(IndexError):
        days[1]


def test_an_exception_discards_all_changes(codes):
    def interrupt(change, stop):
        change["B05"] = "Measles"
        raise stop

    for stop in (KeyError("mine"), KeyboardInterrupt()):
        with pytest.raises(type(stop)), codes.edit() as change:
            interrupt(change, stop)
        assert change.version is None
    with pytest.raises(KeyError, match="no record has the key 'B09'"), codes.edit() as change:
        del change["A00"], change["B09"]
    assert (codes.version, len(codes), codes["A00"]) == (1, 3, b"Cholera")
    # The lock is free again.
    with codes.edit() as change:
        change["B05"] = "Measles"
    assert codes.version == 2
    with pytest.raises(unspoken.DatabaseError, match=r"with db.edit\(\)"):
        change["B05"] = "late"
    with pytest.raises(unspoken.DatabaseError, match="begun before"):
        change.__enter__()


def test_only_one_can_change_a_database(codes, tmp_path):
    with codes.edit():
        for locked in (codes.edit().__enter__, lambda: codes.compact(progress=False)):
            with pytest.raises(unspoken.DatabaseLockedError, match="being changed by another process"):
                locked()
        with pytest.raises(unspoken.DatabaseLockedError):
            build(tmp_path / "codes", CODES, replace=True)


def test_wrong_kinds_of_changes_are_refused(codes, days, tmp_path):
    (tmp_path / "new.csv").write_text("code,title\nA05,Botulism\n")
    keyed, plain = (read_records(tmp_path / "new.csv", key=key, value="title") for key in ("code", None))
    with codes.edit() as change:
        for wrong in (
            lambda: change.append("a"),
            lambda: change.extend(["a"]),
            lambda: change.update(["a"]),
            lambda: change.update(plain),
            lambda: change.__setitem__(0, "a"),
            lambda: change.__setitem__("a", 0),
            lambda: change.__delitem__(0),
        ):
            with pytest.raises(TypeError):
                wrong()
        change.update(keyed)
    assert (len(codes), codes["A05"]) == (4, b"Botulism")
    with days.edit() as change:
        for wrong in (
            lambda: change.update({"a": "b"}),
            lambda: change.extend([("a", "b")]),
            lambda: change.extend(keyed),
            lambda: change.__setitem__("a", "b"),
            lambda: change.__delitem__("a"),
        ):
            with pytest.raises(TypeError):
                wrong()
        change.extend(plain)
    assert list(days)[3:] == [b"Botulism"]


def test_compaction_keeps_the_content(codes):
    with codes.edit() as change:
        change["B05"] = "Measles"
    before = codes.info()
    assert before.changed_entries > 0
    seen = []
    codes.compact(progress=seen.append)
    after = codes.info()
    assert (after.changed_entries, after.version, after.generation) == (0, 2, before.generation + 1)
    assert codes["B05"] == b"Measles"
    assert {each.stage for each in seen} == {"writing cells", "encoding tables"}
    assert all(each.done == each.total for each in seen[-1:])


@pytest.mark.parametrize("tables", ["dense", "wide"])
def test_dense_tables_answer_packed_queries(tmp_path, tables):
    db = build(tmp_path / tables, CODES, tables=tables)
    info = db.info()
    assert (info.tables, set(info.costs), db["A00"]) == (tables, {"packed"}, b"Cholera")
    with db.edit() as change:
        change["A00"] = "changed"
    assert db["A00"] == b"changed"
    with pytest.raises(unspoken.ConfigurationError, match="transformed, dense, wide or encrypted"):
        build(tmp_path / "other", CODES, tables="sparse")


def test_info_tells_sizes_and_costs(codes, days):
    info = codes.info()
    assert (info.read_by, info.records, info.room, info.candidates, info.version) == ("key", 3, None, 2, 1)
    assert info.planes == -(-info.cell_bytes // 256)
    assert 0 < info.load < 1
    assert info.table_bytes >= 16 * info.cells * info.cell_bytes
    assert set(info.costs) == {"packed", "bits", "compact", "session"}
    assert (info.costs["compact"].query_bytes, info.costs["session"].query_bytes) == (80, 24)
    assert info.costs["packed"].key_bytes < info.costs["compact"].key_bytes
    info = days.info()
    assert (info.read_by, info.room, info.cells, info.candidates, info.load) == ("index", 5, 5, 1, 0.6)
    assert info.costs["compact"].query_bytes == 44


def test_damage_is_found(codes, tmp_path):
    codes.verify()
    table = tmp_path / "codes" / "table-1.bin"
    damaged = bytearray(table.read_bytes())
    damaged[5000] ^= 1
    # Another file of that name: the open one is mapped.
    table.unlink()
    table.write_bytes(damaged)
    for check in (codes.verify, lambda: Database(tmp_path / "codes")):
        with pytest.raises(unspoken.DatabaseError, match=r"corrupted: table-1.bin"):
            check()
    assert codes["A00"] == b"Cholera"


def test_progress_is_reported_and_its_exceptions_stop_the_build(tmp_path):
    seen = []
    rows = {f"C{i:05}": "t" * (i % 50) for i in range(10_000)}
    Database.build(tmp_path / "1", rows, progress=seen.append)
    stages = list(dict.fromkeys(each.stage for each in seen))
    assert stages == ["reading records", "finding buckets", "writing cells", "encoding tables"]
    assert [each.total for each in seen if each.stage == "reading records"][:1] == [0]
    assert seen[-1].done == seen[-1].total > 0

    def stop(progress):
        if progress.stage == "reading records":
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        Database.build(tmp_path / "2", rows, progress=stop)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1"]


BUILD = """
import signal, sys, unspoken
# A shell's background jobs inherit that Control-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
def show(progress):
    if progress.stage == "encoding tables":
        print("encoding", flush=True)
try:
    unspoken.Database.build(sys.argv[1], [b"t" * 256] * 80_000, progress=show)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_control_c_stops_a_build(tmp_path):
    child = Child(BUILD, tmp_path / "db")
    child.wait_for("encoding")
    start = time.monotonic()
    child.process.send_signal(signal.SIGINT)
    out, err = child.finish(60)
    assert "interrupted" in out, err
    assert time.monotonic() - start < 10
    assert list(tmp_path.iterdir()) == []


def test_other_threads_run_during_a_build(tmp_path):
    counted = 0
    done = threading.Event()

    def count():
        nonlocal counted
        while not done.wait(0.001):
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    build(tmp_path / "db", (b"t" * 200 for _ in range(30_000)))
    done.set()
    thread.join()
    assert counted > 20


def test_a_database_is_built_served_queried_and_changed(binary, tmp_path, state):
    db = build(tmp_path / "codes", {f"C{i:03}": f"title {i}" for i in range(300)})
    service = Service(binary, tmp_path / "data", f"pir={tmp_path / 'codes'}").start()
    try:
        with unspoken.PirClient(service.url, "pir/codes", progress=False, state_dir=state) as client:
            assert (client.get("C042"), client.version) == (b"title 42", 1)
            predicted, told = db.info().costs["packed"], client.cost(1)
            assert (predicted.query_bytes, predicted.answer_bytes) == (told.query_bytes, told.answer_bytes)
            assert (predicted.batch, predicted.queries) == (told.batch, told.queries)
            with db.edit() as change:
                change["C042"] = "changed"
                change["D000"] = "new"
                del change["C000"]
            start = time.monotonic()
            while client.get("C042") == b"title 42":
                assert time.monotonic() - start < 60
            assert client.get_many(["C042", "D000", "C000"]) == [b"changed", b"new", None]
            assert client.version == db.version == 2
    finally:
        service.stop()
