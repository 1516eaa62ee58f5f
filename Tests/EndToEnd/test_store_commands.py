"""Durable topics as an operator sees them: what a start refuses, `forebayd -t`, and the commands that show, check and
copy the store, also while a broker uses it."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from common import *

pytestmark = pytest.mark.rsocket

PATTERNS = "--durable", "orders.>", "--relaxed", "metrics.>"


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def begun(begin, folder):
    """A broker with a message in a relaxed topic and four in a durable one."""
    broker = begin("--store", str(folder), *PATTERNS)
    peer = broker.peer()
    peer.publish("metrics.cpu", b"rel")
    peer.publish("orders.eu", b"one", b"t\two\n", b"\x1b[31m", bytes([255, 0]))
    peer.close()
    return broker


def store(start, folder: Path, *words: str) -> tuple[int, str, str]:
    return start.run("store", *words, "--store", str(folder))


def kill(broker):
    broker.process.kill()
    broker.process.wait()


def rows(info: str) -> dict[str, list[str]]:
    """The topics that `store info` lists."""
    return {line.split()[-1]: line.split()[:-1] for line in info.partition("\n\n")[2].splitlines()[1:]}


def written(start, folder: Path, topic: str, count: int) -> str:
    """The output of `store info` once it has that many messages of a topic."""
    return eventually(lambda: store(start, folder, "info")[1], lambda out: rows(out)[topic][1] == str(count))


def test_info_beside_a_broker_and_after_it(start, begun, folder):
    out = written(start, folder, "metrics.cpu", 1)
    assert re.search(r"^state +in use by a broker, or left", out, re.MULTILINE)
    assert re.search(r"^messages +5 in \d batches$", out, re.MULTILINE)
    peer = begun.peer()
    epochs = {name: peer.info(name)["epoch"] for name in ("orders.eu", "metrics.cpu")}
    peer.close()
    assert rows(out) == {"metrics.cpu": ["1", "1", epochs["metrics.cpu"], "relaxed", "open"],
                         "orders.eu": ["1", "4", epochs["orders.eu"], "durable", "open"]}
    begun.stop()
    code, out, err = store(start, folder, "info")
    assert (code, err) == (0, "") and re.search(r"^state +closed$", out, re.MULTILINE)


def test_the_store_is_found_as_a_broker_finds_it(start, begun, folder, tmp_path):
    file = tmp_path / "broker.yaml"
    file.write_text("store: store\ndurable: [orders.>]\n")
    expected = store(start, folder, "info")
    assert start.run("-c", str(file), "store", "info") == expected
    assert start.run("store", "info", FOREBAY_STORE=str(folder)) == expected


def test_dump(start, begun, folder):
    begun.stop()
    code, out, err = store(start, folder, "dump", "orders.eu")
    assert (code, err) == (0, "")
    lines = [re.fullmatch(r"(\d+) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (.*)", line) for line in out.splitlines()]
    assert [(line[1], line[3]) for line in lines] == [
        ("1", "one"), ("2", "t\two\\n"), ("3", "\\u{1b}[31m"), ("4", "(2 bytes that are not text)")]
    code, out, err = store(start, folder, "dump", "orders.eu", "--from", "2", "--format", "json")
    records = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "") and [one["sequence"] for one in records] == [2, 3, 4]
    assert [one.get("payload") for one in records] == ["t\two\n", "\x1b[31m", None]
    assert records[2]["payload_base64"] == "/wA=" and len({one["epoch"] for one in records}) == 1
    assert store(start, folder, "dump", "orders.eu", "--from", "5") == (0, "", "")
    code, out, err = store(start, folder, "dump", "orders.us")
    assert (code, out) == (1, "") and "the store has no topic orders.us" in err


def test_check_finds_damage(start, begun, folder, tmp_path):
    peer = begun.peer()
    peer.publish("orders.eu", b"marked " * 2000)
    peer.close()
    code, out, err = store(start, folder, "check")
    assert (code, err) == (0, "") and out.endswith(": no problems\n") and out.startswith("2 topics, ")
    begun.stop()
    file = folder / "forebay.store"
    data = bytearray(file.read_bytes())
    data[data.index(b"marked marked marked") + 100] ^= 1
    file.write_bytes(data)
    code, out, err = store(start, folder, "check")
    assert (code, err) == (1, "") and out.endswith(": 1 problem\n")
    assert re.match(r"topic orders\.eu, batch 5: the batch is damaged: ", out)
    code, out, err = store(start, folder, "copy", str(tmp_path / "copy"))
    assert code == 1 and out.startswith("copied 2 topics") and "the copy has 1 problem, probably like the store" in err
    code, out, err = store(start, folder, "dump", "orders.eu")
    assert code == 1 and len(out.splitlines()) == 4 and "messages before 6 cannot be read" in err


def test_a_copy_of_a_store_in_use_is_complete_and_has_new_epochs(start, begin, begun, folder, tmp_path):
    target = tmp_path / "copy"
    before = rows(written(start, folder, "metrics.cpu", 1))
    assert store(start, folder, "copy", str(target)) == (0, f"copied 2 topics to {target}\n", "")
    code, out, _ = store(start, folder, "copy", str(target))
    assert (code, out) == (1, "")
    assert "a copy that no broker has opened" in store(start, target, "info")[1]
    assert rows(store(start, target, "info")[1]) == before
    assert store(start, target, "check")[0] == 0
    copied = begin("--store", str(target), *PATTERNS)
    peer = copied.peer()
    epoch = before["orders.eu"][2]
    assert peer.info("orders.eu")["epoch"] != epoch
    # A position before the copy resumes exactly, a later one does not.
    rest = peer.subscribe(f"orders.eu?from=2&epoch={epoch}&gap=fail", n=3).data(3)
    assert rest == [b"t\two\n", b"\x1b[31m", b"\xff\0"]
    peer.close()
    copied.stop()


def test_a_kill_loses_no_acknowledged_message(begin, folder):
    broker = begin("--store", str(folder), *PATTERNS)
    peer = broker.peer()
    peer.numbers("orders.eu", 1, 50)
    (first,) = peer.subscribe("orders.eu?from=20", n=1, meta=True).take(1)
    epoch = first.epoch
    peer.close()
    kill(broker)
    again = begin("--store", str(folder), *PATTERNS)
    peer = again.peer()
    assert peer.subscribe(f"orders.eu?from=21&epoch={epoch}&gap=fail").data(30) == numbers(21, 50)
    assert peer.publish("orders.eu", b"51") == [51]
    assert int(peer.info("orders.eu")["epoch"]) == epoch
    peer.close()
    again.stop()


def test_a_topic_keeps_its_class(start, begin, begun, folder):
    """The patterns apply to topics that are created later."""
    begun.stop()
    again = begin("--store", str(folder), "--relaxed", "orders.>")
    peer = again.peer()
    peer.publish("orders.eu", b"5")
    peer.publish("metrics.cpu", b"2")
    peer.publish("metrics.new", b"1")
    peer.close()
    again.stop()
    topics = rows(store(start, folder, "info")[1])
    assert {name: row[3] for name, row in topics.items()} == {"orders.eu": "durable", "metrics.cpu": "relaxed"}
    assert [topics[name][1] for name in sorted(topics)] == ["2", "5"]


# What a start and a check refuse

def test_a_second_broker_does_not_start(start, begun, folder):
    options = "--store", str(folder), "--listen", "127.0.0.1:0", "--http", "off", "--admin", "off"
    code, line = start.refusal(*options)
    assert (code, line) == (1, f"forebayd: --store {folder}: the store in {folder} is in use by another process; stop "
                            "that process, or set --store DIR to another directory")
    # A check is for the next start.
    assert start.run("-t", "--store", str(folder))[0] == 0


def refused(start, folder: Path, code: int) -> str:
    """What a check and a start say, which is the same."""
    told = start.run("-t", "--store", str(folder))
    assert told[:2] == (2, "")
    options = "--listen", "127.0.0.1:0", "--http", "off", "--admin", "off"
    assert start.refusal("--store", str(folder), *options) == (code, told[2].rstrip("\n"))
    return told[2]


def test_a_directory_with_other_files_is_refused(start, folder):
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    assert "it has a file notes.txt; set --store DIR to a directory that is empty" in refused(start, folder, 2)
    (folder / "notes.txt").unlink()
    (folder / "forebay.store").write_text("mine")
    assert "forebay.store is not a Forebay store" in refused(start, folder, 2)
    assert store(start, folder, "info")[0] == 1


def test_a_directory_that_cannot_be_created_is_refused(start, folder):
    text = refused(start, folder / "a" / "b", 1)
    assert "cannot create the store" in text and "a directory on a local disk" in text
    code, out, err = store(start, folder, "info")
    assert (code, out) == (1, "") and "No such file or directory" in err


@pytest.mark.skipif(shutil.which("unshare") is None or os.geteuid() != 0, reason="mounts need root")
def test_a_directory_that_cannot_be_written_to_is_refused(start, begun, folder):
    begun.stop()
    script = f'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    launcher = "unshare", "--mount", "sh", "-c", script, str(folder)
    for options in (["-t"], ["--listen", "127.0.0.1:0", "--http", "off", "--admin", "off"]):
        code, line = start.refusal("--store", str(folder), *options, launcher=launcher)
        assert code == (2 if "-t" in options else 1) and "Read-only file system; set --store DIR to a dir" in line, line


def test_a_check_changes_nothing(start, folder):
    assert start.run("-t", "--store", str(folder)) == (0, "forebayd: the settings are valid\n", "")
    assert not folder.exists()


@pytest.mark.parametrize("words, why", [
    ([], "forebayd store needs a command"), (["list"], "unknown command store list"),
    (["dump"], "forebayd store dump needs an argument"), (["info", "--from", "1"], "belongs to forebayd store dump"),
])
def test_faults_in_a_command(start, folder, words, why):
    code, out, err = store(start, folder, *words)
    assert (code, out) == (2, "") and why in err
    assert start.run("store", "info") == (
        2, "", "forebayd: forebayd store needs the directory of the store: add --store DIR, or set store in the file\n")


# The tour

def test_the_tour_of_the_readme_keeps_messages(start, begin, tmp_path):
    """Each command is run when the previous broker, if it started one, can be reached."""
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    tour = text.partition("**Keep messages on disk.**")[2].partition("```sh\n")[2].partition("```")[0]
    free = begin()
    port = free.address[1]
    free.stop()
    folder = Path(start.executable()).parent
    url = f"rsocket://127.0.0.1:{port}"
    reached = f"\nfor i in $(seq 100); do forebay ping --count 1 >/dev/null 2>&1 && break; sleep 0.1; done\n"
    script = "".join(line + (reached if line.endswith("&") else "\n") for line in tour.splitlines())
    done = subprocess.run(
        ["bash", "-uc", script + "kill $!\nwait\n"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(tmp_path), "SWIFT_BACKTRACE": "enable=no",
             "FOREBAY_URL": url, "FOREBAY_LISTEN": f"127.0.0.1:{port}", "FOREBAY_HTTP": "off", "FOREBAY_ADMIN": "off"})
    assert done.returncode == 0 and done.stdout.splitlines() == ["1", "2", "3", "4", "5"], done
