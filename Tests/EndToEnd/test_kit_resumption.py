"""The resumption cases of the public RSocket test kit, each under its name: a stream of six messages, half of them
requested before its socket breaks. The tests use plain sockets, because rsocket-py does not resume and gRPC
has no sessions."""

import pytest

import raw
from client import numbers
from resuming import Resuming

pytestmark = pytest.mark.rsocket


@pytest.fixture
def cut(broker, b, topic):
    """A client whose socket is closed after three of the six messages; and the number that the broker has delivered by
    then."""
    b.numbers(topic, 1, 6)
    b.control("$SYS.topic.complete", name=topic)
    this = Resuming(broker.address)
    this.send(raw.request(raw.REQUEST_STREAM, 1, b"", raw.route(f"{topic}?replay=all"), n=3))
    this.until(lambda: this.count(1) == 3)
    assert this.data(1) == numbers(1, 3)
    this.close()
    return this


def completes(this):
    """All six, each once, and then the end."""
    this.until(lambda: this.frames[1][-1].has(raw.C), "the end")
    assert this.data(1) == numbers(1, 6) and sum(frame.has(raw.C) for frame in this.frames[1]) == 1
    this.end()


def request_while_cut(this, n: int):
    """The request is sent with the retransmitted frames."""
    this.sent.append(raw.request_n(1, n))


def test_stream_resumption_test_1(cut):
    request_while_cut(cut, 3)
    cut.resume()
    completes(cut)


def test_stream_resumption_test_2(cut, b, topic):
    """The client does not return: nothing more is delivered, whatever it meant to request."""
    request_while_cut(cut, 3)
    (row,) = b.ledger(topic)
    assert row["delivered"] == 3 and row["waiting"] == 3
    assert cut.data(1) == numbers(1, 3)


def test_stream_resumption_test_3(cut):
    request_while_cut(cut, 1)
    cut.resume()
    cut.send(raw.request_n(1, 2))
    completes(cut)


def test_stream_resumption_test_4(cut):
    cut.resume()
    cut.send(raw.request_n(1, 3))
    completes(cut)
