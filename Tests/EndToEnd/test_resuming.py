"""`curl -N` prints a live stream; killed anywhere and restarted with Last-Event-ID, it loses and repeats nothing."""

import base64
import json
import math
import os
import random
import subprocess

import pytest

from common import *
from curl import NDJSON, VERSIONS, path
from live import Publisher

pytestmark = pytest.mark.rsocket  # Publishes.

KILLS = 12


class Printed:
    """The output of one curl after the other, as understood by a reader that discards truncated lines."""

    def __init__(self, events: bool):
        self.got, self.last, self.end = [], None, None
        self._mark, self._understand = (b"\n\n", self._event) if events else (b"\n", self._line)
        self._rest = b""

    def read(self, curl: subprocess.Popen, most: float, publisher: Publisher):
        """Reads `most` bytes of curl's output, or until curl ends."""
        count = 0
        while count < most and (more := os.read(curl.stdout.fileno(), 1 << 16)):
            count += len(more)
            *whole, self._rest = (self._rest + more).split(self._mark)
            for one in whole:
                self._understand(one.decode())
            publisher.read = len(self.got)

    def cut(self):
        """The rest of a truncated line never arrives."""
        self._rest = b""

    def _event(self, block: str):
        fields = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        kind, data = fields.get("event", ["message"])[0], fields.get("data", [])
        if kind == "subscribed" or not data:
            return
        assert kind in ("message", "base64", "complete"), block
        (self.last,) = fields["id"]
        if kind == "complete":
            self.end = kind
        else:
            self._message(int(self.last.split("-")[1]), "\n".join(data), kind == "base64")

    def _line(self, text: str):
        line = json.loads(text)
        assert not line.get("dropped") and "restarted" not in line, line
        self.end = line.get("end")
        if self.end is None:
            self.last = f"{line['epoch']}-{line['sequence']}"
            self._message(line["sequence"], line.get("payload", line.get("payload_base64")), "payload" not in line)

    def _message(self, sequence: int, text: str, encoded: bool):
        self.got.append((sequence, base64.b64decode(text, validate=True) if encoded else text.encode()))


@pytest.mark.parametrize("form", ["events", "lines"])
def test_curl_killed_and_started_again_loses_and_repeats_nothing(broker, b, topic, http_version, form):
    seed = random.randrange(1 << 32)
    print(f"the seed is {seed}")
    dice, printed = random.Random(seed), Printed(form == "events")
    publisher = Publisher(b, topic)
    wanted = NDJSON if form == "lines" else ()
    command = ["curl", "-q", "-sS", "-N", "--noproxy", "*", *VERSIONS[http_version], *wanted]
    url = "http://%s:%d%s" % (*broker.http, path(topic, "replay=all"))
    for place in [*(dice.choice((0, 1, 300, 5_000, 100_000)) for _ in range(KILLS)), None]:
        resuming = ["-H", f"Last-Event-ID: {printed.last}"] if printed.last else []
        with subprocess.Popen([*command, *resuming, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as curl:
            if place is None:
                publisher.stop()
                printed.read(curl, math.inf, publisher)
                assert (curl.wait(), curl.stderr.read()) == (0, b"")
                break
            printed.read(curl, dice.randint(0, place), publisher)
            curl.kill()
            printed.read(curl, math.inf, publisher)
        printed.cut()
        assert printed.end is None
    assert printed.end == "complete"
    assert [sequence for sequence, _ in printed.got] == list(range(1, len(publisher.sent) + 1))
    assert [payload for _, payload in printed.got] == publisher.sent
    if form == "events":  # An EventSource would reconnect with the id of the end, and must stop.
        done = subprocess.run([*command, "-w", "%{http_code}", "-H", f"Last-Event-ID: {printed.last}", url],
                              capture_output=True, timeout=DEADLINE)
        assert done.stdout == b"204"
