"""A subscription through an event stream that curl reads, with the interface described in `common.py`."""

import base64
import json
import signal

from common import *
from curl import Curl, path


def sequence(id: str) -> int:
    """The sequence in the event id EPOCH-SEQUENCE."""
    return int(id.split("-")[1])


class EventStream(Stream):
    """Returns once the subscription exists; `last` is what an EventSource would send as Last-Event-ID."""

    def __init__(self, curl: Curl, topic: str, query="", *options: str, n=UNBOUNDED):
        super().__init__(n)
        self.curl, self.last = curl, None
        asking = [] if n >= UNBOUNDED else [f"request={n}"]
        self.stream = curl.stream(path(topic, "&".join([*filter(None, [query]), *asking])), *options)
        assert (self.stream.status, self.stream.headers["content-type"]) == (200, "text/event-stream")
        first, self.id = self.stream.event(), self.stream.headers["forebay-subscription"]
        assert (first.kind, json.loads(first.data)) == ("subscribed", {"subscription": self.id})

    def request(self, n: int):
        self.asked += n
        assert self.curl(f"/v1/subscriptions/{self.id}/request?n={n}", "-X", "POST").status == 204

    def event(self, timeout=DEADLINE) -> Message | End:
        """A message, with the loss reported by a `gap` event just before it."""
        assert self.ended is None, f"the stream has ended: {self.ended}"
        one, dropped = self.stream.event(timeout), 0
        if one and one.kind == "gap":
            dropped = json.loads(one.data)["dropped"]
            one = self.stream.event(timeout)
            assert one and one.kind in ("message", "base64"), f"a gap before {one}"
        if one is None:
            self.ended = End(Kind.OTHER, "cut off")
            return self.ended
        self.last = one.id or self.last
        if one.kind in ("complete", "failed"):
            told = json.loads(one.data)
            text = told.get("message", "")
            self.ended = End(application(text) if one.kind == "failed" else None, text, told["dropped"])
            assert self.stream.event() is None, "more after the end"
            return self.ended
        assert one.kind in ("message", "base64"), one
        self.count()
        data = base64.b64decode(one.data, validate=True) if one.kind == "base64" else one.data.encode()
        return Message(data, int(one.id.split("-")[0]), sequence(one.id), dropped=dropped)

    def pending(self) -> int:
        return self.stream.pending()

    def stop(self):
        """Stops reading from the socket until `go`."""
        self.stream.process.send_signal(signal.SIGSTOP)

    def go(self):
        self.stream.process.send_signal(signal.SIGCONT)
