"""The admin page, driven by its own controls in a real browser."""


import pytest

import tls
from crowd import Crowd
from page import Page

pytestmark = pytest.mark.rsocket


@pytest.fixture(scope="module")
def broker(start):
    this = start("--admin", "127.0.0.1:0")
    yield this
    this.process.kill()
    this.process.wait()


@pytest.fixture
def page(broker):
    opened = []

    def open_page(**options):
        secured = broker.admin[1] in tls.secured
        opened.append(Page("%s://%s:%d/" % ("https" if secured else "http", *broker.admin),
                           trusts=tls.server() if secured else None, **options))
        return opened[-1]

    yield open_page
    for one in opened:
        complaints = one.complaints
        one.close()
        assert complaints == []


def slow(page):
    return [row for row in page.rows("subscriptions") if row and row[0] in ("no credit", "not reading")]


def test_it_shows_within_two_seconds_who_is_slow(broker, page, tmp_path):
    crowd = Crowd(broker.address)
    try:
        one = page()
        one.until(lambda: len(slow(one)) == 5, "five are slow", 60)
        # Somebody who comes now sees it with the page's first answer, and it asks every second.
        one.reload()
        one.until(lambda: len(slow(one)) == 5, "five are slow")
        rows = one.rows("subscriptions")
        assert rows[:5] == slow(one)
        words = {"credit": "no credit", "socket": "not reading"}
        assert sorted((row[1], row[0]) for row in slow(one)) == sorted(
            (topic, words[what]) for topic, what in crowd.stalled)
        assert one.text("#slow-words") == "5 of 200 are slow"
        assert one.value("document.title") == "(5 slow) Forebay"
        for row, credit in zip(slow(one), ("0", "0", "0", "0", "∞")):
            assert (row[4] == "∞") == (row[0] == "not reading") and row[4] in ("0", "∞")
            assert row[5] in ("20", "50") and row[7].endswith((" s", " min"))
        assert {row[0] for row in one.rows("topics")} == {"orders.eu", "prices.fx", "telemetry"}
        one.until(lambda: all(row[2] not in ("0", "") for row in one.rows("topics")), "topics have rates")
        # Only the slow ones; only one topic; nobody.
        one.click("#only-slow")
        one.until(lambda: len(one.rows("subscriptions")) == 5, "only the slow ones are shown")
        one.fill("#filter", "telemetry")
        one.until(lambda: [row[1] for row in one.rows("subscriptions")] == ["telemetry"], "the filter works")
        one.fill("#filter", "nobody")
        one.until(lambda: one.rows("subscriptions") == [["None matches the filter."]], "nobody is shown")
        one.fill("#filter", "")
        # Its owner is cut off.
        one.until(lambda: len(slow(one)) == 5, "they are back")
        one.click("#subscriptions tbody tr:first-child button")
        one.until("document.querySelector('#ask').open", "the page asks first")
        assert "Cut off this subscriber?" in one.text("#ask")
        one.click("#ask button[value=connection]")
        one.until(lambda: len(slow(one)) == 4, "four are left", 20)
    finally:
        crowd.close()


def test_it_publishes_and_tails_with_a_valve(broker, page):
    one = page()
    one.until("document.querySelector('#tail')?.disabled === false", "the page knows where HTTP is")
    one.fill("#topic", "sluice")
    one.fill("#message", "first")
    one.click("#publish button")
    one.until(lambda: one.text("#published") == "published as 1", "it is published")
    one.value("document.querySelector('#replay').value = 'all'")
    # By keyboard: the valve is shut, so that the one credit that a subscription begins with is all.
    one.value("document.querySelector('#valve').focus()")
    one.press("Home")
    assert one.text("#valve-words").startswith("none")
    one.click("#tail")
    one.until(lambda: "first" in one.text("#messages"), "the retained message comes")
    publisher = broker.peer()
    publisher.numbers("sluice", 2, 21)
    assert one.text("#flow") == "1 received, 0 asked for"
    one.until(lambda: [row[0] for row in slow(one)] == ["no credit"], "it is slow itself now")
    one.click("#grant-10")
    one.until(lambda: one.text("#flow").startswith("11 received, 0 asked for"), "ten more come")
    one.value("document.querySelector('#valve').focus()")
    one.press("End")
    one.until(lambda: one.text("#flow").startswith("21 received"), "the valve is open")
    one.until(lambda: one.text("#messages").split()[-2:] == ["21", "21"], "the last message is shown last")
    one.click("#tail")
    one.until(lambda: one.text("#tail") == "Tail", "it has stopped")
    one.until(lambda: not slow(one), "nobody is slow")
    publisher.close()


def test_what_goes_wrong_is_said_in_the_brokers_words(broker, page):
    one = page()
    one.until("document.querySelector('#tail')?.disabled === false", "the page knows where HTTP is")
    one.fill("#topic", "a b")
    one.click("#publish button")
    one.until(lambda: "character that is not allowed" in one.text("#published"), "the broker's reason is shown")
    one.complaints.clear()  # A refused request is one to the browser.
    broker.peer().publish("ended", b"x")
    one.until(lambda: "ended" in {row[0] for row in one.rows("topics")}, "the topic is there")
    one.click("#topics button[aria-label='End or delete ended']")
    one.until("document.querySelector('#ask').open", "the page asks first")
    one.click("#ask button[value=complete]")
    one.until(lambda: any("completed" in row[0] for row in one.rows("topics")), "it is complete")


def test_it_is_not_healthy_while_publishes_are_lost(broker, page):
    one = page()
    one.until(lambda: one.text("#health") == "healthy", "the page shows the broker")
    peer = broker.peer()
    peer.subscribe("full?overflow=block&buffer=1", n=1)
    peer.joined("full", 1)
    for _ in range(9):
        peer.fire("full", b"x")
    one.until(lambda: "publishes lost: topics have no room" in one.text("#health"), "the page says what is wrong")
    one.until(lambda: "publishes" in one.text("#tiles"), "and how many were lost")


def test_it_is_used_with_the_keyboard_alone(broker, page):
    one = page(dark=True)
    one.until(lambda: one.text("#health") == "healthy", "the page shows the broker")
    one.press("p")
    one.until(lambda: one.text("#pause") == "Go on", "p pauses")
    one.press("p")
    one.press("/")
    assert one.focused() == "filter"
    one.type("abc/")
    assert one.value("document.querySelector('#filter').value") == "abc/"
    # Everything that can be clicked can be reached, in the order in which it is read.
    one.reload()
    one.until(lambda: one.text("#health") == "healthy" and one.focused() != "filter", "the page begins anew")
    seen = []
    for _ in range(40):
        one.press("Tab")
        seen.append(one.focused())
    for name in ("pause", "sign-in", "theme", "only-slow", "filter", "topic", "message", "tail", "replay", "overflow",
                 "valve", "grant-1", "grant-10", "messages"):
        assert name in seen, (name, seen)
    assert seen.index("pause") < seen.index("filter") < seen.index("topic") < seen.index("valve")
    # And each has a name for those who do not see it.
    nameless = one.value(
        "[...document.querySelectorAll('button, input, select, textarea, [tabindex=\"0\"]')].filter((e) => "
        "!(e.innerText?.trim() || e.labels?.[0]?.innerText.trim() || e.getAttribute('aria-label'))).map((e) => e.id)")
    assert nameless == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_can_be_read(broker, page, dark):
    """WCAG 2.2, 1.4.3: 4.5 to 1 at least, of all text on what is behind it."""
    one = page(dark=dark)
    one.until(lambda: one.text("#health") == "healthy", "the page shows the broker")
    worst = one.value("""(() => {
      const number = (c) => c.match(/[\\d.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const behind = (e) => {
        for (; e; e = e.parentElement) {
          const c = number(getComputedStyle(e).backgroundColor);
          if (c.length === 3 || c[3] === 1) return c;
        }
        return [255, 255, 255];
      };
      const found = [];
      for (const e of document.querySelectorAll('body *')) {
        const hasText = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
        if (!hasText || !e.checkVisibility() || e.disabled) continue;
        const [a, b] = [light(number(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
        found.push([(a + 0.05) / (b + 0.05), e.tagName, e.id || e.className, e.innerText.slice(0, 30)]);
      }
      return found.sort((x, y) => x[0] - y[0])[0];
    })()""")
    assert worst[0] >= 4.5, worst
