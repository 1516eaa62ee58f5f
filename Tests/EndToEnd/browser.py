"""A headless Chromium that shows the test's pages, and a server between it and the broker. The server serves the pages
and forwards everything else byte by byte, so that the browser sees a single origin.

A page reports what it sees by `report`, which posts it to a second server. The browser's debugging interface is not
used.
"""

import http.server
import json
import math
import os
import queue
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

from common import DEADLINE

# A script for pages: reports reach the test in order, several at a time.
TELL = """<!doctype html><meta charset="utf-8"><script>
const waiting = [];
let posting = false;
const report = async (what) => {
  waiting.push(what);
  if (posting) return;
  posting = true;
  while (waiting.length) {
    await fetch("REPORTS", { method: "POST", mode: "no-cors", body: JSON.stringify(waiting.splice(0)) });
  }
  posting = false;
};
</script>"""


class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """A connection cut by the browser is not an error."""


class Reports:
    """Receives the reports of pages."""

    def __init__(self):
        told = self._told = queue.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                for one in json.loads(self.rfile.read(int(self.headers["content-length"]))):
                    told.put(one)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d/" % self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def next(self, timeout=DEADLINE):
        return self._told.get(timeout=timeout)

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Passage:
    """Serves `pages` and forwards other requests to the broker: all bytes of a connection whose first request is not
    for a page. Event streams are cut after the numbers of body bytes in `cuts`, one number per connection; None cuts
    before the response. Later connections are not cut. There is no cut within a response head: a browser takes a
    truncated head for a complete one, and then reports an error and does not reconnect."""

    def __init__(self, broker, pages: dict[str, str], cuts=()):
        self.broker, self.pages, self.cuts = broker, pages, list(cuts)
        pages["/favicon.ico"] = ""  # Otherwise the icon's connection may later carry an event stream.
        self.resumed = []  # The Last-Event-ID of each request for an event stream, or None.
        self.lasting = 0  # The number of streams that are not cut.
        self._sockets, self._lock = [], threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.origin = "http://127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        with self._lock:
            for one in (self._listener, *self._sockets):
                end(one)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._sockets.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket):
        head = b""
        while b"\r\n\r\n" not in head:
            try:
                more = client.recv(1 << 16)
            except OSError:
                more = b""
            if not more:
                return end(client)
            head += more
        path = head.split(b" ", 2)[1].decode().partition("?")[0]
        if path in self.pages:
            body = self.pages[path].encode()
            client.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n"
                           b"content-length: %d\r\n\r\n" % len(body) + body)
            return end(client)
        try:
            upstream = socket.create_connection(self.broker.http)
            with self._lock:
                self._sockets.append(upstream)
            upstream.sendall(self._seen(head))
        except OSError:
            return end(client)
        threading.Thread(target=self._up, args=(client, upstream), daemon=True).start()
        self._down(client, upstream, streams=b"accept: text/event-stream" in head.lower())

    def _up(self, client: socket.socket, upstream: socket.socket):
        try:
            while more := client.recv(1 << 16):
                upstream.sendall(self._seen(more))
        except OSError:
            pass
        end(upstream)

    def _down(self, client: socket.socket, upstream: socket.socket, streams: bool):
        cut = self.cuts.pop(0) if streams and self.cuts else math.inf
        self.lasting += streams and cut == math.inf
        head, body = b"", 0
        try:
            while cut is not None and body < cut and (more := upstream.recv(1 << 16)):
                if b"\r\n\r\n" not in head:
                    head += more
                    if b"\r\n\r\n" not in head:
                        continue
                    head, _, more = head.partition(b"\r\n\r\n")
                    head += b"\r\n\r\n"
                    client.sendall(head)
                client.sendall(more[: min(len(more), cut - body)])
                body += len(more)
        except OSError:
            pass
        end(client)
        end(upstream)

    def _seen(self, request: bytes) -> bytes:
        """Notes a request, which a browser sends in one piece."""
        lines = request.decode("latin-1").split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        if fields.get("accept") == "text/event-stream":
            self.resumed.append(fields.get("last-event-id"))
        return request


def end(one: socket.socket):
    """Ends both directions at once, also for a thread that is reading or writing."""
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # Already closed.
    one.close()


class Browser:
    """Shows a page until it is closed."""

    FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-extensions", "--disable-background-networking", "--disable-component-update",
             "--no-proxy-server",
             "--remote-debugging-port=0"]  # Unused; keeps Chromium running after the load.

    def __init__(self, url: str):
        program = shutil.which("chromium")
        assert program, "There is no chromium: run `make deps`, or install Debian's package of that name."
        self._profile = tempfile.mkdtemp(prefix="forebay-chromium-")
        self._process = subprocess.Popen([program, *self.FLAGS, f"--user-data-dir={self._profile}", url],
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, start_new_session=True)

    def close(self):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)
