"""What only gRPC has: responses with several messages, half-close, deadlines, statuses, trailers; health,
reflection."""

import queue
import signal

import grpc
from google.protobuf import descriptor_pb2
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from common import *
from grpc_client import Channel, pb

pytestmark = pytest.mark.grpc

Code = grpc.StatusCode
OPENS = {
    "nothing": pb.SubscribeRequest(),
    "credit": pb.SubscribeRequest(request_n=1),
}


def raw_call(peer, method: str, *requests):
    """A streaming call with arbitrary requests."""
    return getattr(peer.pubsub, method)(iter(requests), timeout=DEADLINE)


def status(call) -> Code:
    """The status of a call, whatever precedes it."""
    with pytest.raises(grpc.RpcError) as ended:
        list(call)
    return ended.value.code()


def test_several_subscriptions_on_one_channel(a, b, topic):
    subs = [a.subscribe(f"{topic}.{i % 3}", n=n) for i, n in enumerate((1, 5, UNBOUNDED) * 4)]
    for i in range(3):
        a.joined(f"{topic}.{i}", 4)
        b.numbers(f"{topic}.{i}", 1, 5)
    for sub in subs:
        assert sub.data(min(sub.asked, 5)) == numbers(1, min(sub.asked, 5))
    for sub in subs:
        sub.nothing()
    assert len({row["connection"] for row in a.ledger(f"{topic}.0")}) == 1


def test_the_first_response_tells_the_epoch_without_a_message(a, topic):
    call = raw_call(a, "Subscribe", pb.SubscribeRequest(open=pb.Open(topic=topic, request_n=3)))
    first = next(call)
    assert (len(first.messages), first.outstanding_credit, first.dropped) == (0, 3, 0)
    assert str(first.epoch) == a.info(topic)["epoch"]


def test_a_pattern_names_the_topic_of_each_message(a, b, topic):
    requests = queue.SimpleQueue()
    requests.put(pb.SubscribeRequest(open=pb.Open(topic=f"{topic}.*", request_n=3)))
    call = a.pubsub.Subscribe(iter(requests.get, None), timeout=DEADLINE)
    first = next(call)
    assert (len(first.messages), first.outstanding_credit, first.epoch) == (0, 3, 0)
    for part in "ab":
        b.publish(f"{topic}.{part}", b"1", b"2")
    got = [next(call)]
    while sum(len(response.messages) for response in got) < 3:
        got.append(next(call))
    assert got[-1].outstanding_credit == 0
    requests.put(pb.SubscribeRequest(request_n=1))
    got.append(next(call))
    read = [(one.topic, one.payload, response.epoch) for response in got for one in response.messages]
    epochs = {f"{topic}.{part}": int(a.info(f"{topic}.{part}")["epoch"]) for part in "ab"}
    assert sorted(read) == sorted((name, text, epoch) for name, epoch in epochs.items() for text in (b"1", b"2"))
    # Its credit is spent.
    requests.put(None)
    assert list(call) == [] and dict(call.trailing_metadata())["forebay-end"] == "credit-spent"


def test_credit_counts_messages_not_responses(a, b, topic):
    """Waiting messages arrive together."""
    b.numbers(topic, 1, 1000)
    request = pb.SubscribeRequest(open=pb.Open(topic=topic, replay_all=True, request_n=1000))
    call, got = raw_call(a, "Subscribe", request), []
    while sum(len(one.messages) for one in got) < 1000:
        got.append(next(call))
    assert [one.payload for response in got for one in response.messages] == numbers(1, 1000)
    assert len(got) < 200, f"{len(got)} responses for 1000 messages"
    assert got[-1].outstanding_credit == 0


def test_a_response_has_at_most_1_mib_or_one_message(a, b, topic):
    """The client checks this for each response."""
    b.publish(topic, *([bytes(300_000)] * 20), bytes(1 << 20))
    assert len(a.subscribe(f"{topic}?replay=all").take(21)) == 21


def test_cancellation(a, b, topic):
    first, other = a.subscribe(topic), a.subscribe(topic)
    a.joined(topic, 2)
    first.cancel()
    a.joined(topic, 1)
    b.numbers(topic, 1, 3)
    assert other.data(3) == numbers(1, 3)
    assert first.pending() == 0


def test_the_deadline_of_a_subscription(a, b, topic):
    sub = a.subscribe(topic, timeout=0.5)
    a.joined(topic, 1)
    b.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]
    assert sub.end().code == Code.DEADLINE_EXCEEDED
    b.joined(topic, 0)


def test_the_deadline_of_a_parked_publish(a, b, topic):
    sub = a.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    with pytest.raises(StreamError) as refused:
        b.offer(topic, b"too late", timeout=0.3).sequence()
    assert refused.value.code == Code.DEADLINE_EXCEEDED
    b.until(topic, lambda info: info["parked"] == 0)
    sub.request(10)
    assert sub.data(2) == numbers(1, 2)
    b.numbers(topic, 3, 3)
    assert sub.data(1) == [b"3"]


@pytest.mark.parametrize("n", [1, 3])
def test_half_close_means_no_more_credit(a, b, topic, n):
    sub = a.subscribe(topic, n=n)
    sub.half_close()
    a.joined(topic, 1)
    b.numbers(topic, 1, 5)
    assert sub.data(n) == numbers(1, n)
    assert sub.end() == End() and sub.trailers["forebay-end"] == "credit-spent"
    b.joined(topic, 0)


def test_half_close_with_all_credit_spent_ends_at_once(a, b, topic):
    sub = a.subscribe(topic, n=2)
    a.joined(topic, 1)
    b.numbers(topic, 1, 3)
    assert sub.data(2) == numbers(1, 2)
    sub.half_close()
    assert sub.end() == End() and sub.trailers["forebay-end"] == "credit-spent"


def test_half_close_of_an_unbounded_subscription_lasts_until_the_topic_ends(a, b, topic):
    sub = a.subscribe(topic)
    sub.half_close()
    a.joined(topic, 1)
    b.numbers(topic, 1, 100)
    assert sub.data(100) == numbers(1, 100)
    b.control("$SYS.topic.complete", name=topic)
    assert sub.end() == End() and sub.trailers["forebay-end"] == "completed"


def test_trailers_tell_the_end_and_what_was_lost(a, b, topic):
    sub = a.subscribe(f"{topic}?overflow=drop-newest&buffer=1", n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 5)
    b.control("$SYS.topic.fail", name=topic, message="why")
    sub.request(1)
    assert sub.data(2) == numbers(1, 2)
    end = sub.end()
    assert (end.code, end.dropped, sub.trailers["forebay-end"]) == (Code.ABORTED, 3, "failed")
    assert end.text.startswith("topic failed: why")


def test_the_status_of_an_overflow(a, b, topic):
    sub = a.subscribe(f"{topic}?overflow=fail&buffer=1", n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 5)
    sub.request(5)
    sub.rest()
    assert (sub.ended.code, sub.trailers["forebay-end"]) == (Code.RESOURCE_EXHAUSTED, "overflow")


@pytest.mark.parametrize("what", OPENS)
def test_a_subscription_must_begin_with_open(a, what):
    assert status(raw_call(a, "Subscribe", OPENS[what])) == Code.INVALID_ARGUMENT


def test_open_comes_once(a, topic):
    again = pb.SubscribeRequest(open=pb.Open(topic=topic, request_n=1))
    assert status(raw_call(a, "Subscribe", again, again)) == Code.INVALID_ARGUMENT
    again = pb.PublishRequest(open=pb.PublishOpen(topic=topic))
    assert status(raw_call(a, "Publish", again, again)) == Code.INVALID_ARGUMENT


def test_a_subscription_closed_before_it_began(a):
    assert status(raw_call(a, "Subscribe")) == Code.INVALID_ARGUMENT
    assert status(raw_call(a, "Publish")) == Code.INVALID_ARGUMENT


@pytest.mark.parametrize("how", [{"overflow": 99}, {"buffer": 0x80000000}, {"replay_last": 1, "from_sequence": 1},
                                 {"replay_all": True, "replay_last": 1}, {"epoch": 1}])
def test_bad_options(a, topic, how):
    request = pb.SubscribeRequest(open=pb.Open(topic=topic, request_n=1, **how))
    assert status(raw_call(a, "Subscribe", request)) == Code.INVALID_ARGUMENT


def test_a_gap_that_is_refused(a, b, topic):
    b.numbers(topic, 1, 3)
    end = refusal(a.subscribe(f"{topic}?from=100&gap=fail"))
    assert end.code == Code.FAILED_PRECONDITION and "gap" in end.text.lower()


def test_publishing_must_begin_with_open(a, topic):
    for request in (pb.PublishRequest(), pb.PublishRequest(message=pb.Message(payload=b"x")),
                    pb.PublishRequest(fail_topic="x")):
        assert status(raw_call(a, "Publish", request)) == Code.INVALID_ARGUMENT


def test_a_channel_that_sends_nothing_ends_well(a, topic):
    channel = a.channel(topic, None, complete=True)
    assert channel.end() == End() and channel.acks == []


def test_fail_topic_needs_complete_topic(a, b, topic):
    channel = b.channel(topic, b"1")
    channel.acknowledged(1)
    channel.fail("no right to")
    assert channel.end().code == Code.INVALID_ARGUMENT
    assert a.info(topic)["state"] == "live"


def test_a_text_of_failure_that_is_too_long(a, b, topic):
    channel = b.channel(f"{topic}?complete=true", b"1")
    channel.acknowledged(1)
    channel.fail("x" * 1025)
    assert channel.end().code == Code.INVALID_ARGUMENT


def test_the_status_of_credit_exceeded(a, b, topic):
    a.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    for _ in range(50):
        channel.force(b"x")
    assert channel.end().code == Code.FAILED_PRECONDITION


def test_the_statuses_of_an_ended_topic(a, b, topic):
    b.numbers(topic, 1, 1)
    b.control("$SYS.topic.complete", name=topic)
    with pytest.raises(StreamError) as refused:
        b.publish(topic, b"x")
    assert refused.value.code == Code.FAILED_PRECONDITION
    assert b.channel(topic, b"x").end().code == Code.FAILED_PRECONDITION
    with pytest.raises(StreamError) as refused:
        b.control("$SYS.topic.complete", name=topic)
    assert refused.value.code == Code.FAILED_PRECONDITION


def test_the_statuses_of_what_is_not_there_and_not_allowed(a, topic):
    with pytest.raises(StreamError) as refused:
        a.info(topic)
    assert refused.value.code == Code.NOT_FOUND
    with pytest.raises(StreamError) as refused:
        a.publish("$SYS.events", b"x")
    assert refused.value.code == Code.PERMISSION_DENIED


def test_admin_tells_in_fields_what_its_json_tells(a, b, topic):
    b.numbers(topic, 1, 3)
    b.control("$SYS.topic.fail", name=topic, message="why")
    told, info = a.admin.TopicInfo(pb.TopicInfoRequest(topic=topic)), a.info(topic)
    assert (told.name, str(told.epoch), told.error) == (topic, info["epoch"], info["error"])
    assert (told.first_sequence, told.next_sequence) == (info["first"], info["next"]) == (1, 4)
    assert told.state == pb.TOPIC_STATE_FAILED
    assert a.admin.Info(pb.InfoRequest()).version == a.control("$SYS.info")["version"]


def test_a_message_of_3_mb_is_refused(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    with pytest.raises(StreamError) as refused:
        b.publish(topic, bytes(3_000_000))
    assert refused.value.code == Code.RESOURCE_EXHAUSTED
    channel = b.channel(topic, bytes(3_000_000))
    assert channel.end().code == Code.RESOURCE_EXHAUSTED
    b.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]


def test_an_answered_publish_tells_the_epoch(a, b, topic):
    told = b.offer(topic, b"x").response()
    assert (told.sequence, str(told.epoch)) == (1, a.info(topic)["epoch"])


@pytest.mark.parametrize("path", ["/forebay.v1.PubSub/Nothing", "/forebay.v1.Nothing/Subscribe", "/nothing", "/a/b/c"])
def test_an_unknown_method(a, topic, path):
    with pytest.raises(grpc.RpcError) as refused:
        a.channel_.unary_unary(path)(b"", timeout=DEADLINE)
    assert refused.value.code() == Code.UNIMPLEMENTED
    assert a.publish(topic, b"x") == [1]


@pytest.mark.parametrize("how", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages_are_refused(a, topic, how):
    request = pb.PublishOneRequest(topic=topic, message=pb.Message(payload=bytes(10_000)))
    with pytest.raises(grpc.RpcError) as refused:
        a.pubsub.PublishOne(request, compression=how, timeout=DEADLINE)
    assert refused.value.code() == Code.UNIMPLEMENTED and how.name.lower() in refused.value.details()
    assert a.publish(topic, b"x") == [1]


@pytest.mark.parametrize("service", ["", "forebay.v1.PubSub", "forebay.v1.Admin"])
def test_health(a, service):
    health = health_pb2_grpc.HealthStub(a.channel_)
    request = health_pb2.HealthCheckRequest(service=service)
    assert health.Check(request, timeout=DEADLINE).status == health_pb2.HealthCheckResponse.SERVING
    watch = health.Watch(request, timeout=DEADLINE)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    watch.cancel()


def test_health_of_an_unknown_service(a):
    health = health_pb2_grpc.HealthStub(a.channel_)
    with pytest.raises(grpc.RpcError) as refused:
        health.Check(health_pb2.HealthCheckRequest(service="nothing"), timeout=DEADLINE)
    assert refused.value.code() == Code.NOT_FOUND
    watch = health.Watch(health_pb2.HealthCheckRequest(service="nothing"), timeout=DEADLINE)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


SERVICES = {"forebay.v1.PubSub", "forebay.v1.Admin", "grpc.health.v1.Health"}


def without_json_names(file):
    """protoc adds these to descriptors, and Python's stubs leave them out."""
    for message in file.message_type:
        for field in [*message.field, *(field for nested in message.nested_type for field in nested.field)]:
            field.ClearField("json_name")
    return file


def test_reflection(a):
    """Uses grpc_reflection, which speaks v1alpha."""
    database = ProtoReflectionDescriptorDatabase(a.channel_)
    assert SERVICES <= set(database.get_services())
    told = database.FindFileContainingSymbol("forebay.v1.PubSub")
    assert told.package == "forebay.v1" and [one.name for one in told.service] == ["PubSub", "Admin"]
    assert without_json_names(told) == descriptor_pb2.FileDescriptorProto.FromString(pb.DESCRIPTOR.serialized_pb)
    assert database.FindFileByName("forebay/v1/forebay.proto") == told


def test_reflection_v1(a):
    """The same messages under the name that replaced v1alpha."""
    method = a.channel_.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString)
    requests = [reflection_pb2.ServerReflectionRequest(list_services=""),
                reflection_pb2.ServerReflectionRequest(file_containing_symbol="forebay.v1.Admin.Info"),
                reflection_pb2.ServerReflectionRequest(file_containing_symbol="nothing.at.All")]
    services, file, missing = method(iter(requests), timeout=DEADLINE)
    assert SERVICES <= {one.name for one in services.list_services_response.service}
    files = map(descriptor_pb2.FileDescriptorProto.FromString, file.file_descriptor_response.file_descriptor_proto)
    assert pb.DESCRIPTOR.serialized_pb in [without_json_names(one).SerializeToString() for one in files]
    assert missing.error_response.error_code == Code.NOT_FOUND.value[0]


def test_what_waits_is_delivered_when_the_broker_shuts_down(start, connect, topic):
    own = start()
    try:
        a, b = connect(own), connect(own)
        sub, channel = a.subscribe(topic), b.channel(f"{topic}.x", b"0")
        channel.acknowledged(1)
        a.joined(topic, 1)
        b.numbers(topic, 1, 100)
        own.process.send_signal(signal.SIGTERM)
        assert sub.data(100) == numbers(1, 100)
        assert sub.end().code == Code.UNAVAILABLE
        assert channel.end().code == Code.UNAVAILABLE
        assert own.process.wait(15) == 0
    finally:
        own.process.kill()


def test_channels_by_turns_and_calls_beside_them(a, b, topic):
    """Publish streams, single publishes and subscriptions share a connection."""
    sub = b.subscribe(topic)
    b.joined(topic, 1)
    channels: list[Channel] = [b.channel(topic, b"c") for _ in range(3)]
    for _ in range(100):
        for channel in channels:
            channel.send(b"c")
        b.publish(topic, b"p")
    for channel in channels:
        channel.complete()
        assert channel.end() == End() and channel.acks[-1][1] == 101
    assert sorted(sub.data(403)) == [b"c"] * 303 + [b"p"] * 100
