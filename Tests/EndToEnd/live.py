"""A publisher that continues whatever happens to its readers."""

import threading

from common import *

AHEAD = 500  # How far the publisher may be ahead of the reader: within the 1,024 messages that a topic retains.


class Publisher:
    """Publishes until it is stopped, then completes the topic. The reader sets `read` to the number of messages
    read."""

    def __init__(self, peer: Observer, topic: str, pace=0.002):
        self.peer, self.topic, self.sent, self.read, self.pace = peer, topic, [], 0, pace
        self._stopped, self._error = threading.Event(), None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return not self._stopped.is_set()

    def stop(self):
        self._stopped.set()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive() and self._error is None, self._error

    def _run(self):
        try:
            while not self._stopped.wait(self.pace):
                if len(self.sent) - self.read < AHEAD:
                    more = [self._payload(len(self.sent) + i) for i in range(1, 6)]
                    self.sent += more
                    assert self.peer.publish(self.topic, *more)[-1] == len(self.sent)
            self.peer.control("$SYS.topic.complete", name=self.topic)
        except Exception as error:
            self._error = error

    @staticmethod
    def _payload(i: int) -> bytes:
        """The data of a message: one line, several, none, or bytes that are not text; short and long."""
        return b"%d" % i + (b"", b"\n\nid: 1-1\n", b" " * (i % 3000), b"\xff\r\n", "å–😀".encode() * (i % 50))[i % 5]
