"""A small publish/subscribe server on grpcio, for tests of the command line.

Its stubs are generated from the .proto by protoc, and its HTTP/2 implementation is independent of ours. It honors
credit and logs clients' requests, one JSON object per line on stdout. It first prints its port. The server is a
counterpart for tests, not a second broker: topics retain everything, and subscriptions begin with all of it. Some topic
names request misbehavior:

    status.CODE         the call ends with this status and the text "because"
    greedy              two messages more than requested
    large.BYTES         one message of BYTES bytes
    never               no messages
"""
import json
import queue
import sys
import threading
from concurrent import futures
from pathlib import Path

import grpc

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from grpc_client import pb, services  # noqa: E402

EPOCH = 1234567890123456789
UNBOUNDED = 0x7FFFFFFF
topics = {}
lock = threading.Lock()


def log(**fields):
    print(json.dumps(fields), flush=True)


def trouble(topic, context):
    if topic.startswith("status."):
        context.abort(grpc.StatusCode[topic.partition(".")[2]], "because")


def published(topic, payload):
    with lock:
        topics.setdefault(topic, []).append(payload)
        return len(topics[topic])


class PubSub(services.PubSubServicer):
    def Subscribe(self, requests, context):
        first = next(requests).open
        fields = {field.name: value for field, value in first.ListFields()}
        log(event="subscribe", metadata=dict(context.invocation_metadata()), **fields)
        trouble(first.topic, context)
        credits = queue.Queue()
        credits.put(first.request_n)

        def listen():
            try:
                for request in requests:
                    log(event="request", n=request.request_n)
                    credits.put(request.request_n)
            except grpc.RpcError:
                pass
            credits.put(None)
        context.add_callback(lambda: log(event="ended"))
        threading.Thread(target=listen, daemon=True).start()
        yield pb.SubscribeResponse(epoch=EPOCH, outstanding_credit=first.request_n)
        if first.topic == "never":
            threading.Event().wait()
        if first.topic.startswith("large."):
            size = int(first.topic.partition(".")[2])
            yield pb.SubscribeResponse(messages=[pb.Message(sequence=1, payload=b"x" * size)], epoch=EPOCH)
        credit, sent, extra = 0, 0, 2 if first.topic == "greedy" else 0
        messages = topics.get(first.topic, [])
        while sent < len(messages):
            if credit == 0:
                n = credits.get()
                if n is None:
                    return
                credit += n
            count = min(credit, len(messages) - sent, 100)
            batch = [pb.Message(sequence=sent + index + 1, payload=payload)
                     for index, payload in enumerate(messages[sent:sent + count + extra])]
            sent += count
            credit -= count if credit < UNBOUNDED else 0
            yield pb.SubscribeResponse(messages=batch, epoch=EPOCH, outstanding_credit=credit)
        context.set_trailing_metadata([("forebay-end", "completed")])

    def Publish(self, requests, context):
        first = next(requests).open
        log(event="channel", topic=first.topic, complete=first.complete_topic)
        trouble(first.topic, context)
        accepted = granted = 0
        for request in requests:
            if accepted > granted:
                log(event="overrun", accepted=accepted, granted=granted)
            sequence = published(first.topic, request.message.payload)
            accepted += 1
            grant = window if accepted - 1 == granted else 0
            granted += grant
            yield pb.PublishResponse(granted_credit=grant, acknowledged_sequence=sequence, accepted_count=accepted)
        log(event="channel-complete", accepted=accepted)

    def PublishOne(self, request, context):
        log(event="publish", topic=request.topic, size=len(request.message.payload))
        trouble(request.topic, context)
        return pb.PublishOneResponse(sequence=published(request.topic, request.message.payload), epoch=EPOCH)


class Admin(services.AdminServicer):
    def ListTopics(self, request, context):
        for name, messages in topics.items():
            yield pb.Topic(json=json.dumps({"name": name, "next": len(messages) + 1}), name=name)

    def FailTopic(self, request, context):
        log(event="fail", topic=request.topic, message=request.message)
        return pb.Topic(json="{}", name=request.topic)


window = int(sys.argv[1]) if len(sys.argv) > 1 else 64
server = grpc.server(futures.ThreadPoolExecutor(16), options=[("grpc.max_receive_message_length", -1),
                                                              ("grpc.max_send_message_length", -1)])
services.add_PubSubServicer_to_server(PubSub(), server)
services.add_AdminServicer_to_server(Admin(), server)
port = server.add_insecure_port("127.0.0.1:0")
server.start()
log(port=port)
server.wait_for_termination()
