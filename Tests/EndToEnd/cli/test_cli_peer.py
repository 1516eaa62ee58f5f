"""The command line against an independent server: its requests, and what it accepts."""

import pytest


def test_demand_as_another_server_sees_it(peer):
    forebay = peer()
    forebay.ok("pub", "t", "--stdin", stdin=b"".join(b"%d\n" % n for n in range(100)))
    out = forebay.ok("sub", "t", "--replay", "all", "--request", "10", "--count", "25")
    assert out == b"".join(b"%d\n" % n for n in range(25))
    asked = [line["n"] for line in forebay.log("request", lambda line: line["event"] == "cancel")]
    assert asked[0] == 10 and sum(asked) == 25 and max(asked) <= 10


def test_a_count_is_all_that_is_asked_for(peer):
    forebay = peer()
    forebay.ok("pub", "t", "--stdin", stdin=b"a\nb\nc\n")
    forebay.ok("sub", "t", "--replay", "all", "--count", "2")
    assert [x["n"] for x in forebay.log("request", lambda line: line["event"] == "cancel")] == [2]


@pytest.mark.parametrize("window, fragment", [("1", "64"), ("7", "1000"), ("500", "65536")])
def test_a_channel_under_another_servers_credit(peer, window, fragment):
    forebay = peer(window, "0", fragment)
    lines = [b"x" * (number * 37 % 2000) for number in range(300)] + [b"y" * 200_000]
    forebay.ok("pub", "t", "--stdin", stdin=b"\n".join(lines))
    log = forebay.log("channel-complete", lambda line: line["event"] in ("channel-complete", "overrun"))
    assert log and log[0]["accepted"] == 301
    # One at a time: rsocket-py interleaves the fragments of several messages waiting on one stream.
    assert forebay.ok("sub", "t", "--replay", "all", "--count", "301", "--request", "1").splitlines() == lines


def test_long_names_and_options_in_further_tags(peer):
    forebay = peer()
    name = "n" * 250
    forebay.ok("pub", name, "x")
    forebay.ok("sub", name, "--replay", "1", "--count", "1", "--buffer", "5", "--no-reconnect")
    tags = forebay.log("subscribe", lambda line: line["event"] == "subscribe")[0]["tags"]
    assert tags == [name, "replay=1", "buffer=5"]
