"""The channel cases of the public RSocket test kit, each under its name: the items of the requester against the
response of the responder. Here the requester publishes, and the broker's half carries its acknowledgements: a single
response, several, an error, or none, depending on the requester's credit and the topic's state. With rsocket-py, and
with grpcio except where a requester withholds credit or sends an error, which is impossible over gRPC.
"""

import pytest

from common import *

CLIENTS = ["rsocket-py", "grpc"]


def ends(channel, end=End()):
    """What was received before the end, which must be `end`."""
    told = []
    while channel.ended is None:
        told.append(channel.event())
    assert channel.ended == end, channel.ended
    return told


def send(channel, first: int, last: int):
    for item in numbers(first, last):
        channel.send(item)


def ended(b, topic):
    """A topic that accepts no more messages: a publisher is answered with an error."""
    b.publish(topic, b"0")
    b.control("$SYS.topic.complete", name=topic)


def held(a, topic) -> "Stream":
    """A `block` subscription: one message is delivered, one waits, and then there is no response."""
    sub = a.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    a.joined(topic, 1)
    return sub


def test_request_channel_single_vs_single(a, topic):
    channel = a.channel(topic, b"a")
    channel.acknowledged(1)
    channel.complete()
    ends(channel)
    assert channel.acks[-1][0] == 1


@pytest.mark.rsocket
def test_request_channel_single_vs_no_response(a, b, topic):
    """The only acknowledgement requested is spent: no other arrives, and the end needs none."""
    channel = a.channel(topic, b"a", acks=1)
    channel.acknowledged(1)
    channel.send(b"b")
    b.until(topic, lambda info: info["published"] == 2)
    channel.complete()
    assert "ack" not in ends(channel)


def test_request_channel_single_vs_error(a, b, topic):
    ended(b, topic)
    channel = a.channel(topic, b"a")
    assert channel.end().kind is Kind.REJECTED and channel.acks == []


@pytest.mark.rsocket
def test_request_channel_multi_vs_single(a, topic):
    channel = a.channel(topic, b"0", acks=1)
    channel.acknowledged(1)
    send(channel, 1, 3)
    channel.complete()
    ends(channel)
    assert len(channel.acks) == 1


def test_request_channel_multi_vs_multi(a, topic):
    channel = a.channel(topic, b"0")
    for sequence in range(2, 5):
        channel.send(b"%d" % sequence)
        channel.acknowledged(sequence)
    channel.complete()
    ends(channel)
    assert [ack[0] for ack in channel.acks][-3:] == [2, 3, 4]


def test_request_channel_multi_vs_no_response(a, b, topic):
    """There is no room: neither credit nor an acknowledgement arrives for messages that do not fit."""
    sub, channel = held(a, topic), b.channel(topic, b"1")
    channel.acknowledged(1)
    channel.until(lambda: channel.granted)
    channel.send(b"2")
    channel.acknowledged(2)
    b.barrier(topic)
    channel.pump()
    assert channel.credit == 0 and channel.acks[-1][0] == 2
    assert sub.data(1) == [b"1"]


def test_request_channel_multi_vs_error(a, b, topic):
    channel = a.channel(topic, b"0")
    send(channel, 1, 3)
    channel.acknowledged(4)
    b.control("$SYS.topic.complete", name=topic)
    told = "grant"
    while told not in ("end", "cancel"):
        told = channel.event()
    assert told == "cancel" or channel.ended.kind is Kind.REJECTED


def test_request_channel_no_response_vs_single(a, topic):
    """The requester sends nothing beyond item 0."""
    channel = a.channel(topic, b"a", complete=True)
    ends(channel)
    assert channel.sent == 0


def test_request_channel_no_response_vs_multi(a, b, topic):
    """The broker's half works before the requester's first further item: credit and acknowledgement."""
    channel = a.channel(topic, b"a")
    channel.until(lambda: channel.granted and channel.acks)
    channel.complete()
    ends(channel)


def test_request_channel_no_response_vs_error(a, b, topic):
    channel = a.channel(topic, b"a")
    channel.acknowledged(1)
    b.control("$SYS.topic.delete", name=topic)
    told = "grant"
    while told not in ("end", "cancel"):
        told = channel.event()
    assert told == "cancel" or channel.ended.kind is Kind.REJECTED


def test_request_channel_no_response_vs_no_response(a, b, topic):
    """Parked from its first item on: nothing arrives until there is room."""
    sub = held(a, topic)
    b.publish(topic, b"1", b"2")
    channel = b.channel(topic, b"3")
    b.parked(topic, 1)
    assert channel.pending() == 0
    sub.request(10)
    assert sub.data(3) == numbers(1, 3)
    channel.acknowledged(3)


@pytest.mark.rsocket
@pytest.mark.parametrize("acks", [1, UNBOUNDED], ids=["single", "multi"])
def test_request_channel_error_vs_single_and_multi(a, b, topic, acks):
    """The requester's error ends both halves; what it sent before stays."""
    channel = a.channel(topic, b"0", acks=acks)
    channel.acknowledged(1)
    channel.send(b"1")
    channel.fail("trouble")
    b.until(topic, lambda info: info["publishers"] == 0 and info["published"] == 2)
    assert b.publish(topic, b"2") == [3]


@pytest.mark.rsocket
def test_request_channel_error_vs_error(a, b, topic):
    ended(b, topic)
    channel = a.channel(topic, b"a")
    assert channel.end().kind is Kind.REJECTED
    channel.fail("trouble")
    assert a.publish(f"{topic}.next", b"x") == [1]


def test_request_channel_interleave_request_response(a, topic):
    channel = a.channel(topic, b"1")
    channel.acknowledged(1)
    for sequence in (2, 3):
        channel.send(b"%d" % sequence)
        channel.acknowledged(sequence)
    channel.complete()
    ends(channel)


def test_request_channel_cancel(a, b, topic):
    """The channel is cancelled in the middle of its messages: its publisher is gone; accepted messages stay."""
    channel = a.channel(topic, b"0")
    send(channel, 1, 4)
    channel.acknowledged(5)
    channel.cancel()
    b.until(topic, lambda info: info["publishers"] == 0)
    assert b.publish(topic, b"5") == [6]


def test_request_channel_cancel_2(a, b, topic):
    """The channel is cancelled directly after its end: nothing is left to cancel."""
    channel = a.channel(topic, b"0")
    channel.acknowledged(1)
    channel.complete()
    channel.cancel()
    b.until(topic, lambda info: info["publishers"] == 0)
    assert b.publish(topic, b"1") == [2]


def test_request_channel_cancel_3(a, topic):
    """Without a cancel the same channel completes."""
    channel = a.channel(topic, b"0")
    send(channel, 1, 4)
    channel.acknowledged(5)
    channel.complete()
    ends(channel)


def test_request_channel_multiple_succession(a, topic):
    for sequence in range(1, 5):
        channel = a.channel(topic, b"xx")
        channel.acknowledged(sequence)
        channel.complete()
        ends(channel)


def test_request_channel_after_cancel(a, b, topic):
    """No further acknowledgement or credit arrives, whatever is requested."""
    channel = a.channel(topic, b"0")
    channel.acknowledged(1)
    channel.cancel()
    b.until(topic, lambda info: info["publishers"] == 0)
    a.barrier(topic)
    channel.pump()
    acks = len(channel.acks)
    b.numbers(topic, 1, 5)
    a.barrier(topic)
    assert channel.pending() == 0 and len(channel.acks) == acks


def test_request_channel_after_cancel_2(a, b, topic):
    first = a.channel(topic, b"0")
    first.acknowledged(1)
    first.cancel()
    b.until(topic, lambda info: info["publishers"] == 0)
    second = a.channel(topic, b"1")
    second.acknowledged(2)
