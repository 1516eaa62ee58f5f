"""A gRPC client of the broker, on grpcio and stubs generated from the .proto, with the interface of `common.py`.

grpcio hands out a stream's messages only to a caller that waits for them. So one thread per stream receives them and
checks them as they arrive: never more than requested, and each loss reported once and in its place.
"""

import atexit
import json
import os
import queue
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl

import grpc
from grpc_tools import protoc

import tls
from common import *

PROTOCOL = Path(__file__).resolve().parents[2] / "Protocol"
RESPONSE = 1 << 20  # The maximum payload of a response with several messages.


def stubs():
    """The modules that protoc generates from the .proto, in a folder deleted with the process."""
    folder = tempfile.mkdtemp(prefix="forebay-stubs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    arguments = [f"-I{PROTOCOL}", f"--python_out={folder}", f"--grpc_python_out={folder}", "forebay/v1/forebay.proto"]
    assert protoc.main(["protoc", *arguments]) == 0, "protoc rejects the .proto"
    sys.path.insert(0, folder)
    from forebay.v1 import forebay_pb2, forebay_pb2_grpc

    return forebay_pb2, forebay_pb2_grpc


pb, services = stubs()

OVERFLOW = {name.lower().replace("_", "-"): value for name, value in pb.Overflow.items()}

KINDS = {
    grpc.StatusCode.OK: None,
    grpc.StatusCode.INVALID_ARGUMENT: Kind.INVALID,
    grpc.StatusCode.NOT_FOUND: Kind.REJECTED,
    grpc.StatusCode.PERMISSION_DENIED: Kind.REJECTED,
    grpc.StatusCode.UNAUTHENTICATED: Kind.REJECTED,
    grpc.StatusCode.FAILED_PRECONDITION: Kind.REJECTED,
    grpc.StatusCode.UNAVAILABLE: Kind.REJECTED,
    grpc.StatusCode.CANCELLED: Kind.CANCELLED,
}


def kind_of(code: grpc.StatusCode, text: str) -> Kind | None:
    """RESOURCE_EXHAUSTED means overflow or a limit, ABORTED a failed topic: the beginning of the text must agree."""
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        return Kind.OVERFLOW if text.startswith("overflow:") else Kind.REJECTED
    if code == grpc.StatusCode.ABORTED:
        return application(text)
    return KINDS.get(code, Kind.OTHER)


def failure(error: grpc.RpcError) -> StreamError:
    return StreamError(kind_of(error.code(), error.details()), error.details(), error.code())


@dataclass
class Told(Message):
    """A message with the fields that only gRPC reports."""

    content_type: str = ""
    headers: dict = field(default_factory=dict)


def options(path: str, more, known) -> tuple[str, dict]:
    """The topic and the options of a path `TOPIC?option=value&…`, all of which this transport must support."""
    name, _, query = path.partition("?")
    found = dict(parse_qsl("&".join(filter(None, [query, *more])), keep_blank_values=True))
    assert found.keys() <= known, f"gRPC has no option {found.keys() - known}: mark the test `rsocket`"
    return name, found


# Lets a reader run to the end. Each permit costs a wake-up, so their number is limited.
PERMITS = 1 << 12


class Call:
    """A call with a stream in each direction. Its thread receives responses at once, or for a lazy peer only those that
    a test waits for."""

    def __init__(self, peer: "Peer", method, first, **how):
        self.peer, self.over, self.trailers = peer, False, {}
        self._out = queue.SimpleQueue()
        self._out.put(first)
        self._events, self._changed = deque(), threading.Condition()
        self._permits = threading.Semaphore(0)
        self.call = method(iter(self._out.get, None), **how)
        self._reader = threading.Thread(target=self._read, daemon=True)
        peer.calls.append(self)
        self._reader.start()

    def write(self, *requests):
        for request in requests:
            self._out.put(request)

    def half_close(self):
        self._out.put(None)

    def cancel(self):
        self.over = True
        self.call.cancel()

    def next(self, timeout):
        """The next event. For a lazy peer, one more response is read if no event is waiting."""
        if self.peer.lazy and not self._events:
            self._permits.release()
        with self._changed:
            if not self._changed.wait_for(lambda: self._events, timeout):
                raise TimeoutError(f"no sign of an event of {type(self).__name__}")
            event = self._events.popleft()
        if isinstance(event, AssertionError):
            raise event
        return event

    def pending(self) -> int:
        return len(self._events)

    def finish(self, timeout: float):
        """Waits until the broker, or the loss of the connection, has ended the call."""
        self._permits.release(PERMITS)
        self._reader.join(max(timeout, 0))
        if self._reader.is_alive():
            raise TimeoutError("the stream has not ended")

    def _read(self):
        responses, events = iter(self.call), None
        while True:
            # A permit is for an event: a response without one, such as the first, does not use it up.
            if self.peer.lazy and events != []:
                self._permits.acquire()
            try:
                response = next(responses)
            except (StopIteration, grpc.RpcError):
                break
            try:
                events = self._expand(response)
            except AssertionError as wrong:
                events = [wrong]
            self._add(events)
        self._out.put(None)  # The thread that feeds requests need not wait any longer.
        code, text = self.call.code(), self.call.details() or ""
        self.trailers = dict(self.call.trailing_metadata() or ())
        dropped = int(self.trailers.get("forebay-dropped", 0)) or None
        if not self.over:
            self.over = True
            self._add([End(kind_of(code, text), text if code != grpc.StatusCode.OK else "", dropped, code)])

    def _add(self, events):
        with self._changed:
            self._events.extend(events)
            self._changed.notify_all()


class Subscription(Call, Stream):
    def __init__(self, peer: "Peer", path: str, more, n: int, **how):
        Stream.__init__(self, n)
        self.topic, given = options(path, more, {"replay", "from", "epoch", "buffer", "overflow", "gap", "meta"})
        self.arrived, self.last, self.epoch = 0, None, None
        known = {key: int(given[name]) for key, name in (("from_sequence", "from"), ("epoch", "epoch"),
                                                         ("buffer", "buffer")) if name in given}
        if given.get("replay") == "all":
            known["replay_all"] = True
        elif "replay" in given:
            known["replay_last"] = int(given["replay"])
        known["positions"] = how.pop("positions", ())
        policy, gap = OVERFLOW[given.get("overflow", "drop-oldest")], given.get("gap") == "fail"
        this = pb.Open(topic=self.topic, request_n=n, overflow=policy, gap_fail=gap, **known)
        Call.__init__(self, peer, peer.pubsub.Subscribe, pb.SubscribeRequest(open=this), **how)

    def request(self, n: int):
        self.asked += n
        self.write(pb.SubscribeRequest(request_n=n))

    def event(self, timeout=DEADLINE) -> Message | End:
        assert self.ended is None, f"the subscription has ended: {self.ended}"
        event = self.next(timeout)
        if isinstance(event, End):
            self.ended = event
        else:
            self.received += 1
        return event

    def nothing(self):
        """Messages that the broker has delivered may still be inside grpcio; the broker's count includes them."""
        if not self.peer.lazy:
            eventually(lambda: (self._delivered(), self._arrived()), lambda seen: seen[0] <= seen[1])
        super().nothing()

    def _siblings(self) -> list["Subscription"]:
        return [one for one in self.peer.calls
                if isinstance(one, Subscription) and one.topic == self.topic and not one.over]

    def _arrived(self) -> int:
        return sum(one.arrived for one in self._siblings())

    def _delivered(self) -> int:
        return sum(row["delivered"] for row in self.peer.ledger(self.topic) if row["peer"] == self.peer.peer)

    def _expand(self, response) -> list[Told]:
        """A response's messages, each with the number of messages lost just before it. The response reports the sum,
        and the sequences show the places, except for the very first message, where only the sum is known."""
        assert response.epoch and self.epoch in (None, response.epoch), (self.epoch, response.epoch)
        self.epoch = response.epoch
        size = sum(len(one.payload) for one in response.messages)
        assert len(response.messages) <= 1 or size <= RESPONSE, f"{size} bytes in one response"
        assert self.asked >= UNBOUNDED or self.arrived + len(response.messages) <= self.asked, (
            f"{self.arrived} messages and {len(response.messages)} more of {self.asked} requested")
        self.arrived += len(response.messages)
        if self.asked < UNBOUNDED:
            assert response.outstanding_credit <= self.asked - self.arrived, response.outstanding_credit
        lost, left = [], response.dropped
        for one in response.messages:
            assert self.last is None or one.sequence > self.last, f"{one.sequence} after {self.last}"
            lost.append(None if self.last is None else one.sequence - self.last - 1)
            left -= lost[-1] or 0
            self.last = one.sequence
        if lost and lost[0] is None and left >= 0:
            lost[0], left = left, 0
        assert left == 0, f"{response.dropped} reported lost, but the sequences show {response.dropped - left}"
        return [Told(one.payload, response.epoch, one.sequence, one.timestamp_ns, before, (), one.content_type,
                     dict(one.headers)) for one, before in zip(response.messages, lost)]


class Channel(Call, Publishing):
    def __init__(self, peer: "Peer", path: str, first: bytes, complete: bool):
        Publishing.__init__(self)
        name, given = options(path, (), {"complete"})
        self._accepted = 0
        this = pb.PublishOpen(topic=name, complete_topic=given.get("complete") == "true")
        Call.__init__(self, peer, peer.pubsub.Publish, pb.PublishRequest(open=this))
        if first is not None:
            self.write(pb.PublishRequest(message=pb.Message(payload=first)))
        if complete:
            self.half_close()

    def force(self, data: bytes = b"", last=False, **more):
        self.sent += 1
        self.write(pb.PublishRequest(message=pb.Message(payload=data, **more)))
        if last:
            self.half_close()

    def complete(self):
        self.half_close()

    def fail(self, text: str):
        self.write(pb.PublishRequest(fail_topic=text))

    def event(self, timeout=DEADLINE) -> str:
        assert self.ended is None, f"the channel has ended: {self.ended}"
        event = self.next(timeout)
        if isinstance(event, End):
            self.ended = event
            return "end"
        if isinstance(event, int):
            self.granted += event
            return "grant"
        self.acknowledge(event)
        return "ack"

    def _expand(self, response) -> list:
        """A grant as a number, an acknowledgement as (sequence, accepted) if it covers more than the previous one."""
        events = [response.granted_credit] if response.granted_credit else []
        assert response.accepted_count >= self._accepted, f"{response.accepted_count} after {self._accepted}"
        if response.accepted_count > self._accepted:
            events.append((response.acknowledged_sequence, response.accepted_count))
        assert events, "an empty response"
        self._accepted = response.accepted_count
        return events


class Offer:
    """A PublishOne in progress."""

    def __init__(self, future):
        self.future = future

    def answered(self) -> bool:
        return self.future.done() and not self.future.cancelled()

    def sequence(self, timeout=DEADLINE) -> int:
        return self.response(timeout).sequence

    def response(self, timeout=DEADLINE):
        try:
            return self.future.result(timeout)
        except grpc.FutureTimeoutError:
            raise TimeoutError("no answer to the publish") from None
        except grpc.RpcError as error:
            raise failure(error) from None

    def cancel(self):
        self.future.cancel()


def sockets(address) -> dict[str, str]:
    """Our connections to an address: the inodes and local addresses."""
    mine = set()
    for one in os.listdir("/proc/self/fd"):
        try:
            mine.update(re.findall(r"socket:\[(\d+)\]", os.readlink(f"/proc/self/fd/{one}")))
        except OSError:
            continue  # Closed since it was listed.
    found = {}
    tables = [Path(f"/proc/self/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    for line in sum(tables, []):  # grpcio reaches IPv4 through IPv6 sockets.
        fields = line.split()
        if fields[9] in mine and int(fields[2].split(":")[1], 16) == address[1]:
            found[fields[9]] = "127.0.0.1:%d" % int(fields[1].split(":")[1], 16)
    return found


class Peer(Observer):
    """A client on its own connection. With `receive_buffer` it is lazy: it reads only what is waited for, and gives a
    stream a window of at most that many bytes."""

    CONTROL = {"$SYS.info": ("Info", "InfoRequest"), "$SYS.topic.info": ("TopicInfo", "TopicInfoRequest"),
               "$SYS.topic.complete": ("CompleteTopic", "CompleteTopicRequest"),
               "$SYS.topic.fail": ("FailTopic", "FailTopicRequest"),
               "$SYS.topic.delete": ("DeleteTopic", "DeleteTopicRequest"),
               "$SYS.connection.close": ("CloseConnection", "CloseConnectionRequest"),
               "$SYS.subscription.close": ("CloseSubscription", "CloseSubscriptionRequest")}
    LISTS = {"$SYS.topics": ("ListTopics", "ListTopicsRequest"),
             "$SYS.subscriptions": ("ListSubscriptions", "ListSubscriptionsRequest"),
             "$SYS.connections": ("ListConnections", "ListConnectionsRequest")}

    def __init__(self, address, receive_buffer=None, **arguments):
        self.lazy, self.calls = receive_buffer is not None, []
        settings = {"grpc.use_local_subchannel_pool": 1, "grpc.enable_http_proxy": 0, "grpc.enable_retries": 0,
                    "grpc.max_receive_message_length": -1, **arguments}
        if self.lazy:
            settings |= {"grpc.http2.bdp_probe": 0, "grpc.http2.lookahead_bytes": receive_buffer}
        before = sockets(address)
        where, how = "%s:%d" % address, list(settings.items())
        if address[1] in tls.secured:
            trusted = grpc.ssl_channel_credentials(open(tls.authority().file, "rb").read())
            self.channel_ = grpc.secure_channel(where, trusted, how)
        else:
            self.channel_ = grpc.insecure_channel(where, how)
        grpc.channel_ready_future(self.channel_).result(DEADLINE)
        (self.peer,) = [name for inode, name in sockets(address).items() if inode not in before]
        self.pubsub, self.admin = services.PubSubStub(self.channel_), services.AdminStub(self.channel_)

    def subscribe(self, path: str, *more: str, n=UNBOUNDED, meta=True, **how) -> Subscription:
        """`meta` is always on."""
        return Subscription(self, path, more, n, **how)

    def offer(self, topic: str, data: bytes, timeout=None, **more) -> Offer:
        request = pb.PublishOneRequest(topic=topic, message=pb.Message(payload=data, **more))
        return Offer(self.pubsub.PublishOne.future(request, timeout=timeout))

    def publish(self, topic: str, *payloads: bytes, **more) -> list[int]:
        """Publishes one message after the other, because concurrent calls have no order."""
        return [self.offer(topic, one, **more).sequence() for one in payloads]

    def channel(self, path: str, first: bytes | None, complete=False) -> Channel:
        return Channel(self, path, first, complete)

    def control(self, path: str, **arguments: str) -> dict:
        method, request = self.CONTROL[path]
        if "name" in arguments:
            arguments["topic"] = arguments.pop("name")
        if path == "$SYS.subscription.close":
            arguments["id"] = int(arguments["id"])
        try:
            return json.loads(getattr(self.admin, method)(getattr(pb, request)(**arguments), timeout=DEADLINE).json)
        except grpc.RpcError as error:
            raise failure(error) from None

    def listing(self, path: str) -> list[dict]:
        method, request = self.LISTS[path]
        return [json.loads(one.json) for one in getattr(self.admin, method)(getattr(pb, request)(), timeout=DEADLINE)]

    def end(self, timeout=DEADLINE):
        """Waits until the broker has ended every stream, or the connection."""
        end = time.monotonic() + timeout
        for call in self.calls:
            call.finish(end - time.monotonic())

    def close(self):
        self.channel_.close()
        for call in self.calls:
            call.over = True
            call._permits.release(PERMITS)
