"""A page in a real browser: an EventSource that subscribes, reconnects by itself, and stops at the end."""

import base64
import json
import random
import re
from pathlib import Path

import pytest

from browser import TELL, Browser, Passage, Reports
from common import *
from curl import path
from live import Publisher

pytestmark = pytest.mark.rsocket  # Publishes.

# Reports each event of an EventSource, and the source's state: 0 while it reconnects, 1 open, 2 closed permanently.
SOURCE = """<script>
const source = new EventSource("URL");
for (const kind of ["open", "error", "subscribed", "message", "base64", "gap", "complete", "failed"]) {
  source.addEventListener(kind, (event) =>
    report({ kind, id: event.lastEventId ?? "", data: event.data ?? "", state: source.readyState }));
}
</script>"""

DOCUMENT = Path(__file__).resolve().parents[2] / "Protocol" / "http.md"


@pytest.fixture
def show(broker):
    """`show(script, …)` has a browser show a page with a script, with a `Passage` between it and the broker; with
    `elsewhere` the page has another origin. Returns what the page reports, and the passage."""
    opened = []

    def show_page(script: str, cuts=(), elsewhere=False, to=broker) -> tuple[Reports, Passage]:
        reports = Reports()
        opened.append(reports)
        pages = {}
        opened.append(passage := Passage(to, pages, cuts))
        opened.append(host := Passage(to, pages) if elsewhere else passage)
        pages["/page"] = TELL.replace("REPORTS", reports.url) + script.replace("BROKER", passage.origin)
        opened.append(Browser(host.origin + "/page"))
        return reports, passage

    yield show_page
    for one in reversed(opened):
        one.close()


def test_an_event_source_resumes_by_itself_and_loses_and_repeats_nothing(show, b, topic):
    """The connection is cut before the response and at random places in the stream, most of them within an event."""
    seed = random.randrange(1 << 32)
    print(f"the seed is {seed}")
    dice = random.Random(seed)
    cuts = [None, *(dice.randint(1, most) for most in (100, 5_000, 100_000))]
    publisher = Publisher(b, topic)
    reports, passage = show(SOURCE.replace("URL", path(topic, "replay=all")), cuts)
    got, last, state = [], None, None
    while state != 2:
        told = reports.next(20)
        kind, state = told["kind"], told["state"]
        if kind in ("message", "base64"):
            data = base64.b64decode(told["data"], validate=True) if kind == "base64" else told["data"].encode()
            got.append((int(told["id"].split("-")[1]), data))
            publisher.read = len(got)
        elif kind == "complete":
            last = told["id"]
        else:
            assert kind in ("open", "subscribed", "error"), told
        if publisher.running and passage.lasting:
            publisher.stop()
    assert [sequence for sequence, _ in got] == list(range(1, len(publisher.sent) + 1))
    assert [data for _, data in got] == publisher.sent
    # The end was sent, the source reconnected with its id, and was stopped by the answer.
    assert last.endswith(f"-{len(got)}-end") and passage.resumed[-1] == last and passage.resumed.count(last) == 1
    assert len(passage.resumed) >= len(cuts) + 2


def test_a_page_of_another_origin_gets_nothing(show, b, topic):
    """The page would get messages if its origin were allowed; by default none is. The source does not reconnect."""
    b.numbers(topic, 1, 3)
    reports, passage = show(SOURCE.replace("URL", "BROKER" + path(topic, "replay=all")), elsewhere=True)
    told = reports.next(20)
    assert (told["kind"], told["state"]) == ("error", 2)
    assert passage.resumed == [None]


def test_a_page_of_an_origin_that_is_allowed_is_served(start, show, topic):
    """Everything a page of another origin does: the stream, and credit and a publish after their preflights."""
    script = """<script>
    (async () => {
      const stream = await fetch("BROKERPATH?request=1", { headers: { accept: "application/x-ndjson" } });
      const id = stream.headers.get("forebay-subscription");
      const lines = stream.body.pipeThrough(new TextDecoderStream()).getReader();
      const publish = (text) => fetch("BROKERPATH", {
        method: "POST", headers: { "content-type": "text/plain", "forebay-header-from": "page" }, body: text });
      await report((await (await publish("one")).json()).sequence);
      await report((await lines.read()).value);
      await publish("two");
      await report((await fetch(`BROKER/v1/subscriptions/${id}/request?n=1`, { method: "POST" })).status);
      await report((await lines.read()).value);
    })().catch((error) => report(String(error)));
    </script>"""
    allowing = start("--allow-origin", "*")
    try:
        reports, _ = show(script.replace("PATH", path(topic)), elsewhere=True, to=allowing)
        told = [reports.next(20) for _ in range(4)]
    finally:
        allowing.stop()
    assert told[0] == 1 and told[2] == 204, told
    first, second = (json.loads(line) for line in (told[1], told[3]))
    assert (first["sequence"], first["payload"], second["payload"]) == (1, "one", "two"), told
    assert first["headers"] == {"from": "page"}, told


def test_the_page_of_the_document(show, b, topic):
    """The page requests ten messages and then five at a time, with POSTs."""
    (page,) = re.findall(r"```html\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert "weather.oslo" in page
    watch = """<script>
      new MutationObserver(() => report(document.getElementById("out").textContent)).observe(
        document.getElementById("out"), { childList: true, characterData: true, subtree: true });
    </script>"""
    b.numbers(topic, 1, 20)
    reports, _ = show(page.replace("weather.oslo", topic) + watch)
    shown = lambda: reports.next(20)
    lines = "".join(f"{i}\n" for i in range(11, 21))
    eventually(shown, lambda text: text == lines)
    b.publish(topic, *numbers(21, 60), b"\xff\x00")
    lines += "".join(f"{i}\n" for i in range(21, 61)) + "(2 bytes)\n"
    eventually(shown, lambda text: text == lines)
    b.control("$SYS.topic.complete", name=topic)
    eventually(shown, lambda text: text == lines + "that was all\n")
