"""A minimal grpcio server of forebay.v1.PubSub.Subscribe, which `make bench` measures for comparison with the broker.

It does the minimum that a broker does: every message of one publisher goes to every subscriber. The publisher is a TCP
connection that carries only payloads of one size, so that reading them costs next to nothing. A response is built once
for all subscribers; grpcio serializes and sends it for each of them. Demand is ignored, and only messages that the
slowest subscriber has yet to receive are kept.

    python grpcio_server.py PORT PUBLISHER_PORT PAYLOAD [PER_RESPONSE [PROTO_ROOT]]
    python grpcio_server.py --version

PER_RESPONSE is the maximum number of messages in one response; a typical server sends each message in its own response
as it arrives. The server uses asyncio because that is faster here: with a thread per subscriber it took a quarter more
CPU time.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

# Set before grpc is imported: its start-up messages are not errors.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc

EPOCH = 1


class Topic:
    """Published messages that some subscriber has yet to receive."""

    def __init__(self, messages, per_response: int):
        self.messages = messages
        self.per_response = per_response
        self.subscribers: set[asyncio.Queue] = set()
        self.sequence = 0

    def publish(self, payloads: list[bytes]) -> None:
        for first in range(0, len(payloads), self.per_response):
            response = self.messages.SubscribeResponse(outstanding_credit=0x7FFFFFFF, epoch=EPOCH)
            for payload in payloads[first : first + self.per_response]:
                self.sequence += 1
                response.messages.add(sequence=self.sequence, payload=payload, timestamp_ns=time.time_ns())
            for subscriber in self.subscribers:
                subscriber.put_nowait(response)


class Payloads(asyncio.Protocol):
    """The publisher's connection."""

    def __init__(self, topic: Topic, size: int):
        self.topic = topic
        self.size = size
        self.rest = b""

    def data_received(self, data: bytes) -> None:
        data = self.rest + data
        whole = len(data) - len(data) % self.size
        self.rest = data[whole:]
        self.topic.publish([data[start : start + self.size] for start in range(0, whole, self.size)])


async def serve(port: int, publisher_port: int, size: int, per_response: int, root: Path) -> None:
    sys.path.append(str(root))
    messages, services = grpc.protos_and_services("forebay/v1/forebay.proto")
    topic = Topic(messages, per_response)

    class PubSub(services.PubSubServicer):
        async def Subscribe(self, requests, context):
            await anext(aiter(requests))
            queue = asyncio.Queue()
            topic.subscribers.add(queue)
            try:
                yield messages.SubscribeResponse(epoch=EPOCH)
                while True:
                    yield await queue.get()
            finally:
                topic.subscribers.discard(queue)

    server = grpc.aio.server()
    services.add_PubSubServicer_to_server(PubSub(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Payloads(topic, size), "127.0.0.1", publisher_port)
    await server.wait_for_termination()


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        print(f"grpcio {grpc.__version__}, Python {sys.version.split()[0]}")
        return
    port, publisher_port, size, per_response = map(int, [*sys.argv[1:4], *(sys.argv[4:5] or ["1"])])
    root = Path(sys.argv[5]) if len(sys.argv) > 5 else Path(__file__).resolve().parent.parent / "Protocol"
    asyncio.run(serve(port, publisher_port, size, per_response, root))


main()
