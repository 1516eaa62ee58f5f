"""`forebay pub --publisher`: each message is published once, over both protocols, wherever the connection is cut."""

import contextlib
import re

import pytest

from commands import Commands, ended, until
from proxy import Proxy


@pytest.fixture
def network(scheme, broker):
    """Between the commands and the broker."""
    with contextlib.closing(Proxy(broker.address if scheme == "rsocket" else broker.http)) as proxy:
        yield proxy


@pytest.fixture
def forebay(network, scheme):
    this = Commands(network.address, scheme)
    yield this
    this.stop()


@pytest.fixture
def root(broker):
    with contextlib.closing(broker.peer("rsocket")) as peer:
        yield peer


def last(root, topic: str) -> int:
    return root.control("$SYS.publisher.info", topic=topic, publisher="p")["number"]


def test_the_command_numbers_its_messages(forebay, root, topic):
    assert forebay.ok("pub", topic, "a", "--publisher", "p", "--ack") == b"1\n"
    assert forebay.ok("pub", topic, "b", "--publisher", "p", "--ack", "--json") == b'{"acknowledged":1,"sequence":2}\n'
    forebay.ok("pub", topic, "--stdin", "--publisher", "p", stdin=b"c\nd\n")
    forebay.ok("pub", topic, "e", "--count", "3", "--publisher", "p")
    assert last(root, topic) == 7
    assert root.info(topic)["published"] == 7
    assert root.subscribe(topic, "replay=all").data(7) == [b"a", b"b", b"c", b"d", b"e", b"e", b"e"]
    done = forebay.run("pub", topic, "x", "--publisher", "x" * 256)
    assert done.returncode == 2 and b"at most 255" in done.stderr


def test_each_message_is_published_once_wherever_the_connection_is_cut(forebay, network, root, topic):
    count = 20_000
    process = forebay.start("pub", topic, "--size", "100", "--count", str(count), "--rate", "10000", "--publisher", "p")
    cuts = 0
    while process.poll() is None and cuts < 8:
        before = root.info(topic)["published"] if cuts else 0
        goal = before + 500
        until(lambda: process.poll() is not None or last(root, topic) > goal, "messages are published")
        network.cut()
        cuts += 1
    _, err = ended(process)
    assert cuts == 8 and "Reconnecting" in err
    info = root.info(topic)
    assert info["published"] == count and last(root, topic) == count
    numbers = [int(data[:20]) for data in root.subscribe(topic, "replay=all").data(info["retained"])]
    assert numbers == list(range(count - info["retained"] + 1, count + 1))


def test_the_command_stops_if_its_publisher_is_unknown_in_doubt(forebay, network, root, topic):
    subscriber = root.subscribe(topic)
    root.joined(topic, 1)
    process = forebay.start("pub", topic, "--size", "100", "--forever", "--rate", "5000", "--publisher", "p")
    subscriber.data(20)
    network.hold()
    sent = network.bytes["out"]
    until(lambda: network.bytes["out"] > sent + 5000, "messages are on their way")
    root.control("$SYS.topic.delete", name=topic)
    network.cut()
    network.release()
    _, err = ended(process, 1)
    assert re.search(r"no longer knows publisher 'p', so it is unknown whether the last \d+ messages? (was|were)", err)
