"""Protocol/rsocket.md, control.md and reference.md are correct: their bytes are complete frames, and a broker takes
part in the conversation that runs through them as documented.

The blocks are parsed here independently, so that neither the documents nor the tests depend on the builder that the
other tests use.
"""

import contextlib
import re
import socket
from collections import defaultdict
from pathlib import Path

import pytest

from access import password_hash, write
from curl import NDJSON, path

PROTOCOL = Path(__file__).resolve().parents[2] / "Protocol"
# In the order of the conversation.
DOCUMENTS = [PROTOCOL / name for name in ("rsocket.md", "control.md", "reference.md")]
LOGIN = "frames client with a login"
BLOCK = re.compile(
    rf"^```({LOGIN}|frames client|frames broker example|frames broker|entries)"
    r"(?: (?:of a|on the) (second|third) connection)?\n(.*?)^```$", re.M | re.S)
MIMES = re.compile(r"^\| `(0x..)`(?:–`(0x..)`)? \| `([a-z./]*)`:?(.*) \|$", re.M)
TOKEN = re.compile(r'"([^"]*)"|([0-9a-f]{2})(?![0-9a-f])|(;.*)|\s+')
METADATA, FOLLOWS, COMPLETE, NEXT = 0x100, 0x80, 0x40, 0x20
COMPOSITE_MIME = b"message/x.rsocket.composite-metadata.v0"
SETUP, KEEPALIVE, REQUEST_STREAM, REQUEST_CHANNEL, REQUEST_N, CANCEL, PAYLOAD, ERROR = 1, 3, 6, 7, 8, 9, 10, 11
RESUME, RESUME_OK = 13, 14
KNOWN_TYPES = {1, 3, 4, 5, 6, 7, 8, 9, 10, 11, RESUME, RESUME_OK}
RESUMES = 0x80
DATA_MIME, AUTHENTICATION = 0x7A, 0x7C
DEADLINE = 10.0


class Block:
    """The bytes of one block, and which of them the broker chooses."""

    def __init__(self, kind: str, text: str, connection: str = ""):
        self.kind, self.connection, self.data, self.free = kind, connection, bytearray(), set()
        for line in text.splitlines():
            start, position = len(self.data), 0
            while position < len(line):
                token = TOKEN.match(line, position)
                assert token, f"not hexadecimal, text or a comment: {line!r}"
                position = token.end()
                if token[1] is not None:
                    self.data += token[1].encode()
                elif token[2]:
                    self.data += bytes.fromhex(token[2])
            if "yours will differ" in line:
                self.free.update(range(start, len(self.data)))

    def frames(self) -> list[tuple[bytes, set[int]]]:
        """Each frame without its length, with the places in it that the broker chooses."""
        found, at = [], 0
        while at < len(self.data):
            length = int.from_bytes(self.data[at : at + 3], "big")
            at += 3
            assert at + length <= len(self.data), "the length exceeds the block"
            found.append((bytes(self.data[at : at + length]), {i - at for i in self.free if at <= i < at + length}))
            at += length
        return found


def blocks() -> list[Block]:
    texts = [document.read_text() for document in DOCUMENTS]
    assert sum(text.count("\n```frames") + text.count("\n```entries") for text in texts) == sum(
        len(BLOCK.findall(text)) for text in texts), "a block is not recognized"
    return [Block(kind, text, connection) for text in texts for kind, connection, text in BLOCK.findall(text)]


def entries(metadata: bytes) -> list[tuple[bytes | int, bytes]]:
    """The entries of composite metadata, each with its mime: a name or the id of a well-known one."""
    found, at = [], 0
    while at < len(metadata):
        head = metadata[at]
        at += 1
        if head & 0x80:
            mime = head & 0x7F
        else:
            mime, at = metadata[at : at + head + 1], at + head + 1
        length = int.from_bytes(metadata[at : at + 3], "big")
        at += 3 + length
        assert at <= len(metadata), "an entry is longer than the metadata"
        found.append((mime, metadata[at - length : at]))
    return found


def check_frame(frame: bytes) -> None:
    assert len(frame) >= 6
    stream, kind = int.from_bytes(frame[:4], "big"), frame[4] >> 2
    flags = int.from_bytes(frame[4:6], "big") & 0x3FF
    body = frame[6:]
    assert kind in KNOWN_TYPES
    assert (stream == 0) == (kind in (SETUP, KEEPALIVE, RESUME, RESUME_OK))
    if kind in (RESUME, RESUME_OK):
        token = int.from_bytes(body[4:6], "big") + 14 if kind == RESUME else 0
        assert len(body) == 8 + token
        return
    if kind == SETUP:
        if flags & RESUMES:
            token = int.from_bytes(body[12:14], "big")
            body = body[:12] + body[14 + token :]
        first = body[12]
        mime, rest = body[13 : 13 + first], body[13 + first :]
        assert body[:4] == b"\0\1\0\0" and mime == COMPOSITE_MIME
        metadata = rest[1 + rest[0] :]
        assert bool(metadata) == bool(flags & METADATA)
        if metadata:
            assert int.from_bytes(metadata[:3], "big") == len(metadata) - 3
            [(mime, content)] = entries(metadata[3:])
            assert mime == AUTHENTICATION and content[0] == 0x80
            assert 0 < int.from_bytes(content[1:3], "big") < len(content) - 3
        return
    if kind in (REQUEST_STREAM, REQUEST_CHANNEL):
        body = body[4:]
    if kind in (REQUEST_N, CANCEL):
        assert len(body) == (4 if kind == REQUEST_N else 0)
    elif kind == ERROR:
        assert int.from_bytes(body[:4], "big") in (0x201, 0x202, 0x204) and body[4:].decode()
    elif kind != KEEPALIVE and flags & METADATA:
        length = int.from_bytes(body[:3], "big")
        assert 0 < length <= len(body) - 3 and entries(body[3 : 3 + length])
    if kind == PAYLOAD:
        assert flags & (NEXT | COMPLETE)


def test_every_block_holds_whole_frames():
    found = blocks()
    assert {block.kind for block in found} == {
        LOGIN, "frames client", "frames broker", "frames broker example", "entries"}
    for block in found:
        if block.kind == "entries":
            [(mime, content)] = entries(bytes(block.data))
            if mime == DATA_MIME:
                assert content[0] + 2 == len(content)
            elif mime == b"application/vnd.forebay.duplicate":
                assert content == b""
            else:
                assert mime == 0x7E and len(content.split(b"=")) == 4
            continue
        assert block.frames()
        for frame, _ in block.frames():
            check_frame(frame)


def test_client_streams_are_odd_and_rise():
    last, connection = -1, ""
    for block in blocks():
        if block.connection and block.connection != connection:
            last, connection = -1, block.connection
        for frame, _ in block.frames() if block.kind == "frames client" else []:
            stream, kind = int.from_bytes(frame[:4], "big"), frame[4] >> 2
            if 4 <= kind <= 7:
                assert stream % 2 == 1 and stream > last
                last = stream


@pytest.mark.parametrize("line", ['00 0g ; not hexadecimal', '"no end', "0000 0"])
def test_the_parser_refuses_what_is_no_bytes(line):
    with pytest.raises(AssertionError):
        Block("frames client", line)


def read(line: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        more = line.recv(count - len(got))
        assert more, "the connection ended, but more was expected"
        got += more
    return got


def test_a_broker_answers_as_the_document_says(broker):
    """The client's blocks are sent; each stream then receives what the document shows for it, in order."""
    told, expected, lines = defaultdict(list), defaultdict(list), {}
    with contextlib.ExitStack() as stack:
        for block in blocks():
            if block.kind in ("entries", LOGIN):
                continue
            if block.connection not in lines:
                if block.connection == "third":  # The second connection breaks.
                    lines["second"].close()
                lines[block.connection] = stack.enter_context(socket.create_connection(broker.address, DEADLINE))
            if block.kind == "frames client":
                lines[block.connection].sendall(block.data)
                continue
            here = block.connection
            for frame, free in block.frames():
                expected[here, frame[:4]].append((frame, free, block.kind.endswith("example")))
            while any(len(told[stream]) < len(expected[stream]) for stream in expected):
                frame = read(lines[here], int.from_bytes(read(lines[here], 3), "big"))
                told[here, frame[:4]].append(frame)
    for stream, frames in expected.items():
        for (shown, free, is_example), came in zip(frames, told[stream], strict=True):
            if is_example or shown[4] >> 2 == ERROR:
                shown, came = shown[:10], came[:10]  # The texts of errors are not part of the protocol.
            mask = [i for i in range(len(shown)) if i not in free]
            assert len(came) == len(shown) and all(came[i] == shown[i] for i in mask), (shown, came)


@pytest.mark.rsocket
def test_a_content_type_is_laid_out_as_the_document_shows_it(a, topic, curl):
    shown = [entry for block in blocks() if block.kind == "entries" for entry in entries(bytes(block.data))]
    [entry] = [entry for entry in shown if entry[0] == DATA_MIME]
    a.publish(topic, b"x", extra=[entry])
    (told,) = curl.stream(path(topic, "replay=1"), *NDJSON).objects(1)
    assert told["content_type"] == entry[1][1:].decode() and "headers" not in told


@pytest.mark.rsocket
def test_well_known_mimes_have_the_ids_of_the_document(a, topic, curl):
    shown = {}
    for first, last, prefix, names in MIMES.findall((PROTOCOL / "reference.md").read_text()):
        ids = range(int(first, 16), int(last or first, 16) + 1)
        names = re.findall("`(.*?)`", names) or [""]
        shown |= {one: prefix + name for one, name in zip(ids, names, strict=True)}
    for one in shown:
        a.publish(topic, b"x", extra=[(DATA_MIME, bytes([0x80 | one]))])
    told = curl.stream(path(topic, "replay=all"), *NDJSON).objects(len(shown))
    assert len(shown) > 40 and [one["content_type"] for one in told] == list(shown.values())


def test_credentials_are_laid_out_as_the_document_shows_them(start, tmp_path):
    """The SETUP with a login is accepted, as the reply to a KEEPALIVE right after it shows."""
    [setup] = [bytes(block.data) for block in blocks() if block.kind == LOGIN]
    alive = bytes(4) + b"\x0c\x80" + bytes(8)
    user = {"name": "alice", "password": password_hash(start.executable(), "secret"), "subscribe": [">"]}
    broker = start("-c", str(write(tmp_path, {"users": [user]})))
    with socket.create_connection(broker.address, DEADLINE) as line:
        line.sendall(setup + len(alive).to_bytes(3, "big") + alive)
        answer = read(line, int.from_bytes(read(line, 3), "big"))
        assert answer[4] >> 2 == KEEPALIVE, answer
    broker.stop()
