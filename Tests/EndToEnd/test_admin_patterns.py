"""What operators see of subscriptions to patterns: on the admin page, in statistics and in metrics."""

import contextlib

import pytest

from admin import Admin
from common import eventually
from page import Page

pytestmark = pytest.mark.rsocket


def first(page: Page) -> list[str]:
    """The first subscription's cells, or what the table says instead."""
    return (page.rows("subscriptions") or [[""]])[0]


def test_a_pattern_is_shown_with_its_topics(begin):
    admin = Admin(begin("--admin", "127.0.0.1:0", "--max-patterns", "1", "--max-matches", "2"))
    broker = admin.broker
    url = "http://%s:%d/" % broker.admin
    with contextlib.closing(broker.peer()) as peer, contextlib.closing(Page(url)) as page:
        slow = peer.subscribe("orders.>", n=1, meta=True)
        for topic in ("orders.eu", "orders.us"):
            for text in (b"1", b"2", b"3"):
                peer.offer(topic, text).sequence()
        assert slow.event().data == b"1"
        page.until(lambda: first(page)[0].startswith("no credit"), "the pattern is slow")
        (row,) = page.rows("subscriptions")
        assert row[1].split("\n") == ["orders.>", "2 active topics"] and row[5] == "5"
        assert "of 1 subscriptions, 1 to patterns" in page.text("#tiles")
        assert page.text("#slow-words") == "1 of 1 is slow"
        page.fill("#subscriptions-find", "orders.eu")
        page.until(lambda: first(page) == ["None matches the filter."], "the pattern is no topic")
        page.fill("#subscriptions-find", "ORDERS.>")
        page.until(lambda: len(first(page)) > 1, "the pattern is found")

        told = admin.metrics()
        names = ("subscriptions", "pattern_subscriptions", "patterns", "patterns_limit", "pattern_cursors")
        assert [told[f"forebay_{name}"] for name in names] == [1, 1, 1, 1, 2]
        assert told['forebay_subscriptions_behind{waits_for="credit"}'] == 1
        assert told["forebay_messages_waiting"] == 5

        # Beyond the limits: another pattern is refused, another topic is skipped.
        assert peer.subscribe("other.>", n=1).event().kind.name == "REJECTED"
        page.until(lambda: page.text("#health") == "limit reached: patterns", "the page shows the limit")
        peer.offer("orders.asia", b"1").sequence()
        page.until(lambda: "skipped others once" in page.text("#subscriptions"), "a topic is skipped")
        told = admin.metrics()
        assert [told[f'forebay_limit_reached_total{{limit="{name}"}}'] for name in ("patterns", "matches")] == [1, 1]
        slow.cancel()
        page.until(lambda: first(page) == ["None matches the filter."], "the subscription is gone")
        told = admin.metrics()
        assert [told[f"forebay_{name}"] for name in names] == [0, 0, 0, 1, 0]


def test_the_tail_of_a_pattern_names_topics(begin):
    broker = begin("--admin", "127.0.0.1:0")
    with contextlib.closing(broker.peer()) as peer, contextlib.closing(Page("http://%s:%d/" % broker.admin)) as page:
        page.until("document.querySelector('#tail')?.disabled === false", "the page knows where HTTP is")
        page.fill("#topic", "orders.>")
        page.value("document.querySelector('#replay').value = 'all'")
        page.value("document.querySelector('#valve').focus()")
        page.press("Home")
        page.click("#tail")
        eventually(lambda: peer.ledger("orders.>"), len)
        peer.offer("orders.eu", b"pears").sequence()
        page.until(lambda: page.text("#messages").split() == ["orders.eu", "1", "pears"], "the message is named")
        for number in range(1030):
            peer.fire("orders.us", b"%d" % number)
        peer.control("$SYS.topic.complete", name="orders.eu")
        page.until(lambda: "orders.eu: completed" in page.text("#messages"), "the end is named")
        page.click("#grant-10")
        page.until(lambda: "6 lost here in orders.us" in page.text("#messages"), "the loss is named")
