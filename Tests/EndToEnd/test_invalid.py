"""Invalid options and names: INVALID on that stream, with the reason and the valid choices."""

import pytest

from client import *

pytestmark = pytest.mark.rsocket


def invalid(peer, frame_stream) -> str:
    """The text of the INVALID with which a request must be answered."""
    frame = peer.frame(frame_stream)
    assert frame.kind == ERROR and frame.code == raw.INVALID, frame
    assert frame.text and "\n" not in frame.text
    return frame.text


def open_stream(peer, kind, path, *more) -> int:
    stream = next(peer.ids)
    n = 1 if kind in (raw.REQUEST_STREAM, raw.REQUEST_CHANNEL) else None
    peer.send(raw.request(kind, stream, b"x", peer.route(path, *more), n))
    return stream


SUBSCRIBE_OPTIONS = ["replay", "from", "epoch", "buffer", "overflow", "gap", "meta", "demand"]


def test_an_unknown_option_is_named_and_the_known_ones_told(a, topic):
    text = invalid(a, open_stream(a, raw.REQUEST_STREAM, f"{topic}?replya=3"))
    assert "replya" in text
    assert all(name in text for name in SUBSCRIBE_OPTIONS), text


@pytest.mark.parametrize("kind", [raw.REQUEST_RESPONSE, raw.REQUEST_CHANNEL])
def test_an_unknown_option_of_a_publish(a, topic, kind):
    assert "nonsense" in invalid(a, open_stream(a, kind, f"{topic}?nonsense=1"))


def test_an_unknown_option_in_a_further_tag(a, topic):
    assert "replya" in invalid(a, open_stream(a, raw.REQUEST_STREAM, topic, "buffer=3", "replya=3"))


@pytest.mark.parametrize("options", [
    "replay=1&replay=1", "replay=1&replay=2", "buffer=1&buffer=2", "meta=on&meta=on", "overflow=fail&overflow=fail",
    "from=1&from=1", "gap=tell&gap=fail", "from=1&epoch=5&epoch=5",
])
def test_a_doubled_option(a, topic, options):
    doubled = options.rsplit("&", 1)[1].split("=")[0]
    assert doubled in invalid(a, open_stream(a, raw.REQUEST_STREAM, f"{topic}?{options}"))


def test_an_option_doubled_by_a_further_tag(a, topic):
    assert "replay" in invalid(a, open_stream(a, raw.REQUEST_STREAM, f"{topic}?replay=1", "replay=1"))


@pytest.mark.parametrize("options", ["from=1&replay=1", "replay=all&from=1", "replay=0&from=1"])
def test_from_together_with_replay(a, topic, options):
    text = invalid(a, open_stream(a, raw.REQUEST_STREAM, f"{topic}?{options}"))
    assert "from" in text and "replay" in text


@pytest.mark.parametrize("options", ["epoch=5", "epoch=5&replay=all", "from=1&gap=tell", "from=1&gap=tell&meta=off"])
def test_options_that_contradict_each_other(a, topic, options):
    invalid(a, open_stream(a, raw.REQUEST_STREAM, f"{topic}?{options}"))


@pytest.mark.parametrize("option", [
    "replay=x", "replay=-1", "replay=1.5", "replay=", "replay", "replay=ALL", "replay=99999999999999999999",
    "buffer=0", "buffer=-1", "buffer=x", "buffer=", "buffer=2147483648", "buffer=99999999999999999999",
    "overflow=sideways", "overflow=", "overflow=Drop-Oldest", "gap=maybe", "meta=maybe", "meta=",
    "from=x", "from=", "from=-1", "from=99999999999999999999", "from=1&epoch=x", "from=1&epoch=99999999999999999999",
    "demand=maybe",
])
def test_a_value_that_is_none(a, topic, option):
    name = option.rsplit("&", 1)[-1].split("=")[0]
    assert name in invalid(a, open_stream(a, raw.REQUEST_STREAM, f"{topic}?{option}"))


@pytest.mark.parametrize("option, known", [
    ("overflow=sideways", ["drop-oldest", "drop-newest", "replace-newest", "latest", "fail", "block"]),
    ("gap=maybe", ["tell", "fail"]),
    ("meta=maybe", ["on", "off"]),
])
def test_a_wrong_word_is_answered_with_the_right_ones(a, topic, option, known):
    text = invalid(a, open_stream(a, raw.REQUEST_STREAM, f"{topic}?{option}"))
    assert all(word in text for word in known), text


@pytest.mark.parametrize("kind, option", [
    (raw.REQUEST_STREAM, "complete=true"), (raw.REQUEST_STREAM, "on-loss=fail"), (raw.REQUEST_STREAM, "name=x"),
    (raw.REQUEST_RESPONSE, "replay=1"), (raw.REQUEST_RESPONSE, "buffer=1"), (raw.REQUEST_RESPONSE, "complete=true"),
    (raw.REQUEST_RESPONSE, "overflow=block"), (raw.REQUEST_RESPONSE, "meta=on"), (raw.REQUEST_RESPONSE, "on-loss=fail"),
    (raw.REQUEST_CHANNEL, "replay=1"), (raw.REQUEST_CHANNEL, "from=1"), (raw.REQUEST_CHANNEL, "buffer=1"),
    (raw.REQUEST_CHANNEL, "overflow=block"), (raw.REQUEST_CHANNEL, "gap=fail"),
])
def test_an_option_of_another_interaction(a, topic, kind, option):
    assert option.split("=")[0] in invalid(a, open_stream(a, kind, f"{topic}?{option}"))


@pytest.mark.parametrize("option", ["complete=maybe", "on-loss=maybe", "complete=true&complete=true", "complete="])
def test_bad_values_of_a_channels_options(a, topic, option):
    assert option.split("=")[0] in invalid(a, open_stream(a, raw.REQUEST_CHANNEL, f"{topic}?{option}"))


BAD_NAMES = ["", ".", "..", "a..b", ".a", "a.", "a b", "a/b", "a:b", "ä", "a\tb", "a\x00b", "a.b*", "a.>.b",
             "?replay=1", "$SYS", "$other.x", "a.$SYS.b"]
PATTERNS = ["*", "a.*", "*.a", ">", "a.>"]


@pytest.mark.parametrize("kind", [raw.REQUEST_STREAM, raw.REQUEST_RESPONSE, raw.REQUEST_CHANNEL])
@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name(a, kind, name):
    invalid(a, open_stream(a, kind, name))


@pytest.mark.parametrize("kind", [raw.REQUEST_RESPONSE, raw.REQUEST_CHANNEL])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_cannot_be_published_to(a, kind, pattern):
    invalid(a, open_stream(a, kind, pattern))


@pytest.mark.parametrize("name", ["a\u00e4b", "with space", "x" * 256, "y." * 130 + "z"])
def test_a_bad_name_is_explained(connect, name):
    this = connect(mime=b"text/plain")
    text = invalid(this, open_stream(this, raw.REQUEST_STREAM, name))
    if len(name) > 255:
        assert "255" in text
    else:
        assert any(sign in text for sign in ("A-Z", "a-z", "letters", "reserved")), text


@pytest.mark.parametrize("name", ["a*b", "news.>.x"])
def test_a_bad_pattern_is_explained(connect, name):
    this = connect(mime=b"text/plain")
    stream = next(this.ids)
    this.send(raw.request(raw.REQUEST_STREAM, stream, b"", this.route(name), 1))
    text = invalid(this, stream)
    assert "pattern" in text and "orders.>" in text, text


def test_a_name_of_255_bytes_in_a_plain_string_route(connect):
    this, name = connect(mime=b"text/plain"), "p" * 255
    this.numbers(name, 1, 2)
    assert this.subscribe(f"{name}?replay=all").data(2) == numbers(1, 2)


@pytest.mark.parametrize("kind", [raw.REQUEST_STREAM, raw.REQUEST_RESPONSE, raw.REQUEST_CHANNEL])
def test_a_request_without_metadata(a, kind):
    stream = next(a.ids)
    a.send(raw.request(kind, stream, b"x", None, None if kind == raw.REQUEST_RESPONSE else 1))
    invalid(a, stream)


BAD_METADATA = {
    "none at all": b"",
    "no route": raw.entry(b"application/x.mine", b"x"),
    "an empty routing entry": raw.entry(ROUTING, b""),
    "an entry longer than the metadata": b"\xfe\x00\x00\x20\x03abc",
    "a tag longer than the routing entry": raw.entry(ROUTING, b"\x20abc"),
    "a mime longer than the metadata": b"\x7fabc",
    "an entry that ends in its length": b"\xfe\x00\x00",
    "a route that is not UTF-8": raw.entry(ROUTING, b"\x02\xff\xfe"),
}


@pytest.mark.parametrize("what", BAD_METADATA)
def test_broken_metadata_costs_the_stream_alone(a, topic, what):
    other = a.subscribe(topic)
    stream = next(a.ids)
    a.send(raw.request(raw.REQUEST_STREAM, stream, b"", BAD_METADATA[what], 1))
    invalid(a, stream)
    a.numbers(topic, 1, 1)
    assert other.data(1) == [b"1"]


@pytest.mark.rsocket
@pytest.mark.parametrize("what", ["an entry longer than the metadata", "a mime longer than the metadata",
                                  "an entry that ends in its length"])
def test_metadata_of_a_later_message_that_cannot_be_read_ends_its_channel(a, b, topic, what):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    channel.until(lambda: channel.granted > 0)
    channel.force(b"1", metadata=BAD_METADATA[what])
    assert channel.end().kind == Kind.INVALID
    b.numbers(topic, 2, 2)
    assert sub.data(2) == [b"0", b"2"]


def test_unknown_metadata_entries_are_skipped(a, b, topic):
    b.numbers(topic, 1, 1)
    metadata = raw.entry(0x44, b"x") + raw.entry(b"application/x.unheard-of", b"y") + raw.route(f"{topic}?replay=1")
    stream = next(a.ids)
    a.send(raw.request(raw.REQUEST_STREAM, stream, b"", metadata, 1))
    assert Subscription(a, stream, 1, False).data(1) == [b"1"]


def test_a_refused_subscription_leaves_no_topic_behind(a, topic):
    refusal(a.subscribe(f"{topic}?replya=3"))
    assert topic not in [one["name"] for one in a.listing("$SYS.topics")]


def test_fire_with_a_bad_route_is_dropped_quietly(a, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    for path in ("", "a..b", f"{topic}?nonsense=1", f"{topic}?replay=1", "*", "$SYS.events", "$SYS.nothing"):
        a.fire(path, b"bad")
    a.fire(topic, b"good")
    assert sub.data(1) == [b"good"]
