"""The admin page, driven by its own controls in a real browser."""

import json

import pytest
import requests

import access
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


WHY = ("no credit", "not reading", "asks too little")


@pytest.fixture
def browse():
    """Opens a page of a separate broker."""
    opened = []

    def open_page(url, **options):
        opened.append(Page(url, **options))
        return opened[-1]

    yield open_page
    for one in opened:
        complaints = one.complaints
        one.close()
        assert complaints == []


def slow(page):
    """The slow subscriptions, with the state's name and its reason in two cells."""
    rows = [row[0].split("\n") + row[1:] for row in page.rows("subscriptions")]
    return [row[:1] + row[2:] for row in rows if row[0] in WHY]


def reasons(page):
    return [row[0].split("\n") for row in page.rows("subscriptions") if row[0].split("\n")[0] in WHY]


def shown(page):
    return page.text("#health") not in ("connecting", "")


def test_it_shows_within_two_seconds_who_is_slow(broker, page, tmp_path):
    crowd = Crowd(broker.address)
    try:
        one = page()
        one.until(lambda: len(slow(one)) == 5, "five are slow", 60)
        # A user who opens the page now sees it with the first response; the page polls every second.
        one.reload()
        one.until(lambda: len(slow(one)) == 5, "five are slow")
        assert [row[0].split("\n")[0] for row in one.rows("subscriptions")[:5]] == [row[0] for row in slow(one)]
        for word, why in reasons(one):
            assert why.startswith("has not asked for more for " if word == "no credit" else "does not read")
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
        # Only slow subscriptions; only those of one topic; none.
        one.click("#only-slow")
        one.until(lambda: len(one.rows("subscriptions")) == 5, "only the slow ones are shown")
        one.fill("#subscriptions-find", "telemetry")
        one.until(lambda: [row[1] for row in one.rows("subscriptions")] == ["telemetry"], "the filter works")
        one.fill("#subscriptions-find", "nobody")
        one.until(lambda: one.rows("subscriptions") == [["None matches the filter."]], "nobody is shown")
        one.fill("#subscriptions-find", "")
        # The subscription's client is disconnected.
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
    # By keyboard: the valve is closed, so the subscription has only its initial credit of one.
    one.value("document.querySelector('#valve').focus()")
    one.press("Home")
    assert one.text("#valve-words").startswith("none")
    one.click("#tail")
    one.until(lambda: "first" in one.text("#messages"), "the retained message comes")
    publisher = broker.peer()
    publisher.numbers("sluice", 2, 21)
    assert one.text("#flow") == "1 received, credit 0"
    one.until(lambda: [row[0] for row in slow(one)] == ["no credit"], "it is slow itself now")
    one.click("#grant-10")
    one.until(lambda: one.text("#flow").startswith("11 received, credit 0"), "ten more come")
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
    one.complaints.clear()  # The browser reports a refused request as an error.
    broker.peer().publish("ended", b"x")
    one.until(lambda: "ended" in {row[0] for row in one.rows("topics")}, "the topic is there")
    one.click("#topics button[aria-label='End or delete ended']")
    one.until("document.querySelector('#ask').open", "the page asks first")
    one.click("#ask button[value=complete]")
    one.until(lambda: any("completed" in row[0] for row in one.rows("topics")), "it is complete")


def test_it_is_not_healthy_while_publishes_are_lost(broker, page):
    one = page()
    one.until(lambda: shown(one), "the page shows the broker")
    peer = broker.peer()
    peer.subscribe("full?overflow=block&buffer=1", n=1)
    peer.joined("full", 1)
    for _ in range(9):
        peer.fire("full", b"x")
    words = "publishes lost: topics have no room, last of full"
    one.until(lambda: words in one.text("#health"), "the page says what is wrong")
    lost = str(peer.until("full", lambda info: info["published"] + info["lost"] == 9)["lost"])
    one.until(lambda: f", {lost} publishes" in one.text("#tiles"), "and how many were lost")
    assert one.rows("topics")[0][0] == "full" and one.rows("topics")[0][8] == lost
    # Users who open the page later see this at once.
    one.reload()
    one.until(lambda: one.text("#health") not in ("", "connecting"), "the page shows the broker")
    assert words in one.text("#health")


def test_it_is_not_healthy_while_messages_are_dropped(begin, browse):
    broker = begin("--admin", "127.0.0.1:0", "--memory", "16M", "--retain-bytes", "1G")
    one = browse("http://%s:%d/" % broker.admin)
    one.until(lambda: one.text("#health") == "healthy", "nothing is lost")
    peer = broker.peer()
    peer.subscribe("newest?overflow=latest", n=1)
    peer.joined("newest", 1)
    peer.numbers("newest", 1, 9)
    # Drops are what the policy is for.
    one.until(lambda: any(row[0] == "newest" and row[7] != "0" for row in one.rows("topics")), "the drops are seen")
    assert one.text("#health") == "healthy"
    peer.subscribe("all?buffer=2", n=1)
    peer.joined("all", 1)
    peer.numbers("all", 1, 9)
    one.until(lambda: "messages dropped for slow subscriptions" in one.text("#health"), "messages are lost")
    peer.subscribe("waits?buffer=1000000", n=1)
    [peer.publish("waits", bytes(10_000)) for _ in range(2500)]
    one.until(lambda: one.text("#health").endswith(", and memory ran short (16 MiB)"), "it says why")


def test_the_broker_looks_for_what_the_page_shows(begin, browse):
    broker = begin("--admin", "127.0.0.1:0", "--threads", "2")
    peer = broker.peer()
    count = 700
    for number in range(count):
        peer.subscribe(f"sensors.{number:04}.celsius", n=1)
    for number in range(count):
        peer.fire(f"sensors.{number:04}.celsius", b"x")
    peer.until("sensors.0699.celsius", lambda info: info["published"] == 1)
    peer.numbers("busy", 1, 50)
    one = browse("http://%s:%d/" % broker.admin)
    one.until(lambda: one.text("#topics-place") == "1 to 100 of 701", "the first page of all topics")
    assert one.rows("topics")[0][0] == "busy" and len(one.rows("topics")) == 100
    # A search finds topics at any position in the order.
    one.fill("#topics-find", "0642")
    one.until(lambda: [row[0] for row in one.rows("topics")] == ["sensors.0642.celsius"], "the topic is found")
    assert not one.value("document.querySelector('#topics-pages').checkVisibility()")
    one.fill("#subscriptions-find", "SENSORS.0003")
    one.until(lambda: [row[1] for row in one.rows("subscriptions")] == ["sensors.0003.celsius"], "and the subscription")
    # Paged, in the selected order.
    one.fill("#topics-find", "")
    one.value("{ const e = document.querySelector('#topics-sort'); e.value = 'name';"
              "e.dispatchEvent(new Event('input')); }")
    one.until(lambda: one.rows("topics")[0][0] == "busy" and one.rows("topics")[1][0] == "sensors.0000.celsius",
              "they stand by name")
    for page in range(1, 8):
        one.click("#topics-on")
        last = min(100 * page + 100, 701)
        one.until(lambda: one.text("#topics-place") == f"{100 * page + 1} to {last} of 701", "the next page")
        assert one.rows("topics")[0][0] == f"sensors.{100 * page - 1:04}.celsius"
    assert one.value("document.querySelector('#topics-on').disabled")
    one.click("#topics-back")
    one.until(lambda: one.text("#topics-place") == "601 to 700 of 701", "and back")


def test_who_asks_for_too_little_is_not_said_to_ask_for_nothing(begin, browse):
    broker = begin("--admin", "127.0.0.1:0")
    peer, asker = broker.peer(), broker.peer()
    stream = asker.subscribe("t", n=1)
    asker.joined("t", 1)
    one = browse("http://%s:%d/" % broker.admin)
    number = 1

    def more():
        nonlocal number
        peer.numbers("t", number, number + 19)
        number += 20
        stream.request(1)
        return reasons(one)

    words = one.until(lambda: [why for why in more() if len(why) == 2 and why[1].startswith("asks for ")],
                      "what it asks for is told")[0]
    assert words[0] == "asks too little" and " needs " in words[1] and "asks for 0 " not in words[1], words


@pytest.mark.parametrize("width", [1400, 390])
def test_what_matters_is_seen_on_any_screen(begin, browse, width):
    broker = begin("--admin", "127.0.0.1:0")
    peer = broker.peer()
    long = "customers.europe.scandinavia.norway.oslo.orders.created.version-2"
    peer.subscribe(long + "?buffer=3", n=1)
    peer.joined(long, 1)
    peer.numbers(long, 1, 9)
    one = browse("http://%s:%d/" % broker.admin, width=width)
    one.until(lambda: slow(one), "it is slow")
    # Nothing lies beyond the right edge of the window or is covered.
    hidden = one.value("""[...document.querySelectorAll('main td, td button, #health, header button')].filter((e) => {
      e.scrollIntoView({ block: 'center', behavior: 'instant' });
      const r = e.getBoundingClientRect();
      return !r.width || r.left < 0 || r.right > innerWidth || (e.tagName === 'BUTTON' &&
        !e.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2)));
    }).map((e) => [e.className, e.innerText])""")
    assert hidden == []
    assert one.value("document.documentElement.scrollWidth") == width
    # Both ends of a long name are readable.
    ends = one.value("""[...document.querySelectorAll('.cut')].map((e) => {
      const [begin, end] = e.children, box = e.closest('td').getBoundingClientRect();
      return [e.title, begin.clientWidth > 40, end.scrollWidth <= end.offsetWidth,
        end.getBoundingClientRect().right <= box.right + 1];
    })""")
    assert [long, True, True, True] in ends and all(all(one[1:]) for one in ends), ends


def users(tmp_path, *more):
    return access.write(tmp_path, {"users": [
        {"name": name, "token": access.token_hash(token), **may} for name, token, may in more]})


def sign_in(page, token):
    page.click("#sign-in")
    page.until("document.querySelector('#ask').open", "the page asks who one is")
    page.fill("#ask-fields label:nth-child(2) input", token)
    page.press("Enter")
    page.until("!document.querySelector('#ask').open", "the broker knows who it is")


def test_marks_that_cannot_be_seen_are_shown(begin, browse, tmp_path):
    name, everything = "ali\u202eecilop\u200b\u00ad\u2066x\u3164", [">", "$SYS.>"]
    path = users(tmp_path, (name, "alice's", {"subscribe": [">"], "control": everything}))
    broker = begin("-c", str(path), "--admin", "127.0.0.1:0")
    one = browse("http://%s:%d/" % broker.admin)
    one.until(lambda: one.text("#health") == "sign in to see more", "nobody is signed in")
    sign_in(one, "alice's")
    url = "http://%s:%d/v1/topics/t/messages?request=1" % broker.http
    with requests.get(url, headers={"authorization": "Bearer alice's"}, stream=True, timeout=60):
        seen = "ali\\u{202e}ecilop\\u{200b}\\u{ad}\\u{2066}x\\u{3164} at "
        one.until(lambda: [row[2] for row in one.rows("subscriptions") if len(row) > 2], "the subscription is shown")
        client = "document.querySelector('#subscriptions td.client')"
        assert one.value(client + ".textContent").startswith(seen) and one.value(client + ".title").startswith(seen)
        one.click("#subscriptions tbody button")
        assert seen in one.text("#ask-words")
    # Format characters in a message remain only if they belong to its letters.
    text = json.dumps("a\u202eb\n\t\u200d\U0001f600\x07")
    assert one.value(f"import('/kit.js').then((kit) => kit.readable({text}))") \
        == "a\\u{202e}b\n\t\u200d\U0001f600\\u{7}"
    one.complaints.clear()  # Before the login.


def test_it_asks_for_nothing_until_somebody_signs_in(begin, browse, tmp_path):
    path = users(tmp_path, ("watcher", "watcher's", {"control": ["$SYS.stats"]}),
                 ("clerk", "clerk's", {"publish": ["orders.>"]}))
    broker = begin("-c", str(path), "--admin", "127.0.0.1:0")
    one = browse("http://%s:%d/" % broker.admin)
    # The page schedules the next poll when a response arrives.
    one.before_scripts("window.delays = []; const set = window.setTimeout;"
                       "window.setTimeout = (what, delay) => { delays.push(delay); return set(what, delay); };")
    one.reload()
    one.until("window.delays !== undefined", "the page is another")
    one.until(lambda: one.text("#health") == "sign in to see more", "nobody is signed in")
    assert one.value("delays") == []
    asked = "performance.getEntriesByType('resource').filter((e) => e.initiatorType === 'fetch').length"
    before = one.value(asked)
    for what in ("#pause", "#pause", "#only-slow"):
        one.click(what)
    assert one.value("delays.filter((delay) => delay > 0)") == [] and one.value(asked) == before
    sign_in(one, "clerk's")
    one.until(lambda: "may not" in one.text("#health"), "the clerk may not see figures")
    assert one.value("delays.filter((delay) => delay > 0)") == []
    sign_in(one, "watcher's")
    one.until(lambda: one.text("#health") == "healthy", "the watcher may")
    assert 1000 in one.value("delays")
    one.complaints.clear()  # The browser reports refusals as errors.


def test_it_is_used_with_the_keyboard_alone(broker, page):
    one = page(dark=True)
    one.until(lambda: shown(one), "the page shows the broker")
    one.press("p")
    one.until(lambda: one.text("#pause") == "Resume", "p pauses")
    one.press("p")
    one.press("/")
    assert one.focused() == "subscriptions-find"
    one.type("abc/")
    assert one.value("document.querySelector('#subscriptions-find').value") == "abc/"
    # Every control can be reached with the keyboard, in reading order.
    one.reload()
    one.until(lambda: shown(one) and one.focused() != "subscriptions-find", "the page begins anew")
    seen = []
    for _ in range(40):
        one.press("Tab")
        seen.append(one.focused())
    for name in ("pause", "sign-in", "theme", "only-slow", "subscriptions-sort", "subscriptions-find", "topics-sort",
                 "topics-find", "topic", "message", "tail", "replay", "overflow",
                 "valve", "grant-1", "grant-10", "messages"):
        assert name in seen, (name, seen)
    assert seen.index("pause") < seen.index("subscriptions-find") < seen.index("topic") < seen.index("valve")
    # And each control has a name for screen readers.
    nameless = one.value(
        "[...document.querySelectorAll('button, input, select, textarea, [tabindex=\"0\"]')].filter((e) => "
        "!(e.innerText?.trim() || e.labels?.[0]?.innerText.trim() || e.getAttribute('aria-label'))).map((e) => e.id)")
    assert nameless == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_can_be_read(broker, page, dark):
    """WCAG 2.2, 1.4.3: a contrast of at least 4.5 to 1 for all text."""
    one = page(dark=dark)
    one.until(lambda: shown(one), "the page shows the broker")
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
