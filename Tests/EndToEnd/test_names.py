"""Topic names, and contradictory options, over each transport."""

import pytest

from common import *

BAD_NAMES = ["", ".", "..", "a..b", ".a", "a.", "a b", "a/b", "a:b", "ä", "a\tb", "a\x00b", "a.b*", "a.>.b",
             "$SYS", "$other.x", "a.$SYS.b"]
PATTERNS = ["*", "a.*", "*.a", ">", "a.>"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name(a, topic, name):
    end = refusal(a.subscribe(name))
    assert end.kind == Kind.INVALID and end.text and "\n" not in end.text
    with pytest.raises(StreamError) as refused:
        a.publish(name, b"x")
    assert refused.value.kind == Kind.INVALID
    assert a.channel(name, b"x").end().kind == Kind.INVALID
    assert a.publish(topic, b"still served")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_cannot_be_published_to(a, topic, pattern):
    with pytest.raises(StreamError) as refused:
        a.publish(pattern, b"x")
    assert refused.value.kind == Kind.INVALID
    assert a.channel(pattern, b"x").end().kind == Kind.INVALID
    assert a.publish(topic, b"still served")


def test_names_of_every_legal_kind(a, b):
    for name in ["A", "0", "_", "-", "Az09_-", "a.b.c.d.e.f.g", "0.1.2", "-.-", "sys.x", "SYS.x"]:
        b.numbers(name, 1, 1)
        assert a.subscribe(f"{name}?replay=1").data(1) == [b"1"]


def test_names_that_differ_in_case_are_different_topics(a, b, topic):
    b.numbers(topic + ".UP", 1, 1)
    assert b.numbers(topic + ".up", 1, 1) == [1]


def test_a_name_of_255_bytes(a, b):
    name = ("m" * 50 + ".") * 4 + "m" * 51
    assert len(name) == 255
    b.numbers(name, 1, 3)
    assert a.subscribe(name, "replay=1").data(1) == [b"3"]


@pytest.mark.parametrize("options", ["from=1&replay=1", "from=1&replay=all", "epoch=5", "epoch=5&replay=all"])
def test_options_that_contradict_each_other(a, topic, options):
    assert refusal(a.subscribe(f"{topic}?{options}", meta=True)).kind == Kind.INVALID
    assert topic not in [one["name"] for one in a.listing("$SYS.topics")]


def test_a_refused_subscription_leaves_others_alone(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    assert refusal(a.subscribe("a..b")).kind == Kind.INVALID
    assert refusal(a.subscribe(f"{topic}?epoch=1", meta=True)).kind == Kind.INVALID
    b.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]


@pytest.mark.rsocket
def test_options_in_the_first_tag_and_in_further_tags_are_one_list(a, b, topic):
    b.numbers(topic, 1, 3)
    assert a.subscribe(f"{topic}?replay=1", "buffer=8").data(1) == [b"3"]
    assert a.subscribe(f"{topic}?&replay=1&", "buffer=%38").data(1) == [b"3"]
    assert a.subscribe(topic.replace(".", "%2E"), "rep%6Cay=%32").data(1) == [b"2"]
    for path, tag in [(f"{topic}?replay=1", "replay=1"), (topic, "replay=1&buffer=8"), (topic, ""),
                      (topic, "replay"), (f"{topic}?replay=%zz", "buffer=8"), (topic, "replay=%")]:
        assert refusal(a.subscribe(path, tag)).kind == Kind.INVALID, (path, tag)
