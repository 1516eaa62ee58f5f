"""The configuration file, the environment and the command line of a real broker, and what SIGHUP changes at run
time."""

import json
import re
import resource
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import nkeys
import pytest

import tls
from common import *

pytestmark = pytest.mark.rsocket

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "Packaging" / "forebayd.yaml"


def told(broker, message: str) -> list[dict]:
    return [line for line in map(json.loads, broker.log) if line["message"] == message]


def reload(broker, message="reloaded", **expected) -> list[dict]:
    """Sends SIGHUP and returns the log from then on, once it contains `message`."""
    before, count = len(broker.log), len(told(broker, message))
    broker.process.send_signal(signal.SIGHUP)
    eventually(lambda: told(broker, message), lambda lines: len(lines) > count)
    assert expected.items() <= told(broker, message)[-1].items()
    return [json.loads(line) for line in broker.log[before:]]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "forebayd.yaml"


def test_the_file_the_environment_and_the_command_line(start, connect, file):
    file.write_text("retain: 5\ntopic-idle: 2m\ntopics:\n  - match: few.*\n    retain: 2\n")
    own = start("-c", str(file), "--retain-bytes", "64K", variables={"FOREBAY_RETAIN": "7", "FOREBAY_RETAIN_AGE": "1h"})
    peer = connect(own)
    peer.numbers("many", 1, 20)
    peer.numbers("few.a", 1, 20)
    many, few = peer.info("many"), peer.info("few.a")
    assert (many["retained"], few["retained"]) == (7, 2)
    figures = [(one["retain"], one["retain_bytes"], one["retain_age_ms"]) for one in (many, few)]
    assert figures == [(7, 65536, 3_600_000), (2, 65536, 3_600_000)]
    assert [line["configuration"] for line in told(own, "starting")] == [str(file)]
    own.stop()


def test_a_variable_names_the_file(start, file):
    file.write_text("retain: 5\n")
    out = start.run("--print-config", FOREBAY_CONFIG=str(file))[1]
    assert re.search(rf"(?m)^retain: 5 +# {re.escape(str(file))}:1$", out), out
    assert start.run("-t", FOREBAY_CONFIG=str(file) + ".gone")[0] == 2


def test_a_file_in_order_is_told_so(start, file):
    file.write_text("retain: 5\n")
    assert start.run("-t", "-c", str(file)) == (0, f"forebayd: {file} is valid\n", "")
    assert start.run("-t", "--retain", "5")[:2] == (0, "forebayd: the settings are valid\n")


@pytest.mark.parametrize("listener", ["listen", "http", "admin"])
def test_a_check_finds_what_a_start_would_refuse(start, file, listener):
    file.write_text(f"{listener}: 0.0.0.0:7799\n")
    code, out, err = start.run("-t", "-c", str(file))
    assert (code, out) == (2, "") and f"{listener}: 0.0.0.0:7799 ({file}:1): 0.0.0.0:7799 would" in err
    assert "there are no users" in err and "allow-anonymous: true" in err and "--" not in err
    # A start refuses it too.
    assert start.refusal("-c", str(file)) == (2, err.rstrip())
    assert start.run("-t", "-c", str(file), "--allow-anonymous")[0] == 0


@pytest.mark.parametrize("text, why", [
    ("retain: 5\nretain-byts: 64M\n", ":2:1: retain-byts is not a known key; did you mean retain-bytes?"),
    ("retain: none\n", ":1:9: retain: none is not a number from 1 to 2147483647"),
    ("retain: 5\n\tthreads: 2\n", ":2:1: this is not YAML: "),
    ("retain: &a 5\n", ":1:9: anchors"),
    ("topics:\n  - match: a.>.b\n", ":2:12: topics.match: a.>.b is not a topic pattern"),
    ("listen: off\nhttp: off\n", "listen: off ("),
])
def test_a_fault_is_told_with_line_and_key(start, file, text, why):
    file.write_text(text)
    for command in (["-t"], ["--print-config"], []):
        code, out, err = start.run(*command, "-c", str(file))
        assert (code, out) == (2, "") and err.startswith("forebayd: ") and why in err, err


def test_every_fault_is_told_at_once(start, file):
    file.write_text("retain: 0\nthreads: many\n")
    code, _, err = start.run("-t", "-c", str(file), "--memory", "1", FOREBAY_GRANT="x")
    assert code == 2
    assert [re.sub(r"^forebayd: (?:.*/)?", "", line).split(" is ")[0] for line in err.splitlines()] == [
        "forebayd.yaml:1:9: retain: 0", "forebayd.yaml:2:10: threads: many", "FOREBAY_GRANT=x", "--memory 1"]


@pytest.mark.parametrize("path, why", [("gone", "No such file"), (".", "Is a directory")])
def test_a_file_that_is_named_has_to_be_there(start, tmp_path, path, why):
    code, _, err = start.run("-t", "-c", str(tmp_path / path))
    assert code == 2 and "cannot read the configuration file" in err and why in err


def test_an_option_given_twice_is_refused(start):
    code, _, err = start.run("--listen", "127.0.0.1:1", "--listen", "127.0.0.1:2")
    assert code == 2 and "--listen is given twice, 127.0.0.1:1 and 127.0.0.1:2" in err


def test_what_is_in_force_is_printed_with_where_it_came_from(start, file):
    file.write_text("# one\nretain: 5\ntopics: [{match: a.*, retain: 2}]\n")
    code, out, _ = start.run("--print-config", "-c", str(file), "--threads", "3", FOREBAY_LOG_LEVEL="warn")
    lines = [re.split(r" +# ", line) for line in out.splitlines() if re.match(r"[a-z-]+:", line)]
    assert code == 0
    came = dict(lines)
    assert came["retain: 5"] == f"{file}:2" and came["topics:"] == f"{file}:3"
    assert (came["threads: 3"], came["log-level: warn"]) == ("--threads", "FOREBAY_LOG_LEVEL")
    assert came["log-format: text"] == "default"
    # The output can be read again, and then prints the same.
    file.write_text(out)
    again = start.run("--print-config", "-c", str(file))[1]
    assert [line.split(" #")[0].rstrip() for line in again.splitlines()] == [
        line.split(" #")[0].rstrip() for line in out.splitlines()]


def test_a_suspicious_variable_is_told(start):
    assert "did you mean FOREBAY_RETAIN?" in start.run("-t", FOREBAY_RETIAN="5")[2]
    own = start(variables={"FOREBAY_RETIAN": "5"})
    assert "did you mean FOREBAY_RETAIN?" in told(own, "suspicious setting")[0]["cause"]
    own.stop()


# SIGHUP


def test_a_reload_changes_what_can_be_changed_and_drops_nothing(start, connect, file):
    file.write_text("retain: 5\nlog-format: json\n")
    own = start("-c", str(file), threads=2)
    a, b = connect(own), connect(own)
    sub = a.subscribe("orders.eu", n=1000)
    a.joined("orders.eu", 1)
    b.numbers("orders.eu", 1, 20)
    assert sub.data(20) == numbers(1, 20) and b.info("orders.eu")["retained"] == 5

    file.write_text("retain: 3\nlog-format: text\nthreads: 9\nlog-level: debug\nmax-topics: 3\n"
                    "topics:\n  - match: orders.*\n    retain: 2\n")
    lines = reload(own, file=str(file), changed=4)
    changed = {line["key"]: (line["from"], line["to"]) for line in lines if line["message"] == "setting changed"}
    assert changed == {"retain": ("5", "3"), "log-level": ("info", "debug"), "max-topics": ("100000", "3"),
                       "topics": ("none", "1 element")}
    # Each shard applies it when it next reads its inbox.
    b.until("orders.eu", lambda info: info["retain"] == 2)
    assert b.info("orders.eu")["retained"] == 2
    b.numbers("orders.eu", 21, 40)
    assert sub.data(20) == numbers(21, 40)
    assert own.process.poll() is None
    # --threads and --log-format on the command line override the file before and after.
    assert not told(own, "setting needs a restart")
    own.stop()


def test_what_cannot_be_changed_says_so(start, file):
    file.write_text("drain-time: 9s\n")
    own = start("-c", str(file), "--retain", "8")
    file.write_text("drain-time: 8s\nretain: 9\nadmin: off\n")
    lines = reload(own, changed=1)
    assert [line["key"] for line in lines if line["message"].startswith("setting")] == ["drain-time"]
    own.stop()

    file.write_text("threads: 1\nlog-format: json\nlisten: 127.0.0.1:0\nhttp: off\nadmin: off\n")
    process = subprocess.Popen([start.executable(), "-c", str(file)], stderr=subprocess.PIPE, text=True,
                               env={"SWIFT_BACKTRACE": "enable=no"})
    try:
        while json.loads(process.stderr.readline())["message"] != "listening":
            pass
        file.write_text("threads: 2\nlog-format: text\nlisten: 127.0.0.1:0\nhttp: 127.0.0.1:0\nadmin: off\nretain: 3\n")
        process.send_signal(signal.SIGHUP)
        lines = []
        while not lines or lines[-1]["message"] != "reloaded":
            lines.append(json.loads(process.stderr.readline()))
        stays = {line["key"]: (line["in-force"], line["to"], line["origin"]) for line in lines
                 if line["message"] == "setting needs a restart"}
        assert stays == {"threads": ("1", "2", f"{file}:1"), "log-format": ("json", "text", f"{file}:2"),
                         "http": ("off", "127.0.0.1:0", f"{file}:4")}
        assert [line["key"] for line in lines if line["message"] == "setting changed"] == ["retain"]
    finally:
        process.terminate()
        assert process.wait(30) == 0


def test_a_broken_file_leaves_everything_as_it_was(start, connect, file):
    file.write_text("retain: 5\n")
    own = start("-c", str(file))
    peer = connect(own)
    sub = peer.subscribe("t")
    peer.joined("t", 1)
    for text, why in [("retain: 3\nretian: 4\n", ":2:1: retian is not a known key"),
                      ("retain: [3\n", "this is not YAML"),
                      ("retain: 3\nlisten: off\nhttp: 1\n", ":3:7: http: 1 is not an address")]:
        file.write_text(text)
        reload(own, "reload refused")
        last = told(own, "reload refused")[-1]
        assert last["level"] == "error" and str(file) in last["cause"] and why in last["cause"]
    file.unlink()
    reload(own, "reload refused")
    assert "No such file" in told(own, "reload refused")[-1]["cause"]
    peer.numbers("t", 1, 9)
    assert sub.data(9) == numbers(1, 9) and peer.info("t")["retain"] == 5
    assert not told(own, "reloaded")
    # Once the file is valid again, it takes effect again.
    file.write_text("retain: 4\n")
    reload(own, changed=1)
    peer.until("t", lambda info: info["retain"] == 4)
    own.stop()


def test_a_reload_without_a_file_is_told(start):
    own = start()
    reload(own, file="none", changed=0)
    own.stop()


def test_pages_are_allowed_and_connections_limited_by_a_reload(start, connect, file):
    file.write_text("")
    own = start("-c", str(file))

    def preflight() -> str | None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{own.http_port}/v1/topics/t/messages", method="POST", data=b"x",
            headers={"origin": "https://a.org"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.headers["access-control-allow-origin"]
        except urllib.error.HTTPError as error:
            return str(error.code)

    assert preflight() == "403"
    file.write_text("allow-origin: [https://a.org]\n")
    reload(own, changed=1)
    eventually(preflight, lambda got: got == "https://a.org")
    peer = connect(own)
    peer.numbers("t", 1, 1)
    # The connections of the pages have gone.
    eventually(lambda: peer.listing("$SYS.connections"), lambda rows: len(rows) == 1)
    file.write_text("allow-origin: [https://a.org]\nmax-connections: 1\n")
    reload(own, changed=1)
    with pytest.raises(Exception):
        connect(own).numbers("t", 2, 2)
    eventually(lambda: told(own, "connections refused"), bool)
    file.write_text("max-connections: 10\n")
    reload(own, changed=2)
    eventually(lambda: connect(own).numbers("t", 3, 3), bool)
    peer.numbers("t", 4, 4)
    own.stop()


def test_reloads_are_counted(start, file):
    file.write_text("retain: 5\n")
    own = start("-c", str(file), "--admin", "127.0.0.1:0")

    def counted() -> list[str]:
        with urllib.request.urlopen("http://%s:%d/metrics" % own.admin, timeout=30) as answer:
            return re.findall(r'(?m)^forebay_reloads_total.* (\d+)$', answer.read().decode())

    assert counted() == ["0", "0"]
    reload(own)
    file.write_text("retain: none\n")
    reload(own, "reload refused")
    reload(own, "reload refused")
    eventually(counted, lambda counts: counts == ["1", "2"])
    own.stop()


# Limits of the machine


@pytest.mark.parametrize("wanted, files", [(1000, 1100), (1000, 2000)])
def test_few_open_files_are_told(start, wanted, files):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < files:
        pytest.skip("the machine has too few open files")
    own = start("--max-connections", str(wanted), launcher=["prlimit", f"--nofile={files}"])
    lines = told(own, "few open files")
    if files == 2000:
        assert not lines
    else:
        (line,) = lines
        assert line["level"] == "warn" and line["max-connections"] == wanted and line["open-files"] == files
        assert 0 < line["connections"] < wanted < line["needed"] < 2000
        assert f"ulimit -n {line['needed']}" in line["advice"] and "LimitNOFILE" in line["advice"]
        # That number is enough, and one less is not.
        needed = line["needed"]
        for count, expected in ((needed, wanted), (needed - 1, wanted - 1)):
            other = start("--max-connections", str(wanted), launcher=["prlimit", f"--nofile={count}"])
            assert told(other, "starting")[0]["connections"] == expected
            other.stop()
    own.stop()


def test_few_open_files_are_told_when_connections_become_more(start, file):
    file.write_text("max-connections: 10\n")
    own = start("-c", str(file), launcher=["prlimit", "--nofile=1100"])
    assert not told(own, "few open files")
    file.write_text("max-connections: 1000\n")
    reload(own)
    assert [line["max-connections"] for line in told(own, "few open files")] == [1000]
    own.stop()


# Documents


LOGIN = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
"""


def test_the_sample_file_is_in_order(start, file):
    # The files that the sample names. A certificate that expires soon would cause a warning.
    pair = tls.authority().issue(days=400)
    for name, path in (("broker.pem", pair.cert), ("broker.key", pair.key), ("clients.pem", tls.authority().file),
                       ("nats.pem", tls.authority().file), ("node.pem", pair.cert), ("node.key", pair.key)):
        (file.parent / name).write_bytes(Path(path).read_bytes())
    (file.parent / "login.pem").write_text(LOGIN)
    (file.parent / "nats.creds").write_bytes(nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_USER))
    assert start.run("-t", "-c", str(SAMPLE))[0] == 0
    # And with every commented-out line enabled.
    file.write_text(re.sub(r"(?m)^#(?=[a-z]|  )", "", SAMPLE.read_text()))
    code, _, err = start.run("-t", "-c", str(file))
    # There may be no NATS server at the sample's address.
    assert code == 0 and re.fullmatch(r"(forebayd: cannot reach NATS \(upstream\): .*\n)?", err), err


@pytest.fixture
def printed(start) -> dict[str, str]:
    """Every setting, and its default as it is written."""
    out = start.run("--print-config")[1]
    return {key: value for key, value in re.findall(r"(?m)^(?:# )?([a-z][a-z-]*): (.*?) +# ", out)}


def test_the_sample_file_has_every_setting(printed):
    text = SAMPLE.read_text()
    for key, value in printed.items():
        assert re.search(rf"(?m)^#?{key}:", text), key
        if key not in ("topics", "users", "anonymous", "jwt") and not value.startswith("("):
            assert re.search(rf"(?m)^#{key}: {re.escape(value)}(?= |$)", text), (key, value)


def test_the_document_has_every_setting(printed):
    """With its default, and whether changing it requires a restart, as in the sample file."""
    text = (ROOT / "Docs/configuration.md").read_text()
    rows = re.findall(r"(?m)^\| `([a-z-]+)` \| (.*?) \| (yes|restart) \|", text)
    assert sorted(key for key, _, _ in rows) == sorted(printed)
    notes = dict(re.findall(r"(?m)^#([a-z-]+):.*?  # (.*)$", SAMPLE.read_text()))
    assert len(notes) > 40
    for key, default, reload in rows:
        assert default == f"`{printed[key]}`" or printed[key][0] in "[(" and default == "none", (key, default)
        assert key not in notes or ("restart" in notes[key]) == (reload == "restart"), (key, reload)


@pytest.mark.parametrize("words", [["-h"], ["-V"], ["-t"], ["--print-config"], ["--manual", "file"],
                                   ["--hash-password"], ["--completion", "bash"]], ids=" ".join)
def test_output_that_cannot_be_written_is_a_failure(start, words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([start.executable(), *words], stdout=full, stderr=subprocess.PIPE, input=b"word\n")
    assert (done.returncode, done.stderr) == (
        1, b"forebayd: cannot write the output: No space left on device\n")
