"""`forebay sub` with a pattern: messages name their topics, later topics match, and what happens over a restart."""

import json
import re
import signal

import pytest

from commands import ended, until
from test_cli_reconnect import Restarted, line_of


@pytest.fixture
def forebay(start, reach):
    broker = start()
    yield reach(broker)
    broker.stop()


def test_each_message_follows_its_topic(forebay):
    forebay.ok("pub", "orders.eu", "one: 1")
    reader = forebay.start("sub", "orders.>", "--replay", "all", "--count", "3")
    assert reader.stdout.readline() == b"orders.eu one: 1\n"
    # This topic does not exist yet.
    forebay.ok("pub", "orders.us.east", "--stdin", stdin=b"two\n\n")
    forebay.ok("pub", "other", "not this one")
    out, err = ended(reader)
    assert (out, err) == (b"orders.us.east two\norders.us.east \n", "")


def test_lists_show_the_pattern_and_its_topics(forebay):
    for topic in ("orders.eu", "orders.us"):
        forebay.ok("pub", topic, "x")
    forebay.subscriber("other")
    # One message at a time: the others wait.
    forebay.subscriber("orders.>", "--request", "1", "--once")
    for text in "123":
        forebay.ok("pub", "orders.eu", text)
    until(lambda: forebay.rows("subs", topic="orders.>", waiting=2), "two messages wait")
    (row,) = forebay.rows("subs", topic="orders.>")
    assert (row["matched"], row["cursors"], row["skipped"], row["meta"]) == (2, 1, 0, True)
    (other,) = forebay.rows("subs", topic="other")
    assert "cursors" not in other
    head, *lines = forebay.ok("subs").decode().splitlines()
    assert head.split()[-3:] == ["MATCHED", "ACTIVE", "SKIPPED"]
    assert sorted(line.split()[-3:] for line in lines) == [["-", "-", "-"], ["2", "1", "0"]]
    until(lambda: json.loads(forebay.ok("top", "--once", "--json"))["slow"] == 1, "top shows that it is slow")
    forebay.environment["COLUMNS"] = "160"
    top = forebay.ok("top", "--once").decode()
    assert re.search(r"(?m)^ published .*  to patterns 1 ", top)
    assert re.search(r"(?m)^ no credit +orders\.> \(1 active\) ", top)


def test_json_names_the_topic(forebay):
    forebay.ok("pub", "orders.eu", "1", "--header", "a=b")
    forebay.ok("pub", "orders.us", "2")
    rows = forebay.ok("sub", "orders.*", "--replay", "1", "--count", "2", "--json").splitlines()
    assert sorted(rows) == [b'{"topic":"orders.eu","payload":"1"}', b'{"topic":"orders.us","payload":"2"}']
    rows = [json.loads(row) for row in
            forebay.ok("sub", "orders.*", "--replay", "1", "--count", "2", "--json", "--meta").splitlines()]
    assert {row["topic"]: row["sequence"] for row in rows} == {"orders.eu": 1, "orders.us": 1}
    assert next(row for row in rows if row["topic"] == "orders.eu")["headers"] == {"a": "b"}


def test_text_with_metadata_and_raw(forebay):
    forebay.ok("pub", "orders.eu", "x")
    options = ["--replay", "1", "--count", "1"]
    text = forebay.ok("sub", "orders.>", *options, "--meta")
    assert re.fullmatch(rb"orders\.eu #1 \d\d:\d\d:\d\d\.\d{3} x\n", text)
    assert forebay.ok("sub", "orders.>", *options, "--format", "raw") == b"x"


@pytest.mark.parametrize("request_", [(), ("--request", "2"), ("--request", "1")])
def test_demand_and_a_limit(forebay, request_):
    for topic in ("a.1", "a.2", "a.3"):
        forebay.ok("pub", topic, "--stdin", stdin=b"1\n2\n3\n")
    lines = forebay.ok("sub", "a.*", "--since", "-1h", "--count", "9", *request_).decode().splitlines()
    assert sorted(lines) == [f"a.{topic} {number}" for topic in (1, 2, 3) for number in (1, 2, 3)]
    for topic in ("a.1", "a.2", "a.3"):
        assert [line[-1] for line in lines if line.startswith(topic)] == ["1", "2", "3"]


def test_a_request_that_is_not_repeated(forebay):
    forebay.ok("pub", "a.1", "--stdin", stdin=b"1\n2\n3\n")
    reader = forebay.start("sub", "a.>", "--replay", "all", "--request", "2", "--once")
    assert [reader.stdout.readline() for _ in range(2)] == [b"a.1 1\n", b"a.1 2\n"]
    line_of(reader.stderr, "The credit of 2 is used up")
    reader.send_signal(signal.SIGINT)
    assert ended(reader)[0] == b""


@pytest.mark.parametrize("pattern", ["orders.>.eu", "orders.e*", ">>", "a..*"])
def test_an_invalid_pattern(forebay, pattern):
    done = forebay.run("sub", pattern)
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"'{pattern}' is not a topic pattern" in done.stderr.decode()


@pytest.mark.parametrize("options, words", [
    (["--from", "3"], "--from cannot be used with a pattern, because each topic has its own sequences"),
    (["--opening"], "--opening cannot be used with a pattern"),
    (["--overflow", "block"], "--overflow block cannot be used with a pattern"),
    (["--interactive"], "--interactive cannot be used with a pattern"),
])
def test_what_goes_with_a_single_topic_only(forebay, options, words):
    done = forebay.run("sub", "orders.>", *options)
    assert done.returncode == 2 and words in done.stderr.decode()
    assert forebay.run("pub", "orders.>", "x").returncode == 2


def test_after_a_restart_it_goes_on_in_each_topic(start, reach):
    """Topics in memory have new epochs then. Their messages are received although they were published before the
    subscription was back."""
    restarted = Restarted(start)
    forebay = reach(restarted.broker)
    reader = forebay.start("sub", "t.*", "--replay", "all")
    forebay.ok("pub", "t.1", "one")
    assert reader.stdout.readline() == b"t.1 one\n"
    restarted.end()
    line_of(reader.stderr, "Reconnecting")
    restarted.begin()
    forebay.ok("pub", "t.1", "two")
    assert reader.stdout.readline() == b"t.1 two\n"
    reconnected = line_of(reader.stderr, "Reconnected to")
    # All topics are received from their start, so nothing can be missing in others.
    assert reconnected.endswith(".\n") and "lost" not in reconnected
    assert re.search(r"epoch \d+ of t\.1: the topic restarted; this is its #1,", line_of(reader.stderr, "epoch"))
    reader.send_signal(signal.SIGINT)
    ended(reader)


def test_many_topics_that_restart_are_not_all_named(start, reach):
    restarted = Restarted(start)
    forebay = reach(restarted.broker)
    topics = [f"t.{number}" for number in range(13)]

    def publish():
        for topic in topics:
            forebay.ok("pub", topic, "x")

    reader = forebay.start("sub", "t.*", "--replay", "all", "--count", str(2 * len(topics)))
    publish()
    for _ in topics:
        reader.stdout.readline()
    restarted.end()
    line_of(reader.stderr, "Reconnecting")
    restarted.begin()
    publish()
    out, err = ended(reader)
    assert len(out.splitlines()) == len(topics)
    assert err.count("the topic restarted; this is its #1") == 10 and err.count("More topics restarted") == 1


def test_what_is_on_disk_arrives_once(start, reach, tmp_path):
    """Messages of the newest one's time are sent again, and not printed again."""
    restarted = Restarted(start, "--store", str(tmp_path / "store"), "--durable", "t.>")
    forebay = reach(restarted.broker)
    reader = forebay.start("sub", "t.*", "--replay", "all", "--request", "2", "--count", "7")
    forebay.ok("pub", "t.1", "--stdin", stdin=b"1\n2\n3\n")
    assert [reader.stdout.readline() for _ in range(3)] == [b"t.1 1\n", b"t.1 2\n", b"t.1 3\n"]
    restarted.end(hard=True)
    line_of(reader.stderr, "Reconnecting")
    restarted.begin()
    forebay.ok("pub", "t.1", "--stdin", stdin=b"4\n5\n")
    forebay.ok("pub", "t.2", "--stdin", stdin=b"1\n2\n")
    out, err = ended(reader)
    assert sorted(out.splitlines()) == [b"t.1 4", b"t.1 5", b"t.2 1", b"t.2 2"]
    assert "Reconnected" in err and "#" not in err


@pytest.mark.parametrize("options", [(), ("--replay", "all")])
def test_each_topic_continues_after_its_last_message(start, reach, tmp_path, options):
    """Nothing is lost or printed twice, although many messages wait for credit when the broker is killed."""
    restarted = Restarted(start, "--store", str(tmp_path / "store"), "--durable", "t.>")
    forebay = reach(restarted.broker)
    topics = [f"t.{number}" for number in range(50)]

    def publish(numbers, pad):
        for topic in topics:
            forebay.ok("pub", topic, "--stdin", stdin=b"".join(b"%d %s\n" % (number, pad) for number in numbers))

    reader = forebay.subscriber("t.*", *options, "--request", "2", "--count", str(50 * 13))
    publish([1], b"")
    lines = [reader.stdout.readline() for _ in range(50)]
    # The pipe is full after some of these.
    publish(range(2, 12), b"x" * 4000)
    lines += [reader.stdout.readline() for _ in range(100)]
    until(lambda: forebay.rows("subs", topic="t.*")[0]["waiting"] > 200, "many messages wait")
    restarted.end(hard=True)
    restarted.begin()
    publish([12, 13], b"")
    lines += reader.stdout.readlines()
    _, err = ended(reader)
    found = {topic: [] for topic in topics}
    for line in lines:
        topic, number, _ = line.split(b" ")
        found[topic.decode()].append(int(number))
    assert found == {topic: list(range(1, 14)) for topic in topics}
    assert "Reconnected" in err and "before #" not in err and "epoch" not in err
    assert ("continues in 50 topics;" in err) == (options == ())


@pytest.mark.parametrize("options", [("--max-payload", "1000", "--max-metadata", "1000"), ("--max-matches", "30")])
def test_a_broker_with_smaller_limits(start, reach, options):
    """As many positions are sent as the broker takes."""
    restarted = Restarted(start)
    forebay = reach(restarted.broker)
    topics = [f"t.{number}-{'x' * 100}" for number in range(40)]
    reader = forebay.subscriber("t.*")
    for topic in topics:
        forebay.ok("pub", topic, "one")
    assert sorted(reader.stdout.readline().decode() for _ in topics) == sorted(f"{topic} one\n" for topic in topics)
    restarted.end()
    line_of(reader.stderr, "Reconnecting")
    restarted._options = options
    restarted.begin()
    line = line_of(reader.stderr, "Reconnected to")
    assert re.search(r"continues in (5|20) topics; others begin with the messages since [\d:.]+, and older", line)
    for topic in topics[-30:]:
        forebay.ok("pub", topic, "two")
    assert sorted(reader.stdout.readline().decode() for _ in range(30)) == sorted(f"{topic} two\n" for topic in
                                                                               topics[-30:])
    reader.send_signal(signal.SIGINT)
    ended(reader)


# Over gRPC, nothing shows that the client has received the beginning of its stream, and one that has not ends.
@pytest.mark.parametrize("scheme", ["rsocket"])
def test_without_a_message_it_begins_again(start, reach):
    restarted = Restarted(start)
    forebay = reach(restarted.broker)
    reader = forebay.start("sub", "t.*")
    line_of(forebay.start("sub", "$SYS.events", "--replay", "50").stdout, r'"pattern":"t\.\*"')
    restarted.end()
    line_of(reader.stderr, "Reconnecting")
    restarted.begin()
    assert "Messages published in between may be lost." in line_of(reader.stderr, "Reconnected to")
    reader.send_signal(signal.SIGINT)
    ended(reader)


@pytest.mark.parametrize("scheme", ["http"])  # RSocket has no frame for that.
def test_ends_of_topics_are_reported(forebay):
    for topic in ("orders.eu", "orders.us"):
        forebay.ok("pub", topic, "1")
    reader = forebay.start("sub", "orders.*", "--replay", "all", "--meta")
    for _ in range(2):
        assert re.match(rb"orders\.(eu|us) ", reader.stdout.readline())
    forebay.ok("topic", "complete", "orders.eu")
    assert line_of(reader.stderr, "completed").endswith("The topic orders.eu completed.\n")
    forebay.ok("topic", "delete", "orders.us")
    assert line_of(reader.stderr, "orders.us").endswith("orders.us: topic failed: deleted.\n")
    reader.send_signal(signal.SIGINT)
    ended(reader)
