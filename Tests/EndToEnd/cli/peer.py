"""A small publish/subscribe server on rsocket-py, for tests of the command line.

It implements the routes and metadata of the wire profile with an independent codec, honors credit, and logs clients'
requests, one JSON object per line on stdout. It first prints its port. It is a counterpart for tests, not a second
broker: it has one overflow policy (drop-oldest) and no limits.
"""
import asyncio
import json
import struct
import sys
import time
from urllib.parse import unquote

from reactivestreams.publisher import Publisher
from reactivestreams.subscriber import DefaultSubscriber
from reactivestreams.subscription import Subscription
from rsocket.error_codes import ErrorCode
from rsocket.exceptions import RSocketProtocolError
from rsocket.extensions.composite_metadata import CompositeMetadata
from rsocket.extensions.routing import RoutingMetadata
from rsocket.helpers import create_future
from rsocket.payload import Payload
from rsocket.request_handler import BaseRequestHandler
from rsocket.rsocket_server import RSocketServer
from rsocket.transports.tcp import TransportTCP

EPOCH = 1234567890123456789
UNBOUNDED = 0x7FFFFFFF
topics = {}
subscriptions = []


def log(**fields):
    print(json.dumps(fields), flush=True)


def refuse(code, text):
    return RSocketProtocolError(code, data=text)


def parse(payload):
    metadata = CompositeMetadata()
    metadata.parse(payload.metadata or b'')
    tags = [bytes(t).decode() for item in metadata.items if isinstance(item, RoutingMetadata) for t in item.tags]
    name, _, query = tags[0].partition('?')
    pairs = [p for p in query.split('&') if p] + tags[1:]
    return name, {k: unquote(v) for k, _, v in (p.partition('=') for p in pairs)}, tags


class Topic:
    def __init__(self, name):
        self.name, self.log, self.next, self.state, self.error = name, [], 1, 'live', ''
        self.subscribers = []

    def publish(self, data):
        self.log.append((self.next, time.time_ns(), data))
        self.next += 1
        del self.log[:-1024]
        for subscriber in list(self.subscribers):
            subscriber.arrived(self.log[-1])
        return self.next - 1

    def end(self, state, error=''):
        self.state, self.error = state, error
        for subscriber in list(self.subscribers):
            subscriber.drain()

    def info(self):
        return {'name': self.name, 'epoch': str(EPOCH), 'state': self.state, 'error': self.error,
                'first': self.log[0][0] if self.log else self.next, 'next': self.next, 'retained': len(self.log),
                'bytes': sum(len(m[2]) for m in self.log), 'subscriptions': len(self.subscribers), 'publishers': 0,
                'published': self.next - 1, 'dropped': 0}


def topic(name):
    if not name or any(not part or not part.replace('-', 'a').replace('_', 'a').isalnum() for part in name.split('.')):
        raise refuse(ErrorCode.INVALID, f"'{name}' is not a topic name")
    return topics.setdefault(name, Topic(name))


class Subscriber(Publisher, Subscription):
    """A subscription: the messages that are waiting for credit."""

    def __init__(self, topic, options, peer):
        self.topic, self.peer = topic, peer
        self.buffer = int(options.get('buffer', 1024))
        self.meta = options.get('meta') == 'on'
        self.credit = self.requested = self.delivered = self.dropped = self.untold = 0
        replay = options.get('replay', '0')
        count = len(topic.log) if replay == 'all' else int(replay)
        self.waiting = topic.log[len(topic.log) - min(count, len(topic.log)):]
        if 'from' in options:
            self.waiting = [m for m in topic.log if m[0] >= int(options['from'])]
        self.target = None

    def subscribe(self, subscriber):
        self.target = subscriber
        subscriber.on_subscribe(self)
        self.topic.subscribers.append(self)
        subscriptions.append(self)

    def request(self, n):
        log(event='request', topic=self.topic.name, n=n)
        self.credit += n
        self.requested += n
        self.drain()

    def cancel(self):
        log(event='cancel', topic=self.topic.name, delivered=self.delivered)
        self.leave()

    def leave(self):
        if self in subscriptions:
            subscriptions.remove(self)
            self.topic.subscribers.remove(self)

    def arrived(self, message):
        self.waiting.append(message)
        self.drain()
        while len(self.waiting) > self.buffer:
            self.waiting.pop(0)
            self.dropped += 1
            self.untold += 1

    def drain(self):
        while self.credit > 0 and self.waiting:
            sequence, when, data = self.waiting.pop(0)
            if self.credit < UNBOUNDED:
                self.credit -= 1
            self.delivered += 1
            metadata = None
            if self.meta:
                mime = b'application/vnd.forebay.message'
                body = struct.pack('>QQqQ', EPOCH, sequence, when, self.untold)
                metadata = bytes([len(mime) - 1]) + mime + len(body).to_bytes(3, 'big') + body
                self.untold = 0
            self.target.on_next(Payload(data, metadata))
        if not self.waiting and self.topic.state != 'live' and self in subscriptions:
            self.leave()
            if self.topic.state == 'completed':
                self.target.on_complete()
            else:
                self.target.on_error(RuntimeError(f'topic failed: {self.topic.error}'))

    def info(self):
        many = lambda n: 'unbounded' if n >= UNBOUNDED else n
        return {'id': subscriptions.index(self) + 1, 'topic': self.topic.name, 'connection': 1, 'peer': self.peer,
                'policy': 'drop-oldest', 'buffer': self.buffer, 'requested': many(self.requested),
                'outstanding': many(self.credit), 'delivered': self.delivered, 'waiting': len(self.waiting),
                'dropped': self.dropped, 'meta': self.meta}


class Rows(Publisher, Subscription):
    """A list of JSON objects, sent as credit allows, followed by completion."""

    def __init__(self, rows):
        self.rows, self.isOver = rows, False

    def subscribe(self, subscriber):
        self.target = subscriber
        subscriber.on_subscribe(self)

    def request(self, n):
        for _ in range(min(n, len(self.rows))):
            self.target.on_next(Payload(json.dumps(self.rows.pop(0)).encode()))
        if not self.rows and not self.isOver:
            self.isOver = True
            self.target.on_complete()

    def cancel(self):
        self.isOver = True


class Channel(Publisher, Subscription, DefaultSubscriber):
    """A publishing channel: grants `window` items at a time and acknowledges cumulatively."""

    def __init__(self, topic, options, window):
        DefaultSubscriber.__init__(self)
        self.topic, self.options, self.window = topic, options, window
        self.credit, self.last, self.told, self.accepted, self.granted = 0, 0, 0, 0, 0
        self.remote = self.target = None
        self.isOver = False

    # Our half: acknowledgements
    def subscribe(self, subscriber):
        self.target = subscriber
        subscriber.on_subscribe(self)

    def request(self, n):
        self.credit += n
        self.acknowledge()

    def cancel(self):
        log(event='channel-cancel', topic=self.topic.name, accepted=self.accepted)

    def acknowledge(self):
        if self.credit > 0 and self.last > self.told and self.target:
            self.credit -= 1
            self.told = self.last
            self.target.on_next(Payload(str(self.last).encode()))
        if self.isOver and self.told == self.last:
            self.isOver = False
            log(event='channel-complete', topic=self.topic.name, accepted=self.accepted)
            self.target.on_complete()

    # The client's half: messages
    def on_subscribe(self, subscription):
        self.remote = subscription
        self.grant()

    def grant(self):
        self.granted += self.window
        self.remote.request(self.window)

    def accept(self, data):
        self.last = self.topic.publish(data)
        self.accepted += 1

    def on_next(self, value, is_complete=False):
        self.accept(value.data or b'')
        if self.accepted - 1 > self.granted:
            log(event='overrun', accepted=self.accepted, granted=self.granted)
        if self.accepted - 1 == self.granted and not is_complete:
            asyncio.get_running_loop().call_later(grant_delay, self.grant)
        self.acknowledge()
        if is_complete:
            self.on_complete()

    def on_complete(self):
        self.isOver = True
        if self.options.get('complete') == 'true':
            self.topic.end('completed')
        asyncio.get_running_loop().call_soon(self.acknowledge)

    def on_error(self, exception):
        log(event='channel-error')


class Handler(BaseRequestHandler):
    def __init__(self, peer):
        self.peer = peer

    async def request_fire_and_forget(self, payload):
        name, _, _ = parse(payload)
        log(event='fire', topic=name, size=len(payload.data or b''))
        topic(name).publish(payload.data or b'')

    async def request_response(self, payload):
        name, options, tags = parse(payload)
        log(event='ask', tags=tags)
        if not name.startswith('$SYS.'):
            if topic(name).state != 'live':
                raise refuse(ErrorCode.REJECTED, f'the topic {name} has ended')
            return create_future(Payload(str(topic(name).publish(payload.data or b'')).encode()))
        named = options.get('name', '')
        if named not in topics:
            raise refuse(ErrorCode.REJECTED, f"there is no topic '{named}'")
        if name == '$SYS.topic.complete':
            topics[named].end('completed')
        elif name == '$SYS.topic.fail':
            topics[named].end('failed', options.get('message', ''))
        elif name == '$SYS.topic.delete':
            topics.pop(named).end('failed', 'deleted')
            return create_future(Payload(b'{}'))
        return create_future(Payload(json.dumps(topics[named].info()).encode()))

    async def request_stream(self, payload):
        name, options, tags = parse(payload)
        if name == '$SYS.topics':
            return Rows([t.info() for t in topics.values()])
        if name == '$SYS.subscriptions':
            return Rows([s.info() for s in subscriptions])
        if name == '$SYS.connections':
            return Rows([{'id': 1, 'peer': self.peer, 'shard': 0, 'age_ms': 754321, 'streams': 1, 'subscriptions': 0,
                          'publishers': 0, 'bytes_in': 5000000, 'bytes_out': 999, 'output': 0, 'unheard-of': [1]}])
        log(event='subscribe', tags=tags)
        unknown = set(options) - {'replay', 'from', 'epoch', 'buffer', 'overflow', 'gap', 'meta'}
        if unknown:
            raise refuse(ErrorCode.INVALID, f'unknown option {sorted(unknown)[0]}')
        return Subscriber(topic(name), options, self.peer)

    async def request_channel(self, payload):
        name, options, tags = parse(payload)
        log(event='channel', tags=tags)
        channel = Channel(topic(name), options, window)
        channel.accept(payload.data or b'')
        return channel, channel


async def main():
    def connected(reader, writer):
        peer = '%s:%d' % writer.get_extra_info('peername')[:2]
        RSocketServer(TransportTCP(reader, writer), handler_factory=lambda: Handler(peer),
                      fragment_size_bytes=fragment)

    server = await asyncio.start_server(connected, '127.0.0.1', 0)
    log(port=server.sockets[0].getsockname()[1])
    await server.serve_forever()


window = int(sys.argv[1]) if len(sys.argv) > 1 else 64
grant_delay = float(sys.argv[2]) if len(sys.argv) > 2 else 0
fragment = int(sys.argv[3]) if len(sys.argv) > 3 else None
asyncio.run(main())
