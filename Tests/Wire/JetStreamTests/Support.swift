// What the tests of JetStream share: messages in memory of their own, in which answers are read.

import Bytes
import Testing

@testable import JetStream
@testable import NATS

/// Calls `body` with a message, whose bytes nothing follows.
func withMessage<R>(
    _ headers: [UInt8]?, _ payload: [UInt8], _ body: (NATSMessage) throws -> R
) rethrows -> R {
    try Array("in.1".utf8).withUnsafeBytes { subject in
        try copied(headers ?? []) { block in
            try copied(payload) { payload in
                try body(
                    NATSMessage(
                        subject: subject, reply: nil, subscription: 1, headers: headers == nil ? nil : block,
                        payload: payload))
            }
        }
    }
}

private func copied<R>(_ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
    defer { memory.deallocate() }
    memory.copyBytes(from: bytes)
    return try body(UnsafeRawBufferPointer(memory))
}

/// What `read` makes of an answer in JSON.
func read<R>(_ json: String, _ read: (NATSMessage) throws -> R) rethrows -> R {
    try withMessage(nil, Array(json.utf8), read)
}

/// What `read` makes of a header block and a payload.
func read<R>(_ block: String, _ payload: String, _ read: (NATSMessage) throws -> R) rethrows -> R {
    try withMessage(Array(block.utf8), Array(payload.utf8), read)
}

/// The error of an answer that must be one.
func error<R>(_ json: String, _ type: (NATSMessage) throws -> R) throws -> JetStreamError {
    try #require(throws: JetStreamError.self) { try read(json) { _ = try type($0) } }
}

/// A message as text.
func describe(_ message: JetStreamMessage) -> String {
    "\(message.stream.text) \(message.subject.text) \(message.sequence) \(message.time) "
        + "\(message.headers?["Nats-Msg-Id"]?.text ?? "-") \(message.payload.text)"
}

func describe(_ item: DirectGetItem) -> String {
    switch item {
    case .message(let message): describe(message)
    case .end: "end"
    case .notFound: "not found"
    case .failed(let error): "failed \(error.isTemporary)"
    }
}
