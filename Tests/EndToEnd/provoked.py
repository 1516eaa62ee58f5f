"""How real clients provoke each error word: the cases of test_errors.py.

A case is a function that makes a client receive an error at one of the places that Protocol/errors.md names: `rsocket`
and `grpc` are errors of a request or stream, `connection` is stream 0 of RSocket, `http STATUS` is a problem, and
`events` and `lines` are streams over plain HTTP that end with `failed`. Plain HTTP is HTTP/1.1 and HTTP/2.
"""

import signal

import access
import http1
from grpc_client import pb
from http2 import *
from words import *

LARGEST = 64 << 10  # The broker's limit on payloads.
STREAMS = ("rsocket", "grpc", "events", "lines")


# invalid, unsupported, protocol


@case("invalid", "rsocket", "grpc")
def contradictory_options(here):
    return ended(here.place, lambda: here.peer().subscribe(f"{here.topic}?replay=1&from=2").end())


@case("invalid", "http 400")
def an_unknown_option(here):
    return here.send(query="nope=1")


@case("invalid", "connection")
def no_setup(here):
    return of_connection(here.line(raw.payload(1)))


@case("unsupported", "connection")
def another_version(here):
    return of_connection(here.line(raw.setup(version=(2, 0))))


@case("unsupported", "connection")
def a_lease(here):
    return of_connection(here.line(raw.setup(flags=raw.L)))


@case("unsupported", "connection")
def resumption_turned_off(here):
    here.be_strict()
    return of_connection(here.line(raw.setup(flags=raw.R, token=bytes(16))))


@case("unsupported", "grpc")
def an_unknown_method(here):
    return ended("grpc", lambda: here.peer().channel_.unary_unary("/forebay.v1.PubSub/Nothing")(b"", timeout=DEADLINE))


@case("unsupported", "grpc")
def compression(here):
    request = pb.PublishOneRequest(topic=here.topic, message=pb.Message(payload=bytes(10_000)))
    return ended("grpc", lambda: here.peer().pubsub.PublishOne(request, compression=grpc.Compression.Gzip, timeout=9))


for word, status, type, *options in [
    ("unsupported", 405, "method-not-allowed", "-X", "DELETE"),
    ("unsupported", 406, "not-acceptable", "-H", "accept: text/html"),
    ("unsupported", 417, "expectation-failed", "-H", "expect: magic", "-d", "x"),
    ("forbidden", 403, "foreign-origin", "-H", "origin: https://example.org"),
    ("forbidden", 421, "foreign-host", "-H", "host: example.org"),
]:
    case(word, f"http {status}", type=type)(lambda here, options=options: here.send(*options))


@case("unsupported", "http 505", type="http-version", versions=["1.1"])
def grpc_over_http1(here):
    web = here.web()
    return of_problem(web.send(f"{web.base}{PUBLISH_ONE}", "-H", "content-type: application/grpc", body=b""))


@case("protocol", "connection")
def a_request_on_stream_0(here):
    return of_connection(here.line(raw.setup(), raw.request(raw.REQUEST_RESPONSE, 0, b"", raw.route(here.topic))))


@case("protocol", "grpc")
def a_message_cut_short(here):
    wire = here.wire()
    wire.send(wire.call(1, PUBLISH_ONE), data(1, framed(bytes(9))[:8], end=True))
    return of_call(wire, 1)


@case("protocol", "rsocket")
def a_stream_in_use(here):
    line = here.line(raw.setup(), *2 * [raw.request(raw.REQUEST_STREAM, 1, b"", raw.route(here.topic), n=1)])
    error = line.frame(1)
    assert error.kind == raw.ERROR
    return Told("rsocket", error.code, error.text)


for word, *lines in [("protocol", "host: a", "host: b"), ("protocol", "host: a", "content-length: x"),
                     ("unsupported", "host: a", "transfer-encoding: gzip")]:
    def by_head(here, lines=lines):
        line = here.keep(http1.Line(here.broker.http))
        head = [f"POST /v1/topics/{here.topic}/messages HTTP/1.1", *lines, "", ""]
        line.send("\r\n".join(head).encode())
        return problem_on(line)

    case(word, "http 400", type="invalid", versions=["1.1"])(by_head)


# unauthenticated, forbidden, not-found


@case("unauthenticated", "connection")
def a_wrong_token(here):
    return of_connection(here.line(raw.setup(metadata=access.bearer("stranger"))))


@case("unauthenticated", "rsocket", "connection")
def a_user_who_is_removed(here):
    user = {"rsocket": "gone-1", "connection": "gone-2"}[here.place]
    peer = here.keep(access.rsocket(here.broker, access.bearer(user)))
    sub = peer.subscribe(here.topic)
    peer.joined(here.topic, 1)
    here.broker.remove(user)
    return ended("rsocket", sub.end) if here.place == "rsocket" else of_connection(peer)


@case("unauthenticated", "grpc")
def a_wrong_token_of_a_call(here):
    with access.Calls(here.broker, "Bearer stranger") as calls:
        return ended("grpc", lambda: calls.admin.Info(pb.InfoRequest(), metadata=calls.metadata, timeout=DEADLINE))


@case("unauthenticated", "http 401")
def a_wrong_token_of_a_request(here):
    return here.send("-H", "authorization: Bearer stranger")


@case("forbidden", "rsocket")
def a_permission_that_is_missing(here):
    peer = here.keep(access.rsocket(here.broker, access.bearer("nobody")))
    return ended("rsocket", peer.subscribe(here.topic).end)


@case("forbidden", "grpc")
def a_permission_that_is_missing_for_a_call(here):
    request = pb.PublishOneRequest(topic=here.topic, message=pb.Message(payload=b"x"))
    with access.Calls(here.broker, "Bearer nobody") as calls:
        return ended("grpc", lambda: calls.pubsub.PublishOne(request, metadata=calls.metadata, timeout=DEADLINE))


@case("forbidden", "http 403")
def a_permission_that_is_missing_for_a_request(here):
    return here.send("-H", "authorization: Bearer nobody", body=b"x")


@case("not-found", "rsocket", "grpc")
def no_topic(here):
    return ended(here.place, lambda: here.peer().info(here.topic))


@case("not-found", "http 404")
def no_subscription(here):
    web = here.web()
    return of_problem(web.ask("0" * 32, 1))


# limit, too-large, credit


@case("limit", "rsocket")
def subscriptions(here):
    peer = here.keep(access.rsocket(here.broker, access.bearer("poor")))
    return ended("rsocket", peer.subscribe(here.topic).end)


@case("limit", "grpc")
def subscriptions_by_calls(here):
    first = pb.SubscribeRequest(open=pb.Open(topic=here.topic, request_n=1))
    with access.Calls(here.broker, "Bearer poor") as calls:
        return ended("grpc", lambda: next(calls.pubsub.Subscribe(iter([first]), metadata=calls.metadata, timeout=9)))


@case("limit", "http 429")
def subscriptions_by_requests(here):
    return here.send("-H", "authorization: Bearer poor")


def crowd(here) -> raw.Connection:
    """Fills the strict broker with three connections; returns one more."""
    here.be_strict()
    accepted = 0
    while True:
        peer = here.peer("rsocket")
        try:
            accepted += bool(peer.control("$SYS.info"))
        except ConnectionError:
            if accepted == 3:
                return peer


@case("limit", "connection")
def connections(here):
    return of_connection(crowd(here))


@case("limit", "http 503", type="too-many-connections", versions=["1.1"])
def connections_over_http(here):
    crowd(here)
    return here.send()


@case("too-large", "rsocket", "grpc")
def a_payload(here):
    return ended(here.place, lambda: here.peer().publish(here.topic, bytes(LARGEST + 1)))


@case("too-large", "connection")
def a_keepalive(here):
    return of_connection(here.line(raw.setup(), raw.keepalive(bytes(1025))))


@case("too-large", "http 413")
def a_body(here):
    return here.send(body=bytes(LARGEST + 1))


@case("too-large", "http 414", type="target-too-long")
def a_query(here):
    return here.send(query="x-long=" + "x" * 9000)


@case("too-large", "http 431", type="headers-too-large")
def headers_of_a_message(here):
    return here.send(*[part for n in range(257) for part in ("-H", f"forebay-header-{n}: 1")], body=b"x")


@case("credit", "rsocket", "grpc")
def a_message_too_many(here):
    root, _ = here.subscribe("overflow=block&buffer=1", n=1)
    channel = here.peer().channel(here.topic, b"0")
    for _ in range(50):
        channel.force(b"x")
    return ended(here.place, channel.end)


# blocked, timeout


@case("blocked", "rsocket", "grpc", "http 503", versions=["2"])
def a_full_subscription(here):
    root = here.peer("rsocket")
    root.subscribe(f"{here.topic}?overflow=block&buffer=1", n=1)
    root.joined(here.topic, 1)
    root.publish(here.topic, b"1", b"2")
    if here.place == "http 503":
        return here.send(body=b"3")
    return ended(here.place, here.peer().offer(here.topic, b"3").sequence)


@case("timeout", "rsocket")
def an_unfinished_message(here):
    peer = here.peer()
    peer.send(raw.request(raw.REQUEST_RESPONSE, 1, b"x", raw.route(here.topic), flags=raw.F))
    return ended("rsocket", lambda: peer.answer(1))


@case("timeout", "grpc")
def an_unfinished_message_of_a_call(here):
    wire = here.wire()
    wire.send(wire.call(1, PUBLISH_ONE), data(1, framed(bytes(9))[:8]))
    return of_call(wire, 1)


@case("timeout", "grpc")
def a_deadline(here):
    wire = here.wire()
    wire.send(wire.call(1, SUBSCRIBE, open_of(here.topic), more=[("grpc-timeout", "50m")]))
    return of_call(wire, 1)


@case("timeout", "http 408")
def an_unfinished_body(here):
    if here.version == "2":
        wire = here.wire()
        wire.send(plain(wire, 1, "POST", here.topic, end=False), data(1, b"x"))
        return problem_of(wire, 1)
    line = here.keep(http1.Line(here.broker.http))
    line.send(http1.post(here.topic, bytes(10))[:-1])
    return problem_on(line)


@case("timeout", "connection")
def no_setup_in_time(here):
    here.be_strict()
    return of_connection(here.line())


@case("timeout", "connection")
def nothing_for_a_lifetime(here):
    line = here.line(raw.setup(lifetime_ms=1))
    line.lives = False
    return of_connection(line)


# ended, gap, topic failed, overflow


@case("ended", "rsocket", "grpc", "http 409")
def a_completed_topic(here):
    root = here.peer("rsocket")
    root.publish(here.topic, b"1")
    root.control("$SYS.topic.complete", name=here.topic)
    if here.place == "http 409":
        return here.send(body=b"2")
    return ended(here.place, here.peer().offer(here.topic, b"2").sequence)


@case("gap", "rsocket", "grpc", "http 409")
def a_position_that_is_not_there(here):
    here.peer("rsocket").publish(here.topic, b"1")
    if here.place == "http 409":
        return here.send(query="from=9&gap=fail")
    return ended(here.place, here.peer().subscribe(f"{here.topic}?from=9&gap=fail").end)


@case("topic failed", *STREAMS)
def a_failed_topic(here):
    root, taken = here.subscribe()
    root.control("$SYS.topic.fail", name=here.topic, message="out of order")
    return taken()


@case("topic failed", *STREAMS)
def a_deleted_topic(here):
    root, taken = here.subscribe()
    root.publish(here.topic, b"1")
    root.control("$SYS.topic.delete", name=here.topic)
    return taken()


@case("overflow", *STREAMS)
def a_policy(here):
    root, taken = here.subscribe("overflow=fail&buffer=1", n=2)
    root.publish(here.topic, *[b"x"] * 4)
    here.ask(9)
    return taken()


@case("overflow", *STREAMS)
def a_log_that_is_full(here):
    """The log may have 4 KiB."""
    here.topic = f"bytes.{here.topic[:80]}"
    root, taken = here.subscribe("overflow=fail", n=1)
    root.publish(here.topic, *[bytes(1000)] * 9)
    here.ask(9)
    return taken()


# draining, unavailable


@case("draining", "connection", "rsocket", "grpc", "http 503")
def a_shutdown(here):
    return here.request.getfixturevalue("drained")[f"{here.place} {here.version}".strip()]


# Sixteen logins from one address may wait. These come at once, and each password takes some time: the last are refused.
PILE = range(47, 0, -2)


def logins(here) -> list[tuple[int, str]]:
    """Streams, each with a user who has not logged in yet."""
    return [(stream, f"{here.place.replace(' ', '-')}-{stream}") for stream in reversed(PILE)]


@case("unavailable", "connection")
def logins_that_pile_up(here):
    here.broker.process.send_signal(signal.SIGSTOP)
    lines = [here.line(raw.setup(metadata=access.simple(user, "secret")), raw.keepalive()) for _, user in logins(here)]
    here.broker.process.send_signal(signal.SIGCONT)
    error = next(one for one in (line.frame(0) for line in reversed(lines)) if one.kind == raw.ERROR)
    return Told("connection", error.code, error.text)


@case("unavailable", "grpc")
def logins_of_calls_that_pile_up(here):
    wire, form = here.wire(), lambda user: ("authorization", access.basic(user, "secret"))
    wire.send(*(wire.call(stream, PUBLISH_ONE, b"", end=True, more=[form(user)]) for stream, user in logins(here)))
    # Calls whose logins were checked name no topic.
    return next(told for stream in PILE if (told := of_call(wire, stream)).code != grpc.StatusCode.INVALID_ARGUMENT)


@case("unavailable", "http 503", versions=["2"])
def logins_of_requests_that_pile_up(here):
    wire, form = here.wire(), lambda user: ("authorization", access.basic(user, "secret"))
    wire.send(*(plain(wire, stream, "POST", here.topic, "", form(user)) for stream, user in logins(here)))
    return problem_of(wire, next(stream for stream in PILE if wire.answer(stream).headers[":status"] != "200"))
