"""The descriptors returned by the broker's server reflection are those of the documented .proto file."""

import re
import subprocess
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "Protocol" / "forebay" / "v1" / "forebay.proto"


def test_the_generated_file_is_what_the_proto_file_gives():
    check = [sys.executable, str(ROOT / ".ci" / "descriptors.py"), "--check"]
    run = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr


def test_the_check_notices_a_change(tmp_path):
    generated = "Sources/Wire/HTTP2/GRPC/Descriptors.swift"
    for file in (".ci/descriptors.py", generated, "Protocol/forebay/v1/forebay.proto"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text((ROOT / file).read_text())
    copy = tmp_path / "Protocol/forebay/v1/forebay.proto"
    copy.write_text(copy.read_text().replace("uint64 dropped = 4;", "uint64 dropped = 7;"))
    check = [sys.executable, str(tmp_path / ".ci" / "descriptors.py"), "--check"]
    run = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "run .ci/descriptors.py" in run.stderr


def test_the_contract_on_names_numbers_and_types(tmp_path):
    out = tmp_path / "set"
    assert protoc.main(["protoc", f"-I{ROOT / 'Protocol'}", f"--descriptor_set_out={out}", str(PROTO)]) == 0
    file = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]
    assert file.package == "forebay.v1"
    types = descriptor_pb2.FieldDescriptorProto.Type.items()
    kinds = {number: name.removeprefix("TYPE_").lower() for name, number in types}
    found = {
        message.name: " ".join(f"{field.name}={field.number}:{kinds[field.type]}" for field in message.field)
        for message in file.message_type
    }
    assert {
        "SubscribeRequest": "open=1:message request_n=2:uint32",
        "Open": "topic=1:string request_n=2:uint32 replay_last=3:uint32 replay_all=4:bool from_sequence=5:uint64 "
        "epoch=6:uint64 buffer=7:uint32 overflow=8:enum gap_fail=9:bool opening=10:bool "
            "since_ns=11:int64 since_ago_ns=12:uint64 positions=13:message",
        "SubscribeResponse": "messages=1:message outstanding_credit=2:uint64 epoch=3:uint64 dropped=4:uint64 "
            "next_sequence=5:uint64 topic_end=6:message",
        "TopicEnd": "topic=1:string failure=2:string",
        "Message": "sequence=1:uint64 payload=2:bytes timestamp_ns=3:int64 content_type=4:string headers=5:message "
            "topic=6:string",
        "PublishRequest": "open=1:message message=2:message fail_topic=3:string",
        "PublishOpen": "topic=1:string complete_topic=2:bool publisher_id=3:string number=4:uint64",
        "PublishResponse": "granted_credit=1:uint64 acknowledged_sequence=2:uint64 accepted_count=3:uint64 "
            "duplicate=4:bool",
        "PublishOneRequest": "topic=1:string message=2:message publisher_id=3:string number=4:uint64",
        "PublishOneResponse": "sequence=1:uint64 epoch=2:uint64 duplicate=3:bool",
        "PublisherInfoRequest": "topic=1:string publisher_id=2:string",
        "PublisherInfoResponse": "json=1:string number=2:uint64 sequence=3:uint64 epoch=4:uint64",
    }.items() <= found.items()
    overflow = next(enum for enum in file.enum_type if enum.name == "Overflow")
    assert [f"{value.name}={value.number}" for value in overflow.value] == [
        "DROP_OLDEST=0", "DROP_NEWEST=1", "REPLACE_NEWEST=2", "LATEST=3", "FAIL=4", "BLOCK=5",
    ]  # fmt: skip
    methods = {
        f"{service.name}.{method.name}": (method.client_streaming, method.server_streaming)
        for service in file.service
        for method in service.method
    }
    assert methods.items() >= {
        "PubSub.Subscribe": (True, True),
        "PubSub.Publish": (True, True),
        "PubSub.PublishOne": (False, False),
    }.items()


def test_everything_in_the_proto_file_has_a_comment():
    lines = [line.strip() for line in PROTO.read_text().split("\n")]
    defines = re.compile(r"(message|enum|service|rpc|oneof) \w+|([\w<>, ]+ )?\w+ = \d+;")
    defined = [(before, line) for before, line in zip(lines, lines[1:]) if defines.match(line)]
    assert len(defined) > 80
    assert [line for before, line in defined if not before.startswith("//")] == []
