"""Message metadata: the broker's entry, the publisher's; and the three forms of a request's metadata."""

import time

import pytest

from client import *

pytestmark = pytest.mark.rsocket

CONTENT_TYPE = (0x7A, b"\x85")  # "The data is application/json", by its well-known id.
TRACING = (0x7D, bytes(range(17)))
AUTHENTICATION = (0x7C, b"\x81token")
CUSTOM = (b"application/x.mine", b"\x00\x01anything")


def test_meta_is_off_by_default(a, b, topic):
    sub = a.subscribe(topic)
    off = a.subscribe(f"{topic}?meta=off")
    a.joined(topic, 2)
    b.publish(topic, b"x", extra=[CONTENT_TYPE, TRACING])
    for one in (sub, off):
        frame = a.frame(one.stream)
        assert frame.data == b"x" and frame.metadata is None and not frame.has(M)


def test_meta_on_puts_the_brokers_entry_first(a, b, topic):
    sub = a.subscribe(topic, meta=True)
    a.joined(topic, 1)
    before = time.time_ns()
    b.numbers(topic, 1, 3)
    after = time.time_ns()
    frames = [a.frame(sub.stream) for _ in range(3)]
    for i, frame in enumerate(frames, 1):
        (mime, content), *rest = raw.entries(frame.metadata)
        assert mime == MESSAGE_MIME and len(content) == 32 and rest == []
        one = message(frame, True)
        assert (one.sequence, one.dropped) == (i, 0) and before <= one.timestamp <= after
    assert len({message(frame, True).epoch for frame in frames}) == 1


def test_the_publishers_entries_are_carried_in_their_order(a, b, topic):
    sub = a.subscribe(topic, meta=True)
    a.joined(topic, 1)
    b.publish(topic, b"x", extra=[CONTENT_TYPE, CUSTOM, TRACING])
    assert sub.take(1)[0].entries == (CONTENT_TYPE, CUSTOM, TRACING)


@pytest.mark.parametrize("interaction", ["fire", "acknowledged", "channel item 0", "channel item 1"])
def test_the_publishers_entries_are_carried_by_every_interaction(a, b, topic, interaction):
    sub = a.subscribe(topic, meta=True)
    a.joined(topic, 1)
    extra = [CONTENT_TYPE, TRACING]
    if interaction == "fire":
        b.fire(topic, b"x", extra=extra)
    elif interaction == "acknowledged":
        b.publish(topic, b"x", extra=extra)
    elif interaction == "channel item 0":
        b.channel(topic, b"x", metadata=b.route(topic, extra=extra))
    else:
        b.channel(topic, b"0").send(b"x", b"".join(raw.entry(*one) for one in extra))
        assert sub.take(1)[0].entries == ()
    one = sub.take(1)[0]
    assert (one.data, one.entries) == (b"x", tuple(extra))


def test_route_and_authentication_are_stripped(a, b, topic):
    sub = a.subscribe(topic, meta=True)
    a.joined(topic, 1)
    b.publish(topic, b"x", extra=[AUTHENTICATION, CUSTOM, AUTHENTICATION])
    assert sub.take(1)[0].entries == (CUSTOM,)


def test_the_route_need_not_be_the_first_entry(a, b, topic):
    sub = a.subscribe(topic, meta=True)
    a.joined(topic, 1)
    metadata = raw.entry(*CUSTOM) + raw.route(topic) + raw.entry(*TRACING)
    stream = next(b.ids)
    b.send(raw.request(raw.REQUEST_RESPONSE, stream, b"x", metadata))
    assert b.answer(stream).data == b"1"
    assert sub.take(1)[0].entries == (CUSTOM, TRACING)


def test_the_publishers_entries_are_kept_for_replay(a, b, topic):
    b.publish(topic, b"x", extra=[CONTENT_TYPE])
    assert a.subscribe(f"{topic}?replay=1", meta=True).take(1)[0].entries == (CONTENT_TYPE,)


def test_subscribers_with_and_without_meta_share_a_topic(a, b, topic):
    plain, told = a.subscribe(topic), a.subscribe(topic, meta=True)
    a.joined(topic, 2)
    b.publish(topic, *numbers(1, 50), extra=[CONTENT_TYPE])
    assert plain.data(50) == numbers(1, 50)
    assert [(one.sequence, one.data) for one in told.take(50)] == list(enumerate(numbers(1, 50), 1))


FORMS = {"composite": COMPOSITE, "bare routing": ROUTING, "plain string": b"text/plain"}


@pytest.mark.parametrize("form", FORMS)
def test_the_route_in_each_form_of_metadata(connect, b, topic, form):
    """All four interactions with each form, with options in the route."""
    this = connect(mime=FORMS[form])
    b.numbers(topic, 1, 3)
    sub = this.subscribe(f"{topic}?replay=2&buffer=100")
    assert sub.data(2) == numbers(2, 3)
    assert this.publish(topic, b"4") == [4]
    this.channel(f"{topic}?complete=true", b"5", complete=True).end()
    assert sub.data(2) == [b"4", b"5"]
    assert sub.end() == End()


@pytest.mark.parametrize("form", FORMS)
def test_fire_in_each_form_of_metadata(connect, a, topic, form):
    this = connect(mime=FORMS[form])
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    this.fire(topic, b"x")
    assert sub.data(1) == [b"x"]


@pytest.mark.parametrize("form", FORMS)
def test_meta_is_composite_whatever_the_form_of_requests(connect, b, topic, form):
    b.publish(topic, b"x", extra=[CONTENT_TYPE])
    this = connect(mime=FORMS[form])
    path = f"{topic}?replay=1&meta=on"
    sub = this.subscribe(path)
    sub.meta = True
    assert sub.take(1)[0].entries == (CONTENT_TYPE,)


@pytest.mark.parametrize("form", ["composite", "bare routing"])
def test_further_tags_carry_one_option_each(connect, b, topic, form):
    this = connect(mime=FORMS[form])
    b.numbers(topic, 1, 5)
    sub = this.subscribe(topic, "replay=3", "buffer=7", "overflow=drop-newest")
    assert sub.data(3) == numbers(3, 5)
    told = b.ledger(topic)[0]
    assert (told["buffer"], told["policy"]) == (7, "drop-newest")


def test_options_in_the_route_and_in_further_tags_add_up(a, b, topic):
    b.numbers(topic, 1, 5)
    sub = a.subscribe(f"{topic}?replay=3", "buffer=7", n=1)
    assert sub.data(1) == [b"3"]
    assert b.ledger(topic)[0]["buffer"] == 7


def test_a_name_of_255_bytes_leaves_its_options_to_further_tags(a, b):
    name = ("n" * 50 + ".") * 5
    assert len(name) == 255
    assert refusal(a.subscribe(name, "replay=1")).code == raw.INVALID  # The name ends with a dot.
    name = name[:-1] + "x"
    b.numbers(name, 1, 3)
    assert a.subscribe(name, "replay=1").data(1) == [b"3"]


@pytest.mark.parametrize("option, count", [("replay=%32", 2), ("replay=%33", 3), ("replay=a%6Cl", 5)])
def test_values_are_percent_encoded(a, b, topic, option, count):
    b.numbers(topic, 1, 5)
    assert a.subscribe(f"{topic}?{option}").data(count) == numbers(6 - count, 5)


def test_percent_encoding_of_control_arguments(a, b, topic):
    b.numbers(topic, 1, 1)
    assert a.control("$SYS.topic.info", name=topic)["name"] == topic
    encoded = "".join(f"%{byte:02x}" for byte in topic[:20].encode()) + topic[20:]
    assert json.loads(a.answer(a.call(f"$SYS.topic.info?name={encoded}")).data)["name"] == topic


@pytest.mark.parametrize("option", ["replay=%", "replay=%2", "replay=%zz", "replay=%3g"])
def test_broken_percent_encoding_is_invalid(a, topic, option):
    assert refusal(a.subscribe(f"{topic}?{option}")).code == raw.INVALID
