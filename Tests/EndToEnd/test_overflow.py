"""The overflow policies: exactly which messages are seen, and how the loss of the others is reported."""

import pytest

from common import *


def start(a, b, topic, options, n=2, before=0) -> Stream:
    """A subscriber of credit `n`, joined after `before` messages."""
    if before:
        arrive(a, b, topic, 1, before)
    sub = a.subscribe(f"{topic}?{options}", n=n, meta=True)
    a.joined(topic, 1)
    return sub


def seen(messages) -> list[tuple[int, int]]:
    """(sequence, dropped-before) of each."""
    return [(one.sequence, one.dropped) for one in messages]


# Ten messages against credit 2 and buffer 3. For each policy: what arrives after another request, and the message after
# that.
CASES = {
    "drop-oldest": ([(8, 5), (9, 0), (10, 0)], (11, 0)),
    "drop-newest": ([(3, 0), (4, 0), (5, 0)], (11, 5)),
    "replace-newest": ([(3, 0), (4, 0), (10, 5)], (11, 0)),
    "latest": ([(10, 7)], (11, 0)),
}


@pytest.mark.parametrize("policy", CASES)
@pytest.mark.parametrize("batch", ["one by one", "in one write"])
def test_overflow(a, b, topic, policy, batch):
    sub = start(a, b, topic, f"overflow={policy}&buffer=3")
    if batch == "in one write":
        b.numbers(topic, 1, 10)
    else:
        for i in range(1, 11):
            b.numbers(topic, i, i)
    a.barrier(topic)
    assert seen(sub.take(2)) == [(1, 0), (2, 0)]
    waiting, after = CASES[policy]
    assert a.ledger(topic)[0]["waiting"] == len(waiting)
    sub.request(100)
    assert seen(sub.take(len(waiting))) == waiting
    a.barrier(topic)
    sub.nothing()
    arrive(a, b, topic, 11, 11)
    assert seen(sub.take(1)) == [after]


def test_overflow_default_is_drop_oldest(a, b, topic):
    sub = start(a, b, topic, "buffer=3")
    arrive(a, b, topic, 1, 10)
    sub.request(10)
    assert seen(sub.take(5)) == [(1, 0), (2, 0), (8, 5), (9, 0), (10, 0)]


def test_overflow_fail_delivers_what_waits_then_fails(a, b, topic):
    sub = start(a, b, topic, "overflow=fail&buffer=3")
    arrive(a, b, topic, 1, 10)
    assert seen(sub.take(2)) == [(1, 0), (2, 0)]
    a.barrier(topic)
    sub.nothing()
    sub.request(2)
    assert seen(sub.take(2)) == [(3, 0), (4, 0)]
    sub.request(1)
    assert seen(sub.take(1)) == [(5, 0)]
    end = sub.end()
    assert end.kind == Kind.OVERFLOW and end.text.startswith("overflow:")


def test_overflow_fail_with_exactly_a_full_buffer_goes_on(a, b, topic):
    sub = start(a, b, topic, "overflow=fail&buffer=3")
    arrive(a, b, topic, 1, 5)
    sub.request(10)
    sub.take(5)
    arrive(a, b, topic, 6, 8)
    assert [one.sequence for one in sub.take(3)] == [6, 7, 8]


def test_overflow_fail_harms_no_other_subscription(a, b, topic):
    failing = start(a, b, topic, "overflow=fail&buffer=1", n=1)
    other = a.subscribe(topic)
    a.joined(topic, 2)
    arrive(a, b, topic, 1, 10)
    assert other.data(10) == numbers(1, 10)
    failing.request(5)
    assert len(failing.rest()) == 2 and failing.ended.kind == Kind.OVERFLOW


def test_overflow_block_loses_nothing(a, b, topic):
    sub = start(a, b, topic, "overflow=block&buffer=3")
    assert b.numbers(topic, 1, 5) == [1, 2, 3, 4, 5]
    offers = park(b, topic, 6, 10)
    assert not any(offer.answered() for offer in offers)
    sub.request(100)
    assert seen(sub.take(10)) == [(i, 0) for i in range(1, 11)]
    assert [offer.sequence() for offer in offers] == [6, 7, 8, 9, 10]


@pytest.mark.parametrize("policy", ["drop-oldest", "drop-newest", "replace-newest", "fail", "latest", "block"])
def test_overflow_a_reader_with_credit_sees_everything(a, b, topic, policy):
    sub = start(a, b, topic, f"overflow={policy}&buffer=1", n=UNBOUNDED)
    for i in range(1, 21):
        arrive(a, b, topic, i, i)
        assert seen(sub.take(1)) == [(i, 0)]


def test_buffer_of_one(a, b, topic):
    sub = start(a, b, topic, "buffer=1", n=1)
    arrive(a, b, topic, 1, 4)
    sub.request(5)
    assert seen(sub.take(2)) == [(1, 0), (4, 2)]


def test_buffer_default_is_1024(a, b, topic):
    sub = start(a, b, topic, "overflow=drop-newest", n=1)
    arrive(a, b, topic, 1, 1030)
    sub.request(5000)
    assert [one.sequence for one in sub.take(1025)] == list(range(1, 1026))
    a.barrier(topic)
    sub.nothing()


def test_buffer_may_be_larger_than_the_retained_window(connect, small, topic):
    a, b = connect(small), connect(small)
    sub = start(a, b, topic, "buffer=50", n=1)
    arrive(a, b, topic, 1, 60)
    sub.request(100)
    assert seen(sub.take(51)) == [(1, 0), (11, 9)] + [(i, 0) for i in range(12, 61)]


def test_buffer_of_the_largest_size(a, b, topic):
    sub = start(a, b, topic, "buffer=2147483647", n=1)
    arrive(a, b, topic, 1, 3000)
    sub.request(3000)
    assert seen(sub.take(3000)) == [(i, 0) for i in range(1, 3001)]


def test_drops_come_in_order_of_several_turns(a, b, topic):
    """Overflow, relief and overflow again: each loss is reported exactly where it happened, and once."""
    sub = start(a, b, topic, "overflow=drop-oldest&buffer=2", n=1)
    arrive(a, b, topic, 1, 5)
    sub.request(1)
    assert seen(sub.take(2)) == [(1, 0), (4, 2)]
    arrive(a, b, topic, 6, 9)
    sub.request(3)
    assert seen(sub.take(2)) == [(8, 3), (9, 0)]
    arrive(a, b, topic, 10, 10)
    assert seen(sub.take(1)) == [(10, 0)]


def test_drop_newest_keeps_several_ranges(a, b, topic):
    sub = start(a, b, topic, "overflow=drop-newest&buffer=2", n=1)
    arrive(a, b, topic, 1, 5)  # 1 seen; 2, 3 wait; 4, 5 refused
    sub.request(1)
    assert seen(sub.take(2)) == [(1, 0), (2, 0)]
    arrive(a, b, topic, 6, 8)  # 3, 6 wait; 7, 8 refused
    sub.request(1)
    assert seen(sub.take(1)) == [(3, 0)]
    arrive(a, b, topic, 9, 10)  # 6, 9 wait; 10 refused
    sub.request(5)
    assert seen(sub.take(2)) == [(6, 2), (9, 2)]
    arrive(a, b, topic, 11, 11)
    assert seen(sub.take(1)) == [(11, 1)]


def test_drop_newest_is_exact_up_to_64_ranges_and_refuses_the_65th(a, b, topic):
    """Every other message is refused, so each waiting message is a separate range."""
    sub = start(a, b, topic, "overflow=drop-newest&buffer=80", n=1)
    arrive(a, b, topic, 1, 81)  # 1 seen, 2…81 wait: one range
    got = sub.take(1)
    expected = list(range(1, 82))
    for turn in range(65):
        sub.request(1)
        got += sub.take(1)
        arrive(a, b, topic, 82 + 2 * turn, 83 + 2 * turn)  # The first has room; 82 still belongs to the first range.
        if turn < 64:
            expected.append(82 + 2 * turn)
    sub.request(100)
    got += sub.take(len(expected) - len(got))
    assert [one.sequence for one in got] == expected
    a.barrier(topic)
    sub.nothing()


def test_replace_newest_keeps_several_ranges(a, b, topic):
    sub = start(a, b, topic, "overflow=replace-newest&buffer=2", n=1)
    arrive(a, b, topic, 1, 5)  # 1 seen; 2 and 5 wait, 3 and 4 were dropped
    sub.request(1)
    assert seen(sub.take(2)) == [(1, 0), (2, 0)]
    arrive(a, b, topic, 6, 8)  # 5 and 8 wait
    sub.request(5)
    assert seen(sub.take(2)) == [(5, 2), (8, 2)]


def test_drops_with_the_end_of_a_topic_are_told_by_its_terminal_event(a, b, topic):
    sub = start(a, b, topic, "overflow=drop-newest&buffer=3")
    arrive(a, b, topic, 1, 10)
    b.control("$SYS.topic.complete", name=topic)
    sub.request(3)
    assert seen(sub.take(5)) == [(i, 0) for i in range(1, 6)]
    end = sub.end()
    assert end.kind is None and end.dropped == 5


def test_drops_with_the_failure_of_a_topic_are_told_by_its_terminal_event(a, b, topic):
    sub = start(a, b, topic, "overflow=drop-newest&buffer=3")
    arrive(a, b, topic, 1, 29)
    b.control("$SYS.topic.fail", name=topic, message="the sensor is gone")
    sub.request(3)
    sub.take(5)
    end = sub.end()
    assert end.kind == Kind.FAILED and end.text.startswith("topic failed: the sensor is gone")
    assert end.dropped == 24 or "24" in end.text


def test_a_joiners_limit_is_its_buffer_plus_what_it_joined_with(a, b, topic):
    sub = start(a, b, topic, "replay=all&buffer=2", n=1, before=5)
    assert seen(sub.take(1)) == [(1, 0)]
    arrive(a, b, topic, 6, 9)  # 2…9 are eight; 2 + 5 may wait
    sub.request(5)
    assert seen(sub.take(5)) == [(3, 1), (4, 0), (5, 0), (6, 0), (7, 0)]
    arrive(a, b, topic, 10, 10)  # Two waited, so the limit is 2 from then on
    sub.request(2)
    assert seen(sub.take(2)) == [(9, 1), (10, 0)]


def test_a_joiner_with_a_small_buffer_gets_all_its_replay(a, b, topic):
    sub = start(a, b, topic, "replay=all&buffer=1", n=1, before=100)
    for _ in range(99):
        sub.request(1)
    assert seen(sub.take(100)) == [(i, 0) for i in range(1, 101)]


def test_a_joiners_limit_with_drop_newest(a, b, topic):
    sub = start(a, b, topic, "replay=all&buffer=2&overflow=drop-newest", n=1, before=5)
    arrive(a, b, topic, 6, 12)  # 2…8 wait: 2 + 5; 9…12 are refused
    sub.request(100)
    assert seen(sub.take(8)) == [(i, 0) for i in range(1, 9)]
    arrive(a, b, topic, 13, 13)
    assert seen(sub.take(1)) == [(13, 4)]


def test_latest_keeps_only_the_newest_whatever_buffer_and_replay_say(a, b, topic):
    sub = start(a, b, topic, "replay=all&buffer=10&overflow=latest", n=1, before=5)
    assert sub.take(1)[0].sequence == 5
    arrive(a, b, topic, 6, 8)
    sub.request(5)
    assert seen(sub.take(1)) == [(8, 2)]
    arrive(a, b, topic, 9, 9)
    assert seen(sub.take(1)) == [(9, 0)]


def test_latest_counts_what_it_skips_after_from_and_not_after_replay(a, b, topic):
    b.numbers(topic, 1, 5)
    for options, dropped in [("replay=all", 0), ("from=2", 3), ("from=2&gap=fail", 3)]:
        assert seen(a.subscribe(f"{topic}?overflow=latest&{options}", meta=True).take(1)) == [(5, dropped)], options


def test_each_subscription_has_its_own_policy_and_buffer(a, b, topic):
    expected = {
        "overflow=drop-oldest&buffer=2": [1, 9, 10],
        "overflow=drop-newest&buffer=2": [1, 2, 3],
        "overflow=replace-newest&buffer=2": [1, 2, 10],
        "overflow=latest&buffer=7": [1, 10],
        "overflow=drop-oldest&buffer=9": list(range(1, 11)),
    }
    subs = {options: a.subscribe(f"{topic}?{options}", n=1, meta=True) for options in expected}
    a.joined(topic, len(subs))
    arrive(a, b, topic, 1, 10)
    for options, sequences in expected.items():
        subs[options].request(50)
        assert [one.sequence for one in subs[options].take(len(sequences))] == sequences, options
    a.barrier(topic)
    for sub in subs.values():
        sub.nothing()
