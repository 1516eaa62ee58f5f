"""A network that is slow, lossy, and cut: a proxy between a client and a broker. Users of TCP see a loss as the delay
of a retransmission, so that is how the proxy simulates losses. When the network is cut, data in flight is lost."""

import asyncio
import contextlib
import random
import socket
import struct
import sys
import threading

import tls

PIECE = 8 << 10
RETRANSMISSION = 0.2  # Seconds: the minimum that Linux waits before it retransmits.


class Proxy:
    """`delay` and `jitter` are seconds each way. In each direction, one in `loss` pieces is delayed by a
    retransmission; `lost` counts these pieces. `place` is (direction, count): after `count` bytes "in" (to the client)
    or "out", the first connection ends for both sides, with a reset if `count` is odd."""

    def __init__(self, address, delay=0.0, jitter=0.0, loss=0, place=(None, 0)):
        self.to, self.delay, self.jitter, self.loss, self.place = address, delay, jitter, loss, place
        self.connections = 0
        self.bytes, self.lost = {"in": 0, "out": 0}, {"in": 0, "out": 0}  # Over all connections.
        self._dice, self._transports = random.Random(7), set()
        self._loop, self._started = asyncio.new_event_loop(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._started.wait()

    def cut(self):
        """Cuts all connections, with a reset to both sides."""
        self._call(self._abort)

    def hold(self):
        """From now on, lets nothing through, without notifying either side."""
        self._call(self._open.clear)

    def release(self):
        self._call(self._open.set)

    def close(self):
        self._call(self._abort)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _call(self, body):
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (body(), done.set()))
        done.wait()

    def _abort(self):
        for transport in self._transports:
            transport.abort()
        self._transports.clear()

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._started.set()
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _start(self):
        self._open = asyncio.Event()
        self._open.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()
        # The port may have been used by a broker.
        (tls.secured.add if self.to[1] in tls.secured else tls.secured.discard)(self.address[1])

    async def _accept(self, *client):
        try:
            server = await asyncio.open_connection(*self.to)
        except OSError:  # Nobody listens there now.
            return client[1].transport.abort()
        self.connections += 1
        for _, writer in (client, server):
            own = writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._transports.add(writer.transport)
        direction, count = self.place if self.connections == 1 else (None, 0)
        most = {one: count if one == direction else sys.maxsize for one in self.bytes}
        writers = client[1], server[1]
        with contextlib.suppress(asyncio.CancelledError):  # The proxy was closed.
            await asyncio.gather(self._carry("out", client[0], server[1], most["out"], writers),
                                 self._carry("in", server[0], client[1], most["in"], writers))

    async def _carry(self, direction, reader, writer, most, writers):
        pieces = asyncio.Queue(64)
        await asyncio.gather(self._take(direction, reader, pieces, most), self._give(pieces, writer, writers))

    async def _take(self, direction, reader, pieces, most):
        due, taken = 0.0, 0
        while True:
            try:
                piece = await reader.read(min(PIECE, most)) if most else None
            except OSError:
                piece = b""
            self.bytes[direction] += len(piece or b"")
            most -= len(piece or b"")
            late = self.delay + self._dice.random() * self.jitter
            taken += 1
            if self.loss and taken % self.loss == 0:
                late += RETRANSMISSION
                self.lost[direction] += 1
            due = max(due, self._loop.time() + late)  # In order, as TCP delivers it.
            await pieces.put((due, piece))
            if not piece:
                return

    def _cut_at_place(self, writers):
        for writer in writers:
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", self.place[1] % 2, 0))
            writer.transport.close()

    async def _give(self, pieces, writer, writers):
        while True:
            due, piece = await pieces.get()
            if (early := due - self._loop.time()) > 0:
                await asyncio.sleep(early)
            await self._open.wait()
            if piece is None:
                return self._cut_at_place(writers)
            if not piece:
                return writer.transport.abort()
            if writer.transport.is_closing():
                continue  # The other direction notices.
            writer.write(piece)
            try:
                await writer.drain()
            except OSError:
                pass
