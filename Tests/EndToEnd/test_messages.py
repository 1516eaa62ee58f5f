"""A message: its payload, and the broker's metadata for it."""

import time

from common import *


def test_each_message_tells_its_sequence_its_time_and_the_epoch(a, b, topic):
    sub = a.subscribe(topic, meta=True)
    a.joined(topic, 1)
    before = time.time_ns()
    b.numbers(topic, 1, 3)
    after = time.time_ns()
    got = sub.take(3)
    assert [(one.sequence, one.dropped) for one in got] == [(1, 0), (2, 0), (3, 0)]
    assert all(before <= one.timestamp <= after for one in got)
    assert len({one.epoch for one in got}) == 1


def test_meta_on_tells_the_epoch_that_control_tells(a, b, topic):
    b.numbers(topic, 1, 1)
    one = a.subscribe(f"{topic}?replay=1", meta=True).take(1)[0]
    assert a.info(topic)["epoch"] == str(one.epoch)


def test_empty_payloads_are_messages(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    assert b.publish(topic, b"", b"x", b"") == [1, 2, 3]
    assert sub.data(3) == [b"", b"x", b""]


def test_payloads_are_bytes_not_text(a, b, topic):
    every = bytes(range(256))
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.publish(topic, every)
    assert sub.data(1) == [every]
