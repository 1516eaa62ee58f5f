"""Subscriptions to patterns, over either transport."""

import json

import grpc_client
from client import Peer
from common import UNBOUNDED, Message, Observer, Stream, eventually

TOPIC_MIME = b"application/vnd.forebay.topic"


class Following(grpc_client.Subscription):
    """A subscription to a pattern over gRPC. `ends` are the notices of topics that have ended: topic, why, lost."""

    def __init__(self, peer, path: str, n: int, positions: dict):
        self.ends, self.lasts, self.has_begun = [], {}, False
        places = [grpc_client.pb.TopicPosition(topic=topic, epoch=int(epoch), sequence=sequence)
                  for topic, (epoch, sequence) in positions.items()]
        super().__init__(peer, path, (), n, positions=places)

    def _expand(self, response) -> list:
        """Each topic has its own sequences and losses."""
        if not self.has_begun:
            self.has_begun = True
            assert response.epoch == 0 and not response.messages
            return []
        if response.HasField("topic_end"):
            assert response.epoch and not response.messages
            end = response.topic_end
            self.ends.append((end.topic, end.failure, response.dropped))
            return []
        assert len({one.topic for one in response.messages}) == 1
        self.epoch, self.last = None, self.lasts.get(response.epoch)
        found = super()._expand(response)
        self.lasts[response.epoch] = self.last
        for told, one in zip(found, response.messages):
            told.topic = one.topic
        return found


def subscribe(peer: Observer, path: str, n=UNBOUNDED, positions: dict | None = None) -> Stream:
    """Subscribes to a pattern; `positions` are (epoch, sequence) by topic."""
    if isinstance(peer, Peer):
        data = json.dumps(positions).encode() if positions else b""
        return peer.subscribe(path, n=n, meta=True, data=data)
    return Following(peer, path, n, positions or {})


def follow(peer: Observer, path: str, n=UNBOUNDED, positions: dict | None = None) -> Stream:
    """Subscribes, and waits until the subscription has begun."""
    found = subscribe(peer, path, n, positions)
    pattern = path.partition("?")[0]
    eventually(lambda: peer.ledger(pattern), lambda rows: rows and all(row["waits_for"] != "topic" for row in rows))
    return found


def topic_of(message: Message) -> str:
    """Over RSocket it is in the second entry, before the publisher's, which may have the same type."""
    if isinstance(message, grpc_client.Told):
        return message.topic
    mime, name = message.entries[0]
    assert mime == TOPIC_MIME
    return name.decode()


def summaries(messages: list[Message]) -> list[tuple[str, int, int]]:
    """Of each message: the last token of its topic, its sequence, and what was lost before it."""
    return [(topic_of(one).rpartition(".")[2], one.sequence, one.dropped) for one in messages]


def positions(messages: list[Message]) -> dict[str, tuple[str, int]]:
    """Where to continue in each topic."""
    return {topic_of(one): (str(one.epoch), one.sequence + 1) for one in messages}
