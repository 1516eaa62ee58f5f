"""Realistic load for a broker: three topics with publishers and 200 subscriptions. Five subscriptions receive nothing
more: four clients stop requesting, one stops reading. For tests, and for people who want something to look at:

    python Tests/EndToEnd/crowd.py 127.0.0.1:7690
"""

import socket
import struct
import sys
import threading

import raw

TOPICS = ["orders.eu", "prices.fx", "telemetry"]
SUBSCRIPTIONS, STALLED = 200, 5


class Crowd:
    """`stalled` lists the slow subscriptions, as (topic, what its messages wait for)."""

    def __init__(self, address, rate=50):
        self._stop, self._threads, self._sockets = threading.Event(), [], []
        self.stalled = []
        for number in range(STALLED - 1):
            topic = TOPICS[number % len(TOPICS)]
            one = self._open(address)
            one.sendall(self._subscribe(1, topic + "?buffer=20", 3))
            self.stalled.append((topic, "credit"))
            self._thread(self._read, one)
        # This client requests without limit and never reads: first the kernel's buffers fill, then the broker's output.
        deaf = self._open(address, receive=4096)
        deaf.sendall(self._subscribe(1, TOPICS[0] + "?buffer=50", raw.UNBOUNDED))
        self.stalled.append((TOPICS[0], "socket"))
        left = SUBSCRIPTIONS - STALLED
        while left > 0:
            one = self._open(address)
            for number in range(min(5, left)):
                topic = TOPICS[(left + number) % len(TOPICS)]
                n = raw.UNBOUNDED if number % 2 else 1_000_000
                one.sendall(self._subscribe(1 + 2 * number, topic, n))
            left -= min(5, left)
            self._thread(self._read, one)
        for number, topic in enumerate(TOPICS):
            one = self._open(address)
            self._thread(self._read, one)
            # Messages on the first topic are large enough to fill the buffers of the client that does not read at once.
            self._thread(self._publish, one, topic, rate * (3 - number), 6000 if number == 0 else 120)

    def _open(self, address, receive=0):
        one = socket.socket()
        if receive:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        one.connect(address)
        one.sendall(raw.setup())
        self._sockets.append(one)
        return one

    @staticmethod
    def _subscribe(stream, path, n):
        return raw.request(raw.REQUEST_STREAM, stream, metadata=raw.route(path), n=n)

    def _thread(self, body, *arguments):
        thread = threading.Thread(target=body, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _read(self, one):
        """Reads everything and ignores it, except for the broker's keepalives."""
        rest = b""
        try:
            while data := one.recv(1 << 18):
                rest += data
                while len(rest) >= 3:
                    length = int.from_bytes(rest[:3], "big")
                    if len(rest) < 3 + length:
                        break
                    frame, rest = rest[3:3 + length], rest[3 + length:]
                    stream, kind = struct.unpack_from(">IH", frame)
                    if stream == 0 and kind >> 10 == 3 and kind & 0x80:
                        one.sendall(raw.keepalive(frame[14:], respond=False))
        except OSError:
            pass

    def _publish(self, one, topic, rate, size):
        stream = 1
        try:
            while not self._stop.wait(0.1):
                for _ in range(max(1, rate // 10)):
                    one.sendall(raw.request(raw.REQUEST_FNF, stream, b"x" * size, raw.route(topic)))
                    stream += 2
        except OSError:
            pass

    def close(self):
        self._stop.set()
        for one in self._sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()
        for thread in self._threads:
            thread.join(5)


if __name__ == "__main__":
    host, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7690").rsplit(":", 1)
    crowd = Crowd((host, int(port)))
    print("stalled:", crowd.stalled)
    threading.Event().wait()
