"""HTTP/1.1 over plain sockets: valid and invalid requests, and responses as they arrive."""

import json
import socket
import time

import tls
from common import DEADLINE
from curl import head, path

HOST = b"Host: localhost\r\n"
GET = b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n"


def get(topic: str, query="", more=b"", method="GET") -> bytes:
    return f"{method} {path(topic, query)} HTTP/1.1\r\n".encode() + HOST + more + b"\r\n"


def post(topic: str, body=b"", more=b"") -> bytes:
    return get(topic, "", more + b"Content-Length: %d\r\n" % len(body), "POST") + body


class Line:
    """A socket on which HTTP/1.1 responses are read."""

    def __init__(self, address, receive_buffer=0):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(address)
        self.socket = tls.wrap(self.socket, address, "http/1.1")
        self.input = self.socket.makefile("rb")

    def send(self, *parts: bytes):
        for part in parts:
            self.socket.sendall(part)

    def head(self) -> tuple[int, dict]:
        text = b""
        while not text.endswith(b"\r\n\r\n"):
            line = self.input.readline()
            assert line, f"the connection ended within a head: {text}"
            text += line
        status, self.headers, version = head(text[:-4])
        assert version == "HTTP/1.1"
        return status, self.headers

    def answer(self, bodiless=False) -> tuple[int, bytes]:
        status, headers = self.head()
        if bodiless or status in (100, 204):
            return status, b""
        if headers.get("transfer-encoding") == "chunked":
            return status, b"".join(iter(self.chunk, b""))
        return status, self.input.read(int(headers["content-length"]))

    def chunk(self) -> bytes:
        """Reads a chunk; b"" after the last one."""
        count = int(self.input.readline(), 16)
        data = self.input.read(count)
        assert self.input.read(2) == b"\r\n"
        return data

    def until(self, text: bytes) -> bytes:
        """The chunks of a stream, up to the one with `text`."""
        got = b""
        while text not in got:
            chunk = self.chunk()
            assert chunk, f"the end after {got}"
            got += chunk
        return got

    def over(self, timeout=DEADLINE) -> float:
        """Waits for the connection's end and returns how long that took."""
        began = time.monotonic()
        self.socket.settimeout(timeout)
        try:
            rest = self.input.read()
        except ConnectionResetError:
            rest = b""
        assert rest == b"", rest
        return time.monotonic() - began

    def close(self):
        self.input.close()
        self.socket.close()


def problem(answer: tuple[int, bytes]) -> tuple[int, str]:
    told = json.loads(answer[1])
    assert told["status"] == answer[0] and told["detail"].endswith(".")
    return answer[0], told["type"].removeprefix("/problems/")
