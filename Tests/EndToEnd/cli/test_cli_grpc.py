"""The command line against independent gRPC servers: its requests, and how it handles their responses."""

import json
import socket

import pytest

from commands import Commands, ended


def lines(count):
    return b"".join(b"%d\n" % number for number in range(count))


def test_demand_as_another_server_sees_it(grpc_peer):
    forebay = grpc_peer()
    forebay.ok("pub", "t", "--stdin", stdin=lines(100))
    assert forebay.ok("sub", "t", "--request", "10", "--count", "25") == lines(25)
    asked = forebay.log("request", lambda line: line["event"] == "ended")
    assert 10 + sum(line["n"] for line in asked) == 25 and all(line["n"] <= 10 for line in asked)


def test_options_as_another_server_reads_them(grpc_peer):
    forebay = grpc_peer()
    forebay.ok("sub", "t", "--from", "7", "--epoch", "9", "--buffer", "5", "--overflow", "block", "--request", "3")
    forebay.ok("sub", "t", "--replay", "all", "--meta")
    asked = []
    forebay.log("subscribe", lambda line: line["event"] == "subscribe" and asked.append(line) or len(asked) == 2)
    heads = [line.pop("metadata") for line in asked]
    assert asked == [
        dict(event="subscribe", topic="t", request_n=3, from_sequence=7, epoch=9, buffer=5, overflow=5, gap_fail=True),
        dict(event="subscribe", topic="t", request_n=0x7FFFFFFF, replay_all=True)]
    assert "user-agent" in heads[0]


def test_completion_and_large_messages(grpc_peer):
    forebay = grpc_peer()
    forebay.ok("pub", "t", "x" * 100_000)
    assert forebay.ok("sub", "t") == b"x" * 100_000 + b"\n"
    assert forebay.ok("sub", "large.5000000", "--format", "raw") == b"x" * 5_000_000
    done = forebay.run("sub", "large.%d" % ((32 << 20) + 1))
    assert done.returncode == 1 and b"larger than this client's limit" in done.stderr


@pytest.mark.parametrize("window", ["1", "7", "500"])
def test_a_channel_under_another_servers_credit(grpc_peer, window):
    forebay = grpc_peer(window)
    messages = [b"x" * (number * 37 % 2000) for number in range(300)] + [b"y" * 200_000]
    out = forebay.ok("pub", "t", "--stdin", "--ack", "--json", stdin=b"\n".join(messages))
    assert json.loads(out) == {"acknowledged": 301, "sequence": 301}
    log = forebay.log("channel-complete", lambda line: line["event"] in ("channel-complete", "overrun"))
    assert log and log[0]["accepted"] == 301
    assert forebay.ok("sub", "t", "--request", "1").splitlines() == messages


def test_calls(grpc_peer):
    forebay = grpc_peer()
    assert forebay.ok("pub", "t", "one", "--ack") == b"1\n"
    assert forebay.ok("topics", "--json") == b'{"name": "t", "next": 2}\n'
    forebay.ok("topic", "fail", "t", "--message", "sensor gøne")
    said = forebay.log("fail", lambda line: line["event"] == "fail")
    assert said[0] == {"event": "fail", "topic": "t", "message": "sensor gøne"}
    # The server has no Health service; the error counts as a reply.
    assert json.loads(forebay.ok("ping", "-n", "1", "--json").splitlines()[-1])["count"] == 1


REFUSALS = ["INVALID_ARGUMENT", "NOT_FOUND", "PERMISSION_DENIED", "UNAUTHENTICATED", "FAILED_PRECONDITION", "ABORTED",
            "RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED"]


@pytest.mark.parametrize("how", [["sub"], ["pub", "message"], ["pub", "--stdin"]], ids=["sub", "pub", "channel"])
def test_statuses_are_failures_reported_by_the_broker(grpc_peer, how):
    forebay = grpc_peer()
    for status in REFUSALS:
        done = forebay.run(how[0], "status." + status, *how[1:], stdin=b"a\nb\n")
        code = {"INVALID_ARGUMENT": 2, "UNAVAILABLE": 3}.get(status, 1)
        assert (done.returncode, done.stdout) == (code, b""), done
        assert done.stderr.startswith(b"forebay: because"), done
    for status in ["INTERNAL", "UNKNOWN", "DATA_LOSS"]:
        done = forebay.run(how[0], "status." + status, *how[1:], stdin=b"a\nb\n")
        assert done.returncode == 1 and done.stderr.startswith(f"forebay: {status}: because".encode()), done


def test_what_a_server_does_not_have(grpc_peer):
    done = grpc_peer().run("subs")
    assert done.returncode == 1 and b"UNIMPLEMENTED" in done.stderr


def test_more_than_was_asked_for(grpc_peer):
    forebay = grpc_peer()
    forebay.ok("pub", "greedy", "--stdin", stdin=lines(9))
    done = forebay.run("sub", "greedy", "--request", "3")
    assert (done.returncode, done.stdout) == (1, lines(3))
    assert done.stderr == b"forebay: The broker sent more messages than were requested.\n"


def test_a_server_that_goes_away(grpc_peer):
    forebay = grpc_peer()
    reader = forebay.start("sub", "never", "--no-reconnect")
    forebay.log("subscribe", lambda line: line["event"] == "subscribe")
    forebay.server.kill()
    assert "connection" in ended(reader, 3)[1]


def test_a_server_of_other_things():
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = Commands(server.getsockname(), "http").start("topics")
        line, _ = server.accept()
        line.sendall(b"220 mail.example ESMTP\r\n" * 40)
        assert "check the port." in ended(process, 3)[1]
        line.close()
