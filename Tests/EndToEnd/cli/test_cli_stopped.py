"""A client process that is stopped and later resumed: it alone loses messages, and it is notified of the loss."""

import json
import signal
from collections import Counter

from commands import LIMIT
from faults import beside

BODY = bytes(10_000)


def test_a_stopped_subscriber(begin, reach, topic):
    retained = 4 << 20
    broker = begin("--retain-bytes", str(retained))
    forebay = reach(broker)
    with beside(broker, growth=retained + (16 << 20)) as (well,):
        process = forebay.subscriber(topic, "--json", "--meta", "--buffer", "100")
        process.send_signal(signal.SIGSTOP)
        publisher, published = broker.peer(), 0
        while not row_of(publisher, topic)["dropped"]:
            published = publisher.publish(topic, *([BODY] * 50))[-1]
        assert row_of(publisher, topic)["waiting"] <= 100
        well.moves()
        process.send_signal(signal.SIGCONT)
        published = publisher.publish(topic, b"last")[-1]
        count = lost = 0
        for line in process.stdout:
            message = json.loads(line)
            count, lost = count + 1, lost + message["dropped"]
            assert message["sequence"] == count + lost, "the loss is reported with the next message"
            if message["sequence"] == published:
                break
        assert (lost, count) == (row_of(publisher, topic)["dropped"], published - lost) and lost
        process.kill()
        publisher.close()
    broker.stop()


def test_a_stopped_publisher(begin, reach, topic):
    """The publisher is stopped in the middle of a channel, holding credit. A `block` subscription still receives
    another publisher's messages, and neither loses anything."""
    broker, count, asked = begin(), 2000, 100
    forebay = reach(broker)
    with beside(broker, growth=16 << 20):
        reader, got = broker.peer(), Counter()
        sub = reader.subscribe(f"{topic}?overflow=block&buffer={2 * asked}", n=asked)
        reader.joined(topic, 1)

        def read(until):
            while not until():
                got.update(one.data for one in sub.take(1))
                if sub.asked - sub.received < asked // 2:
                    sub.request(asked // 2)

        stopped = forebay.start("pub", topic, "stopped", "--count", str(count))
        read(lambda: got[b"stopped"] >= asked)
        stopped.send_signal(signal.SIGSTOP)
        other = forebay.start("pub", topic, "other", "--count", str(count))
        read(lambda: got[b"other"] == count)
        assert other.wait(LIMIT) == 0 and got[b"stopped"] < count
        stopped.send_signal(signal.SIGCONT)
        read(lambda: got[b"stopped"] == count)
        assert stopped.wait(LIMIT) == 0
        row, published = row_of(reader, topic), reader.info(topic)["published"]
        assert (row["delivered"], row["dropped"], row["waiting"], published) == (2 * count, 0, 0, 2 * count)
        reader.close()
    broker.stop()


def row_of(peer, topic: str) -> dict:
    (row,) = peer.ledger(topic)
    return row
