"""Writes captures.txt: what a real NATS server answers to fixed requests. The model must answer the same.

Run `.venv/bin/python Tests/Tools/JetStreamModelTests/capture.py` after changing the cases or the server's version.

A case begins with "= NAME". A line "> BYTES" is sent; the lines "< BYTES" after it are the answers, sorted by
subscription, because a server may send those of different subscriptions in any order. Line breaks are written as
\\r\\n. Times are replaced by <time>, sizes in MSG and HMSG, which depend on them, by <size>, and descriptions of the
cluster by <cluster>. PINGs are left out.
"""

import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
CLUSTER = re.compile(r'"cluster":\{.*\},"ts"')
CONNECT = 'CONNECT {"verbose":false,"headers":true,"no_responders":true,"protocol":1}\r\n'
QUIET = 0.15


def pub(subject: str, payload: object = "", reply: str = "", **headers: object) -> str:
    """PUB or HPUB. In the names of headers, `_` stands for `-`."""
    body = payload if isinstance(payload, str) else json.dumps(payload, separators=(",", ":"))
    words = [subject, reply] if reply else [subject]
    if not headers:
        return f"PUB {' '.join(words)} {len(body.encode())}\r\n{body}\r\n"
    block = "NATS/1.0\r\n" + "".join(f"{n.replace('_', '-')}: {v}\r\n" for n, v in headers.items()) + "\r\n"
    return f"HPUB {' '.join(words)} {len(block)} {len(block) + len(body.encode())}\r\n{block}{body}\r\n"


def api(call: str, payload: object = "") -> str:
    return pub("$JS.API." + call, payload, "_INBOX.a")


def ack(subject: str, payload: str = "", **headers: object) -> str:
    return pub(subject, payload, "_INBOX.a", **headers)


INBOX = "SUB _INBOX.> 1\r\n"


def stream(name: str, subjects: list[str], **more: object) -> str:
    return api(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, **more})


SHARED = {"name": "FB_1", "subjects": ["fb.p.*.t"], "retention": "limits", "max_msgs": 100, "max_bytes": 100000,
          "max_age": 3600000000000, "storage": "file", "discard": "old", "num_replicas": 1, "allow_direct": True,
          "duplicate_window": 60000000000, "republish": {"src": "fb.p.*.t", "dest": "fb.l.t"},
          "metadata": {"topic": "t", "b": "x\"y", "a": "<é&>"}}
FIVE = [ack("s.a", "one"), ack("s.b", "two"), ack("s.a", "three", X="y"), ack("s.c", ""), ack("s.b", "five")]

CASES: dict[str, list[str]] = {
    "core": [
        "PING\r\n", "SUB a.* 1\r\nSUB a.> 2\r\nSUB > 3\r\nSUB a.b 4\r\n", pub("a.b", "x"), pub("a.b.c", "y", "r.1"),
        pub("a", ""), "UNSUB 3\r\n", pub("a.b", "z", A="b"), "UNSUB 2 4\r\n", pub("a.c", "1"), pub("a.d", "2"),
        "UNSUB 9\r\n", "sub  b\t9 \r\n", "pub b 2\r\nhi\r\n", "SUB q g 10\r\nSUB q g 11\r\nUNSUB 11\r\n", pub("q", "1"),
        "PONG\r\n", "SUB a.b 4\r\n", pub("a.b", "w")],
    "max": ["SUB a 1\r\nUNSUB 1 2\r\n", pub("a", "1"), pub("a", "2"), pub("a", "3"), "SUB a 1\r\n", pub("a", "4"),
            "UNSUB 1 1\r\n", pub("a", "5"), "SUB a 1\r\n", pub("a", "6")],
    "responders": [INBOX, pub("nobody", "x", "_INBOX.q"), pub("nobody", "x", "other"), pub("nobody"),
                   "SUB yes 2\r\n", pub("yes", "", "_INBOX.q"), pub("_INBOX.z", "", "_INBOX.q")],
    "wide": [INBOX, "SUB * 2\r\n", "SUB a..b 3\r\n", "PING\r\n", "SUB a b c d\r\n", "PING\r\n"],
    "subjects": [INBOX, pub("a..b", "x"), pub("a.*", "x", "_INBOX.q"), pub("a.>", "x"), "PING\r\n"],
    "unknown": ["HELLO\r\n", "PING\r\n"],
    "malformed": ["PUB a x\r\n", "PING\r\n"],
    "missing": ["PUB a\r\n", "PING\r\n"],
    "break": ["PUB a 3\r\nabcdPING\r\n", "PING\r\n"],
    "headers": ["HPUB a 12 5\r\n", "PING\r\n"],
    "unheadered": ["SUB a 1\r\nHPUB a 5 8\r\nabcdexyz\r\n", "PING\r\n"],
    "plain": ['CONNECT {"verbose":false,"pedantic":false}\r\n', "SUB a.> 1\r\n", pub("a.*", "x"), pub("a..b", "x"),
              pub("a.b", "x", "_INBOX.q"), "SUB a..c 2\r\n", "SUB _INBOX.> 3\r\n", pub("nobody", "", "_INBOX.q"),
              "PING\r\n"],
    "verbose": ['CONNECT {"verbose":true,"echo":false}\r\n', "SUB a 1\r\n", pub("a", "x"), "UNSUB 1\r\n", "PING\r\n"],
    "large": ["PUB a 1048577\r\n", "PING\r\n"],
    "long": ["SUB " + "a" * 5000 + " 1\r\n", "PING\r\n"],
    "create": [
        INBOX, api("STREAM.CREATE.FB_1", SHARED), api("STREAM.CREATE.FB_1", SHARED),
        api("STREAM.CREATE.FB_1", {**SHARED, "max_msgs": 5}), api("STREAM.CREATE.FB_2", {**SHARED, "name": "FB_2"}),
        api("STREAM.CREATE.FB_3", SHARED), api("STREAM.CREATE.FB_3", "{"), api("STREAM.CREATE.FB_3", ""),
        api("STREAM.CREATE.FB_3", {"subjects": ["x"]}),
        api("STREAM.CREATE.FB_3", {"name": "a.b", "subjects": ["x"]}), stream("P", ["x"]), stream("Q", []),
        api("STREAM.CREATE.W", {"name": "W"}),
        stream("R", ["y"], num_replicas=3), stream("T", ["a..b"]), stream("U", ["u.*", "u.a"]), stream("V",
            ["$JS.API.>"]),
        stream("Y", ["q"], republish={"src": "q", "dest": "q"}), stream("Z", ["w"], max_bytes=10, discard="new",
            storage="memory"),
        stream("A1", ["a1"], max_age=1), stream("A2", ["a2"], duplicate_window=1), stream("A3", ["a3"], bogus=1),
        stream("A4", ["a4"], max_age=1000000000), stream("A5", ["a5"], max_age=1000000000, duplicate_window=2000000000),
        stream("A6", ["a6"], sealed=True), stream("A7", ["a7"], retention="x"), stream("A8", ["a8"], max_msgs="x"),
        stream("A9", ["a9"], num_replicas=0), stream("B1", ["b1"], num_replicas=6),
        stream("B2", ["b2"], republish={"src": "zz", "dest": "l"}), stream("B3", ["b3.*"], republish={"src": "b3.*",
            "dest": "l.{{wildcard(1)}}"}),
        stream("B4", ["b4"], metadata={"_nats.x": "y"}), stream("B5", [">"])],
    "names": [
        INBOX, api("STREAM.NAMES"), stream("B", ["b.*"]), stream("A", ["a.b", "c.>"]), api("STREAM.NAMES"),
        *[api("STREAM.NAMES", {"subject": s}) for s in ("b.x", "b.>", "c.x.y", "none", "*.b", "a.b", "c", ">")],
        api("STREAM.NAMES", {"offset": 1}), api("STREAM.NAMES", {"offset": 9}), api("STREAM.NAMES", "{"),
        api("STREAM.NAMES", {"subject": "a..b"}), api("STREAM.NAMES", {"subject": ""})],
    "list": [
        INBOX, api("STREAM.LIST"), api("STREAM.CREATE.FB_1", SHARED), stream("A", ["a.b", "c.>"]),
        ack("fb.p.-.t", "hello"), api("STREAM.LIST"),
        *[api("STREAM.LIST", {"subject": s}) for s in ("fb.p.>", "c.x", "none")],
        api("STREAM.LIST", {"offset": 1}), api("STREAM.LIST", {"offset": 9}), api("STREAM.LIST", "{")],
    "info": [
        INBOX, api("STREAM.CREATE.FB_1", SHARED), api("STREAM.INFO.FB_1"), ack("fb.p.-.t", "hello"), ack("fb.p.x.t",
            "hello2", A="b"),
        api("STREAM.INFO.FB_1"), api("STREAM.INFO.FB_2"), api("STREAM.INFO.FB_1", {"subjects_filter": ">"}),
        api("STREAM.INFO.FB_1", "{"), api("STREAM.INFO.a*"), api("STREAM.NOPE.FB_1"),
        pub("$JS.API.STREAM.INFO.FB_1"), pub("$JS.API.INFOS", "", "_INBOX.a")],
    "update": [
        INBOX, api("STREAM.UPDATE.FB_1", SHARED), api("STREAM.CREATE.FB_1", SHARED), ack("fb.p.-.t", "hello"),
        api("STREAM.UPDATE.FB_1", {**SHARED, "metadata": {"topic": "t", "end": "1"}}), "SUB fb.l.> 2\r\n",
        api("STREAM.UPDATE.FB_1", {k: v for k, v in SHARED.items() if k not in ("republish", "subjects")}),
        ack("fb.p.-.t", "gone"), api("STREAM.INFO.FB_1"),
        api("STREAM.UPDATE.FB_1", {k: v for k, v in SHARED.items() if k not in ("republish",)} | {"subjects": []}),
        api("STREAM.UPDATE.FB_1", {k: v for k,
            v in SHARED.items() if k not in ("republish",)} | {"subjects": ["fb.gone.1"]}),
        ack("fb.p.-.t", "gone"), api("STREAM.CREATE.FB_2", {**SHARED, "name": "FB_2"}), ack("fb.p.-.t", "new"),
        api("STREAM.UPDATE.FB_1", SHARED), api("STREAM.UPDATE.FB_1", {**SHARED, "name": "other"}),
        api("STREAM.UPDATE.FB_1", "{"),
        api("STREAM.UPDATE.FB_2", {**SHARED, "name": "FB_2", "storage": "memory"}),
        api("STREAM.UPDATE.FB_2", {**SHARED, "name": "FB_2", "num_replicas": 3}),
        api("STREAM.UPDATE.FB_2", {**SHARED, "name": "FB_2", "sealed": True, "metadata": {"end": "x"}}),
        ack("fb.p.-.t", "sealed"), ack("fb.p.-.t", "sealed", Nats_Expected_Stream="FB_2"), api("STREAM.INFO.FB_2"),
        api("STREAM.UPDATE.FB_2", {**SHARED, "name": "FB_2"}),
        api("STREAM.UPDATE.FB_2", {**SHARED, "name": "FB_2", "sealed": True, "metadata": {"end": "y"}}),
        api("STREAM.UPDATE.FB_2", {**SHARED, "name": "FB_2", "sealed": True, "metadata": {"end": "y"},
            "deny_delete": True, "deny_purge": True}),
        api("STREAM.MSG.DELETE.FB_2", {"seq": 1}), api("STREAM.PURGE.FB_2"), api("STREAM.DELETE.FB_2")],
    "delete": [
        INBOX, api("STREAM.DELETE.S"), stream("S", ["s.*"]), ack("s.a", "x"), api("STREAM.DELETE.S", "{}"), stream("S",
            ["s.*"]),
        api("STREAM.DELETE.S"), ack("s.a", "x"), api("STREAM.INFO.S")],
    "publish": [
        INBOX, "SUB s.> 2\r\n", stream("S", ["s.*"]), *FIVE, pub("s.a", "no reply"),
        ack("s.a", "m", Nats_Msg_Id="i1"), ack("s.b", "m", Nats_Msg_Id="i1"), ack("s.a", "m", Nats_Msg_Id="i2"),
        ack("s.a", "", Nats_Expected_Stream="T"), ack("s.a", "", Nats_Expected_Stream="S"),
        ack("s.a", "", Nats_Expected_Last_Sequence="3"), ack("s.a", "", Nats_Expected_Last_Sequence="9"),
        ack("s.a", "", Nats_Expected_Last_Subject_Sequence="3"), ack("s.a", "",
            Nats_Expected_Last_Subject_Sequence="10"),
        ack("s.new", "", Nats_Expected_Last_Subject_Sequence="1"), ack("s.new", "",
            Nats_Expected_Last_Subject_Sequence="0"),
        ack("s.new", "", Nats_Expected_Last_Subject_Sequence="x"), ack("s.new", "", Nats_Expected_Last_Sequence="x"),
        ack("s.a", "", Nats_Msg_Id="i1", Nats_Expected_Last_Sequence="1"),
        ack("s.a", "", Nats_Expected_Last_Msg_Id="i9"), ack("s.a", "", Nats_Msg_Id="i3"),
        ack("s.a", "", Nats_Expected_Last_Msg_Id="i3"),
        ack("s.a", "", Nats_Msg_Id=""), ack("s.a", "", nats_msg_id="i1"), ack("s.a", "", Nats_Msg_Id="i" * 200),
        api("STREAM.INFO.S")],
    "order": [
        INBOX, stream("S", ["s.*"]), ack("s.a", "m", Nats_Msg_Id="i1"),
        ack("s.a", "", Nats_Msg_Id="i1", Nats_Expected_Stream="T"),
        ack("s.a", "", Nats_Msg_Id="i1", Nats_Expected_Last_Subject_Sequence="9"),
        ack("s.a", "", Nats_Msg_Id="i2", Nats_Expected_Last_Subject_Sequence="9", Nats_Expected_Last_Sequence="8"),
        ack("s.a", "", Nats_Msg_Id="i2"), ack("s.a", "", Nats_Msg_Id="i2")],
    "limits": [
        INBOX, stream("S", ["s.*"], max_msgs=2), *FIVE, api("STREAM.INFO.S"), stream("N", ["n"], max_msgs=1,
            discard="new"),
        ack("n", "1"), ack("n", "2"), stream("Z", ["z"], max_msg_size=3), ack("z", "123"), ack("z", "1234"),
        ack("z", "1", A="b"), stream("B", ["b"], max_bytes=100), ack("b", "x" * 40), ack("b", "y" * 40),
        api("STREAM.INFO.B"),
        ack("b", "y" * 200), api("STREAM.INFO.B"), ack("b", "z"), api("STREAM.INFO.B"),
        stream("M", ["m"], max_bytes=100, discard="new"), ack("m", "x" * 80), ack("m", "y" * 80)],
    "mode": [INBOX, stream("S", ["s.*"], max_bytes=100, storage="memory"), *FIVE, api("STREAM.INFO.S")],
    "get": [
        INBOX, stream("S", ["s.*"]), *FIVE, *[api("STREAM.MSG.GET.S", r) for r in (
            {"seq": 1}, {"seq": 3}, {"seq": 4}, {"seq": 6}, {"seq": 0}, {}, {"last_by_subj": "s.a"},
            {"last_by_subj": "s.*"}, {"last_by_subj": "s.x"},
            {"next_by_subj": "s.b"}, {"next_by_subj": "s.b", "seq": 3}, {"next_by_subj": "s.b", "seq": 6},
            {"seq": 1, "last_by_subj": "s.a"}, {"next_by_subj": "s.b", "last_by_subj": "s.a"}, "{", "", {"seq": "x"},
                {"seq": -1},
            {"seq": 1, "no_hdr": True}, {"seq": 3, "no_hdr": True})],
        api("STREAM.MSG.GET.T", {"seq": 1}), api("STREAM.MSG.DELETE.S", {"seq": 2}), api("STREAM.MSG.GET.S",
            {"seq": 2}),
        api("STREAM.MSG.GET.S", {"next_by_subj": ">", "seq": 2}), api("STREAM.INFO.S")],
    "direct": [
        INBOX, stream("S", ["s.*"], allow_direct=True), stream("N", ["n"], allow_direct=False), *FIVE,
        *[api("DIRECT.GET.S", r) for r in (
            {"seq": 1}, {"seq": 3}, {"seq": 6}, {"seq": 0}, {}, {"last_by_subj": "s.a"}, {"last_by_subj": "s.x"},
            {"next_by_subj": "s.b", "seq": 3},
            {"seq": 1, "last_by_subj": "s.a"}, "{", "", {"seq": "x"},
            {"seq": 1, "batch": 2}, {"seq": 2, "batch": 10}, {"seq": 6, "batch": 3}, {"seq": 1, "batch": 5}, {"seq": 1,
                "batch": 0}, {"seq": 1, "batch": -1},
            {"seq": 1, "batch": 1}, {"batch": 2}, {"seq": 5, "batch": 1}, {"seq": 1, "max_bytes": 10},
            {"seq": 1, "batch": 5, "max_bytes": 1}, {"seq": 1, "batch": 5, "max_bytes": 50}, {"seq": 1, "batch": 5,
                "max_bytes": 100},
            {"seq": 1, "batch": 5, "max_bytes": 150}, *[{"seq": 1, "batch": 5, "max_bytes": n} for n in (6, 7, 12, 13,
                37, 38)],
            {"seq": 2, "batch": 2, "next_by_subj": "s.a"}, {"seq": 2, "batch": 2, "next_by_subj": "s.x"})],
        api("DIRECT.GET.N", {"seq": 1}), api("DIRECT.GET.X", {"seq": 1}), api("DIRECT.GET.S.s.b"),
        api("DIRECT.GET.S.s.x"),
        api("STREAM.MSG.DELETE.S", {"seq": 2}), api("DIRECT.GET.S", {"seq": 2}), api("DIRECT.GET.S", {"seq": 2,
            "batch": 2}),
        api("DIRECT.GET.S", {"seq": 1, "batch": 3}), pub("$JS.API.DIRECT.GET.S", {"seq": 1})],
    "empty": [INBOX, stream("S", ["s.*"], allow_direct=True), api("DIRECT.GET.S", {"seq": 1}), api("DIRECT.GET.S",
        {"seq": 1, "batch": 3}),
              api("STREAM.MSG.GET.S", {"seq": 1}), api("STREAM.MSG.GET.S", {"last_by_subj": "s.a"})],
    "erase": [INBOX, stream("S", ["s.*"], deny_delete=True), ack("s.a", "1"), api("STREAM.MSG.DELETE.S", {"seq": 1}),
              stream("T", ["t.*"]), ack("t.a", "1"), ack("t.a", "2"), api("STREAM.MSG.DELETE.T", {"seq": 9}),
              api("STREAM.MSG.DELETE.T", {"seq": 2}), api("STREAM.INFO.T"), api("STREAM.MSG.DELETE.T", {}),
              api("STREAM.PURGE.T"),
              api("STREAM.INFO.T"), ack("t.a", "3"), api("STREAM.PURGE.X"), api("STREAM.MSG.DELETE.T", "")],
    "republish": [
        INBOX, api("STREAM.CREATE.FB_1", SHARED), "SUB fb.l.> 2\r\nSUB fb.p.> 3\r\n", ack("fb.p.-.t", "1"),
        ack("fb.p.x.t", "2"),
        ack("fb.p.-.t", "3", Nats_Msg_Id="a", Nats_Expected_Stream="FB_1"), ack("fb.p.-.t", "4", Nats_Msg_Id="a"),
        ack("fb.p.x.t", "5", A="b"),
        ack("fb.p.y.t", "6", Nats_Stream="x", Nats_Expected_Last_Subject_Sequence="0"), api("DIRECT.GET.FB_1",
            {"seq": 1, "batch": 9}),
        api("STREAM.MSG.GET.FB_1", {"seq": 3}), "UNSUB 2\r\n", ack("fb.p.-.t", "7")],
    "headersonly": [
        INBOX, stream("S", ["s.*"], republish={"src": "s.*", "dest": "l.{{wildcard(1)}}", "headers_only": True}),
        "SUB l.> 2\r\n", ack("s.a", "1"), ack("s.b", "2", A="b"), stream("T", ["t.>"], republish={"src": "t.*",
            "dest": "k.>"}),
        stream("U", ["u.>"], republish={"dest": "k.>"}), "SUB k.> 3\r\n", ack("u.a", "1")],
}

# Cases for a cluster of three servers.
THREE = {"num_replicas": 3}
CLUSTERED: dict[str, list[str]] = {
    "replicated": [
        INBOX, stream("S", ["s.*"], **THREE, allow_direct=True, republish={"src": "s.*", "dest": "l.x"}),
        "SUB l.> 2\r\n",
        ack("s.a", "m", Nats_Msg_Id="i1"), ack("s.a", "", Nats_Msg_Id="i1", Nats_Expected_Stream="T"),
        ack("s.a", "", Nats_Msg_Id="i1"), ack("s.a", "", Nats_Msg_Id="i1", Nats_Expected_Last_Subject_Sequence="0"),
        ack("s.a", "", Nats_Msg_Id="i1", Nats_Expected_Last_Sequence="0"),
        ack("s.b", "", Nats_Expected_Last_Subject_Sequence="9", Nats_Expected_Last_Sequence="8"),
        ack("s.b", "", Nats_Expected_Last_Subject_Sequence="0", Nats_Expected_Last_Sequence="1"),
        ack("s.b", "", Nats_Expected_Last_Subject_Sequence="1"),
        api("STREAM.INFO.S"), stream("S2", ["s.*"], **THREE), stream("S", ["s.*"], **THREE), api("STREAM.NAMES",
            {"subject": "s.a"}),
        api("DIRECT.GET.S", {"seq": 1, "batch": 9}), api("STREAM.MSG.GET.S", {"seq": 9}), api("STREAM.INFO.Q"),
        api("STREAM.UPDATE.Q", {"name": "Q"}), api("STREAM.DELETE.Q"), api("STREAM.MSG.GET.Q", {"seq": 9}),
        api("DIRECT.GET.Q", {"seq": 1}),
        api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.*"], **THREE, "sealed": True}), ack("s.a", "x"), ack("s.a",
            "x", Nats_Msg_Id="i1"),
        api("STREAM.DELETE.S"), api("STREAM.NAMES")],
    "one-replica": [
        INBOX, stream("R", ["r"]), ack("r", "x", Nats_Msg_Id="a"), ack("r", "x", Nats_Msg_Id="a",
            Nats_Expected_Last_Subject_Sequence="0"),
        ack("r", "x", Nats_Msg_Id="a"), stream("R5", ["r5"], num_replicas=5)],
    "full": [
        INBOX, stream("S", ["s.*"], **THREE, max_msgs=2, discard="new"), *FIVE[:3], stream("Z", ["z"], **THREE,
            max_msg_size=3), ack("z", "1234")],
}


def operations(data: str) -> list[str]:
    """Splits what a server sent into operations, with sizes and times replaced, sorted by subscription."""
    found: list[tuple[int, str]] = []
    rest = data.encode()
    while rest:
        line, _, rest = rest.partition(b"\r\n")
        words = line.decode().split(" ")
        if words[0] not in ("MSG", "HMSG"):
            if words[0] not in ("INFO", "PING"):
                found.append((0, line.decode() + "\r\n"))
            continue
        body, rest = rest[:int(words[-1])], rest[int(words[-1]) + 2:]
        count = 2 if words[0] == "HMSG" else 1
        head = " ".join(words[:-count] + ["<size>"] * count)
        found.append((int(words[2]), f"{head}\r\n{body.decode()}\r\n"))
    return [CLUSTER.sub('"cluster":<cluster>,"ts"', TIME.sub("<time>", text)) for _, text in sorted(found,
        key=lambda pair: pair[0])]


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")


def free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def start(folder: Path, count: int) -> tuple[list[subprocess.Popen], int]:
    """One server or a cluster, and the port of the first server."""
    ports, routes = [free() for _ in range(count)], [free() for _ in range(count)]
    servers = []
    for index in range(count):
        text = (f'server_name: n{index + 1}\nlisten: "127.0.0.1:{ports[index]}"\nlog_file: "{folder}/log{index}"\n'
                f'jetstream {{ store_dir: "{folder}/store{index}" }}\n')
        if count > 1:
            urls = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
            text += f'cluster {{ name: C, listen: "127.0.0.1:{routes[index]}", routes: [{urls}] }}\n'
        file = folder / f"server{index}.conf"
        file.write_text(text)
        servers.append(subprocess.Popen([Path(sys.executable).with_name("nats-server"), "-c", file]))
    end = time.monotonic() + 30
    while True:
        assert time.monotonic() < end, "The servers did not start."
        try:
            if '"streams":null}' in Connection(ports[0]).ask(INBOX + api("STREAM.NAMES")):
                return servers, ports[0]
        except OSError:
            time.sleep(0.1)


class Connection:
    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.ask(CONNECT + "PING\r\n")

    def ask(self, data: str) -> str:
        """Sends, and returns what arrives until nothing has for a while, or the end."""
        received = b""
        self.socket.settimeout(QUIET)
        try:
            self.socket.sendall(data.encode())
            while part := self.socket.recv(1 << 20):
                received += part
            received += b"CLOSED\r\n"
        except TimeoutError:
            pass
        except OSError:
            received += b"CLOSED\r\n"
        return received.decode()


def record(cases: dict[str, list[str]], count: int) -> list[str]:
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        servers, port = start(Path(folder), count)
        try:
            for name, steps in cases.items():
                lines.append(f"= {name}")
                connection = Connection(port)
                for step in steps:
                    answers = operations(connection.ask(step))
                    lines += ["> " + escaped(step), *["< " + escaped(text) for text in answers]]
                    if "CLOSED\r\n" in answers:
                        break
                connection.socket.close()
                clean(port)
        finally:
            for server in servers:
                server.kill()
                server.wait()
    return lines


def clean(port: int) -> None:
    """Deletes all streams."""
    connection = Connection(port)
    listed = connection.ask(INBOX + api("STREAM.NAMES"))
    for name in json.loads(listed[listed.index("{"):listed.rindex("}") + 1])["streams"] or []:
        connection.ask(api(f"STREAM.DELETE.{name}"))
    connection.socket.close()


def main() -> None:
    lines = ["# Written by capture.py.", *record(CASES, 1), "# cluster", *record(CLUSTERED, 3)]
    (HERE / "captures.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
