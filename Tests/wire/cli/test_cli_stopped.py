"""A client that is stopped as a process, and goes on later: it costs itself messages, which it is told, and others
nothing."""

import json
import signal

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
            assert message["sequence"] == count + lost, "what is missing is told with the message behind it"
            if message["sequence"] == published:
                break
        assert (lost, count) == (row_of(publisher, topic)["dropped"], published - lost) and lost
        process.kill()
        publisher.close()
    broker.stop()


def row_of(peer, topic: str) -> dict:
    (row,) = peer.ledger(topic)
    return row
