"""Where a subscription begins: replay, from, epoch, gap."""

import pytest

from common import *

UNLIKELY_EPOCH = 12345


def test_without_replay_only_what_is_published_later_comes(a, b, topic):
    b.numbers(topic, 1, 5)
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.numbers(topic, 6, 7)
    assert sub.data(2) == numbers(6, 7)


def test_a_subscription_begins_after_what_was_acknowledged_before(connect, a, b, topic):
    """This holds whatever the subscription's shard, and although other subscriptions there are already served."""
    peers = [a, b, connect(), connect()]
    for peer in peers:
        peer.subscribe(topic)
    a.joined(topic, 4)
    for i in range(1, 60, 2):
        b.numbers(topic, i, i)
        subs = [peer.subscribe(topic, n=1) for peer in peers]
        a.joined(topic, 8)
        b.numbers(topic, i + 1, i + 1)
        assert [sub.data(1) for sub in subs] == [[b"%d" % (i + 1)]] * 4
        for sub in subs:
            sub.cancel()
        a.joined(topic, 4)


@pytest.mark.parametrize("option, first", [("replay=0", 11), ("replay=1", 10), ("replay=3", 8), ("replay=all", 1)])
def test_replay_begins_with_the_last_retained(a, b, topic, option, first):
    b.numbers(topic, 1, 10)
    sub = a.subscribe(f"{topic}?{option}")
    a.joined(topic, 1)
    b.numbers(topic, 11, 12)
    assert sub.data(13 - first) == numbers(first, 12)


def test_replay_of_more_than_there_is_gives_what_there_is(a, b, topic):
    b.numbers(topic, 1, 3)
    assert a.subscribe(f"{topic}?replay=1000").data(3) == numbers(1, 3)


def test_replay_beyond_the_retained_window_gives_the_window(connect, small, topic):
    a, b = connect(small), connect(small)
    b.numbers(topic, 1, 20)
    for option in ("replay=all", "replay=100", "replay=8"):
        assert a.subscribe(f"{topic}?{option}").data(8) == numbers(13, 20)


def test_replay_on_a_topic_that_is_new_creates_it(a, b, topic):
    sub = a.subscribe(f"{topic}?replay=all")
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    assert sub.data(2) == numbers(1, 2)


def test_replay_is_paid_with_credit(a, b, topic):
    b.numbers(topic, 1, 10)
    sub = a.subscribe(f"{topic}?replay=all", n=3)
    assert sub.data(3) == numbers(1, 3)
    a.barrier(topic)
    sub.nothing()
    sub.request(7)
    assert sub.data(7) == numbers(4, 10)


@pytest.mark.parametrize("start", [1, 4, 10, 11])
def test_from_begins_at_that_sequence(a, b, topic, start):
    b.numbers(topic, 1, 10)
    sub = a.subscribe(f"{topic}?from={start}", meta=True)
    a.joined(topic, 1)
    b.numbers(topic, 11, 12)
    got = sub.take(13 - start)
    assert [one.sequence for one in got] == list(range(start, 13))
    assert all(one.dropped == 0 for one in got)


def test_from_with_the_epoch_resumes_without_loss_or_double(a, b, topic):
    first = a.subscribe(topic, n=4, meta=True)
    a.joined(topic, 1)
    b.numbers(topic, 1, 10)
    seen = first.take(4)
    first.cancel()
    last = seen[-1]
    resumed = a.subscribe(f"{topic}?from={last.sequence + 1}&epoch={last.epoch}", meta=True)
    assert datas(seen + resumed.take(6)) == numbers(1, 10)


def test_from_with_another_epoch_begins_at_the_oldest_retained(connect, small, topic):
    a, b = connect(small), connect(small)
    b.numbers(topic, 1, 20)
    sub = a.subscribe(f"{topic}?from=17&epoch={UNLIKELY_EPOCH}", meta=True)
    got = sub.take(8)
    assert [one.sequence for one in got] == list(range(13, 21))
    assert got[0].epoch != UNLIKELY_EPOCH


def test_from_an_evicted_sequence_begins_at_the_oldest_retained_and_tells_the_gap(connect, small, topic):
    a, b = connect(small), connect(small)
    b.numbers(topic, 1, 20)
    got = a.subscribe(f"{topic}?from=5", meta=True).take(8)
    assert [one.sequence for one in got] == list(range(13, 21))
    assert [one.dropped for one in got] == [8] + [0] * 7


def test_from_a_future_sequence_begins_at_the_next(a, b, topic):
    b.numbers(topic, 1, 3)
    sub = a.subscribe(f"{topic}?from=100", meta=True)
    a.joined(topic, 1)
    b.numbers(topic, 4, 5)
    assert [one.sequence for one in sub.take(2)] == [4, 5]


@pytest.mark.rsocket
@pytest.mark.parametrize("asked", [f"from=3&epoch={UNLIKELY_EPOCH}", "from=100"])
def test_an_end_tells_of_the_gap_that_no_message_told(a, b, topic, asked):
    sub = a.subscribe(f"{topic}?{asked}", meta=True)
    a.joined(topic, 1)
    epoch = int(a.info(topic)["epoch"])
    a.control("$SYS.topic.complete", name=topic)
    end = sub.end()
    assert end == End(dropped=0) and (end.info.epoch, end.info.sequence) == (epoch, 0)


@pytest.mark.parametrize("asked, told", [
    (f"from=3&epoch={UNLIKELY_EPOCH}", "(the topic restarted with epoch "),
    ("from=100", "(the requested message did not exist yet)")])
def test_a_failure_tells_of_the_gap_that_no_message_told(a, topic, asked, told):
    sub = a.subscribe(f"{topic}?{asked}", meta=True)
    a.joined(topic, 1)
    a.control("$SYS.topic.fail", name=topic, message="no more")
    assert sub.end().text.startswith(f"topic failed: no more {told}")


def test_an_end_tells_of_no_gap_behind_a_message_that_told_of_it(a, b, topic):
    sub = a.subscribe(f"{topic}?from=3&epoch={UNLIKELY_EPOCH}", meta=True)
    a.joined(topic, 1)
    b.numbers(topic, 1, 1)
    assert sub.take(1)[0].epoch != UNLIKELY_EPOCH
    a.control("$SYS.topic.complete", name=topic)
    assert sub.end() == End()


GAPS = {"another epoch": f"from=17&epoch={UNLIKELY_EPOCH}", "evicted": "from=5", "future": "from=100"}


@pytest.mark.parametrize("gap", GAPS)
def test_a_gap_refuses_the_subscription_with_gap_fail(connect, small, topic, gap):
    a, b = connect(small), connect(small)
    b.numbers(topic, 1, 20)
    end = refusal(a.subscribe(f"{topic}?{GAPS[gap]}&gap=fail", meta=True))
    assert "gap" in end.text.lower()
    assert a.info(topic)["subscriptions"] == 0


@pytest.mark.rsocket
@pytest.mark.parametrize("gap", GAPS)
def test_from_without_meta_implies_gap_fail(connect, small, topic, gap):
    a, b = connect(small), connect(small)
    b.numbers(topic, 1, 20)
    assert "gap" in refusal(a.subscribe(f"{topic}?{GAPS[gap]}")).text.lower()


def test_from_without_a_gap_is_served_with_gap_fail(a, b, topic):
    epoch = numbered(a, b, topic)
    sub = a.subscribe(f"{topic}?from=2&epoch={epoch}&gap=fail")
    assert sub.data(2) == numbers(2, 3)


def test_the_gap_is_told_by_default(connect, small, topic):
    a, b = connect(small), connect(small)
    b.numbers(topic, 1, 20)
    got = a.subscribe(f"{topic}?from=1&gap=tell", meta=True).take(1)[0]
    assert (got.sequence, got.dropped) == (13, 12)


def numbered(a, b, topic) -> int:
    """Publishes three messages and returns the topic's epoch."""
    b.numbers(topic, 1, 3)
    epoch = a.info(topic)["epoch"]
    assert isinstance(epoch, str)
    return int(epoch)
