"""Many messages of one size over plain sockets: frames are built and checked in bulk."""

import socket
import struct

import raw

HEADER = 9  # Bytes of a PAYLOAD's header without metadata, including the length field.


class Batch:
    """`count` PAYLOAD frames for one stream in one buffer; each message begins with its number."""

    def __init__(self, stream: int, size: int, count: int):
        self.stride, self.count = HEADER + size, count
        self.frames = bytearray(raw.payload(stream, bytes(size)) * count)
        self.view = memoryview(self.frames)

    def numbered(self, first: int, count: int) -> memoryview:
        """The first `count` frames, numbered from `first`."""
        for i in range(count):
            struct.pack_into(">Q", self.frames, i * self.stride + HEADER, first + i)
        return self.view[: count * self.stride]


class Frames:
    """Reads PAYLOAD frames of one size from a non-blocking socket: (stream, number) of each."""

    def __init__(self, connection: socket.socket, size: int):
        self.socket, self.stride = connection, HEADER + size
        self.form = struct.Struct(f">3xIHQ{size - 8}x")
        self.buffer, self.held = bytearray(1 << 20), 0
        self.view = memoryview(self.buffer)
        self.lengths = raw.u24(self.stride - 3)

    def read(self):
        """The frames of one read of the socket; none if there is nothing to read."""
        try:
            count = self.socket.recv_into(self.view[self.held :])
        except BlockingIOError:
            return
        if count == 0:
            raise ConnectionError("the broker closed the connection")
        self.held += count
        whole = self.held - self.held % self.stride
        for at in range(0, whole, self.stride):
            if self.buffer[at : at + 3] != self.lengths:
                raise AssertionError(f"not a frame of {self.stride}: {bytes(self.buffer[at : at + 80])}")
        for stream, word, number in self.form.iter_unpack(self.view[:whole]):
            assert word == raw.PAYLOAD << 10 | raw.N, f"not a PAYLOAD with only N: {word:#x} on stream {stream}"
            yield stream, number
        self.buffer[: self.held - whole] = self.buffer[whole : self.held]
        self.held -= whole


class Line:
    """The other direction: bytes that are sent as the socket accepts them."""

    def __init__(self, connection: socket.socket):
        self.socket, self.left = connection, memoryview(b"")

    @property
    def idle(self) -> bool:
        return not self.left

    def send(self, frames):
        assert self.idle
        self.left = memoryview(frames)
        self.flush()

    def flush(self):
        try:
            while self.left:
                self.left = self.left[self.socket.send(self.left) :]
        except BlockingIOError:
            pass
