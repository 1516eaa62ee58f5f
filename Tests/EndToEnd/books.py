"""Books of what everyone has learned of topics in a store, which the broker must still have after each restart.

- No epoch and sequence identify two messages, over all runs, publishers and subscribers.
- A durable topic has every acknowledged message and every message that anyone has received, in order, once.
- A relaxed topic has what was on disk. If it keeps its epoch, it has lost nothing.
- Ended topics stay ended, and deleted ones stay deleted.
- Subscribers that resume with `from` and `epoch` continue where they were, unless the messages are gone.
"""

import json
import threading
from collections import defaultdict

from client import *
from http1 import Line, get

TRIMMED = 40  # What topics t.> retain.


class Book:
    """What everyone has learned of a topic. `line` are the messages by sequence, as far as known."""

    def __init__(self, name: str):
        self.name, self.epoch = name, 0
        self.sent, self.acknowledged = set(), set()
        self.told: dict[tuple[int, int], bytes] = {}
        self.line: dict[int, bytes] = {}
        # The sequence after the last message at the last restart, and the first retained one.
        self.end, self.first = 1, 1
        # The sequence after the last stored message of each former epoch.
        self.ends: dict[int, int] = {}
        self.checked = 0
        self._lock = threading.Lock()

    @property
    def is_relaxed(self) -> bool:
        return self.name.startswith("r.")

    @property
    def is_trimmed(self) -> bool:
        return self.name.startswith("t.")

    def offer(self, payload: bytes) -> bytes:
        self.sent.add(payload)
        return payload

    def note(self, epoch: int, sequence: int, payload: bytes):
        """Someone has learned that this is the message."""
        with self._lock:
            assert payload in self.sent, f"nobody published {payload[:80]} to {self.name}"
            known = self.told.setdefault((epoch, sequence), payload)
            assert known == payload, f"{self.name} {epoch} {sequence}: {known[:80]} and {payload[:80]}"
            assert epoch == self.epoch, f"{self.name}: a message of epoch {epoch} instead of {self.epoch}"
            known = self.line.setdefault(sequence, payload)
            assert known == payload, f"{self.name} {sequence}: {known[:80]} and {payload[:80]}"

    def acknowledge(self, sequence: int, *payloads: bytes):
        """The last of these messages has this sequence."""
        self.acknowledged.update(payloads)
        self.note(self.epoch, sequence, payloads[-1])

    def check(self, peer: Peer):
        """Compares the topic with the book after a restart."""
        info = peer.info(self.name)
        count, former = info["next"] - info["first"], (self.epoch, self.end)
        assert info["state"] == "live", info
        self.epoch, self.end = int(info["epoch"]), info["next"]
        found = peer.subscribe(f"{self.name}?replay=all", meta=True, n=max(count, 1)).take(count)
        sequences = [one.sequence for one in found]
        assert sequences == list(range(info["next"] - count, info["next"])), (self.name, sequences[:3], sequences[-3:])
        self.first = info["first"]
        if self.is_trimmed:
            assert count >= min(TRIMMED, info["next"] - 1), info
        else:
            assert self.first == 1, info
        if former[0] != self.epoch:
            assert self.is_relaxed, f"{self.name} has epoch {self.epoch} instead of {former[0]}"
            assert all(epoch != self.epoch for epoch, _ in self.told), f"{self.name} has a former epoch"
            self.ends[former[0]] = self.end
            for lost in [one for one in self.line if one >= self.end]:
                self.acknowledged.discard(self.line.pop(lost))
        self._compare(found, former[1])

    def _compare(self, found: list[Message], end: int):
        assert self.end >= end, f"{self.name} ends at {self.end}, but was stored until {end}"
        last = max(self.line, default=0)
        assert last < self.end, f"{self.name} ends at {self.end}, but {last} is known"
        payloads = {one.data for one in found}
        assert len(payloads) == len(found), f"{self.name} has a message twice"
        order = defaultdict(int)
        for one in found:
            assert one.dropped == 0, one
            self.note(one.epoch, one.sequence, one.data)
            publisher, number = one.data.split(b" ")[:2]
            assert int(number) > order[publisher], f"{self.name}: {one.data[:40]} after {order[publisher]}"
            order[publisher] = int(number)
        if not self.is_trimmed:
            if self.is_relaxed:  # Of a channel's messages, not all sequences are known.
                self.acknowledged &= payloads
            missing = self.acknowledged - payloads
            assert not missing, f"{self.name} lacks {len(missing)}, {[one[:40] for one in missing][:5]}"
        self.checked += len(found)


class Reader:
    """A subscriber that resumes where it was."""

    def __init__(self, book: Book, protocol: str):
        self.book, self.protocol = book, protocol
        self.epoch, self.next, self.received, self.resumed = 0, None, 0, 0

    @property
    def query(self) -> str:
        self.fresh = True
        if self.next is None:
            return "replay=all&buffer=1000000"
        self.resumed += 1
        return f"from={self.next}&epoch={self.epoch}&buffer=1000000"

    def take(self, epoch: int, sequence: int, payload: bytes, dropped: int):
        wanted, book = self.next or 1, self.book
        if self.fresh and book.is_trimmed and wanted < book.first:
            assert sequence >= book.first and dropped in (0, sequence - wanted), (book.name, wanted, sequence, dropped)
        elif self.fresh and wanted > book.ends.get(self.epoch, wanted):
            assert sequence == book.ends[self.epoch], (book.name, wanted, book.ends[self.epoch], sequence)
        else:
            assert (sequence, dropped) == (wanted, 0), (book.name, self.protocol, wanted, sequence, dropped, self.fresh)
        book.note(epoch, sequence, payload)
        self.fresh, self.epoch, self.next = False, epoch, sequence + 1
        self.received += 1

    def rsocket(self, broker):
        peer = broker.peer()
        subscription = peer.subscribe(f"{self.book.name}?{self.query}", meta=True, n=32)
        for count in range(1, 1 << 40):
            event = subscription.event(60)
            if isinstance(event, End):
                return
            self.take(event.epoch, event.sequence, event.data, event.dropped)
            if count % 16 == 0:
                subscription.request(16)

    def grpc(self, broker):
        subscription = broker.shared.subscribe(f"{self.book.name}?{self.query}", n=1000)
        while isinstance(event := subscription.event(60), Message):
            self.take(event.epoch, event.sequence, event.data, event.dropped or 0)
            subscription.request(1)

    def http(self, broker):
        line, rest = Line(broker.http), b""
        line.send(get(self.book.name, self.query, b"Accept: application/x-ndjson\r\n"))
        status, _ = line.head()
        if status == 503:  # It drains.
            return
        assert status == 200, status
        while chunk := line.chunk():
            *whole, rest = (rest + chunk).split(b"\n")
            for one in map(json.loads, whole):
                if "sequence" in one and "payload" in one:
                    self.take(int(one["epoch"]), one["sequence"], one["payload"].encode(), one.get("dropped", 0))


class Ends:
    """Topics that end and topics that are deleted, on a connection of their own."""

    def __init__(self, prefix: str):
        self.prefix, self.count = prefix, 0
        # By name: what was acknowledged; the end, nil if none was requested; whether it was acknowledged.
        self.ended: dict[str, list] = {}
        self.deleted: set[str] = set()
        self.maybe: set[str] = set()
        self.epochs: dict[str, set[int]] = defaultdict(set)

    def run(self, broker):
        peer = broker.peer()
        while self.count < 10_000:
            self.count += 1
            name = f"{self.prefix}.{self.count}"
            self.maybe.add(name)
            end = self.count % 3
            self.ended[name] = known = [[], end, False]
            for number in range(3):
                peer.publish(name, b"%d" % number)
                known[0].append(b"%d" % number)
            action = ("delete", "complete", "fail")[end]
            self.epochs[name].add(int(peer.info(name)["epoch"]))
            peer.control(f"$SYS.topic.{action}", name=name, **({"message": "over"} if end == 2 else {}))
            known[2] = True
            if end == 0:
                self.deleted.add(name)
                if self.count % 2:  # A new topic under the name.
                    self.deleted.discard(name)
                    self.ended[name] = known = [[], None, False]
                    peer.publish(name, b"again")
                    known[0].append(b"again")
            for old in [one for one, (_, _, sure) in self.ended.items() if sure and one not in self.deleted][:-6]:
                self.ended[old][1:] = 0, False
                peer.control("$SYS.topic.delete", name=old)
                self.ended[old][2] = True
                self.deleted.add(old)

    def check(self, peer: Peer):
        names = {row["name"] for row in peer.listing("$SYS.topics") if row["name"].startswith(self.prefix)}
        assert not names & self.deleted, f"deleted topics are there: {names & self.deleted}"
        assert names <= self.maybe
        for name, (known, end, sure) in list(self.ended.items()):
            if name in self.deleted:
                self.ended.pop(name)
            elif end == 0 and not sure:
                # Deleted or not, and whether anything is there decides it.
                if name not in names:
                    self.deleted.add(name)
                    self.ended.pop(name)
            elif known or sure:
                self._check(peer, name, known, end, sure)

    def _check(self, peer: Peer, name: str, known: list[bytes], end: int | None, sure: bool):
        info = peer.info(name)
        if end is None:
            assert int(info["epoch"]) not in self.epochs[name], info
        count = info["next"] - 1
        subscription = peer.subscribe(f"{name}?replay=all", meta=True)
        found = datas(subscription.take(count))
        assert found[:len(known)] == known and count <= len(known) + 1, (name, found, known)
        if sure or info["state"] != "live":
            ended = subscription.end()
            assert info["state"] == ("completed" if end == 1 else "failed"), (name, info)
            assert ended.kind == (None if end == 1 else Kind.FAILED), (name, ended)
            try:
                peer.publish(name, b"late")
                assert False, f"{name} has ended, but took a message"
            except StreamError as refused:
                assert "ended" in refused.text, refused
        else:
            subscription.cancel()
