// ClientRequests: a client's messages to the broker, each complete and after gRPC's prefix. Requests.swift is the
// counterpart: it parses these in the broker.

import Bytes
import ForebayWire
import RSocket

extension SubscribeOpen {
    /// - Parameters:
    ///   - topic: the topic's name, which the broker checks.
    ///   - requestN: the initial credit, at least 1.
    public init(topic: String, requestN: UInt32) {
        self.init()
        self.topic = topic
        self.requestN = requestN
    }

    /// Appends the SubscribeRequest that opens a subscription.
    public func append(to out: inout ByteBuffer) {
        GRPCFraming.append(to: &out) { $0.append(field: 1, fields) }
    }

    private func fields(_ out: inout ByteBuffer) {
        out.append(field: 1, topic)
        out.append(field: 2, UInt64(requestN))
        switch start {
        case .next: break
        case .last(let count): out.append(field: 3, UInt64(count))
        case .all: out.append(field: 4, 1)
        case .from(let sequence, let epoch):
            out.append(field: 5, sequence)
            out.append(field: 6, epoch ?? 0)
        // 0 means not set. One nanosecond makes no difference.
        case .since(.at(let time)): out.append(field: 11, UInt64(max(1, time)))
        case .since(.ago(let duration)): out.append(field: 12, UInt64(max(1, duration)))
        }
        out.append(field: 7, UInt64(buffer ?? 0))
        out.append(field: 8, UInt64(overflow.rawValue))
        out.append(field: 9, gapFails ? 1 : 0)
        out.append(field: 10, opening ? 1 : 0)
        for position in positions {
            out.append(field: 13) { out in
                out.append(field: 1, position.topic)
                out.append(field: 2, position.epoch)
                out.append(field: 3, position.sequence)
            }
        }
    }
}

/// Later requests of a subscription, and requests of publishers.
public enum ClientRequests {
    /// Appends the SubscribeRequest that gives `n` more credit, at least 1.
    public static func appendCredit(_ n: UInt32, to out: inout ByteBuffer) {
        GRPCFraming.append(to: &out) { $0.append(field: 2, UInt64(n)) }
    }

    /// Appends the PublishRequest that opens a publishing stream.
    ///
    /// - Parameter number: of the first message, if messages are numbered.
    public static func appendPublishOpen(
        topic: String, completesTopic: Bool, number: PublisherNumber? = nil, to out: inout ByteBuffer
    ) {
        GRPCFraming.append(to: &out) {
            $0.append(field: 1) {
                $0.append(field: 1, topic)
                $0.append(field: 2, completesTopic ? 1 : 0)
                append(number, to: &$0)
            }
        }
    }

    /// Appends the id and number of a publisher, which have the same fields in both requests.
    private static func append(_ number: PublisherNumber?, to out: inout ByteBuffer) {
        guard let number else { return }
        out.append(field: 3, number.publisher)
        out.append(field: 4, number.number)
    }

    /// Appends the PublishRequest of a message.
    public static func appendMessage(
        _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties = MessageProperties(),
        to out: inout ByteBuffer
    ) {
        GRPCFraming.append(to: &out) { appendField(2, payload, properties, to: &$0) }
    }

    /// Appends a PublishOneRequest.
    public static func appendPublishOne(
        topic: String, _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties = MessageProperties(),
        number: PublisherNumber? = nil, to out: inout ByteBuffer
    ) {
        GRPCFraming.append(to: &out) {
            $0.append(field: 1, topic)
            appendField(2, payload, properties, to: &$0)
            append(number, to: &$0)
        }
    }

    /// Appends a `Message` as a field.
    private static func appendField(
        _ number: UInt8, _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties, to out: inout ByteBuffer
    ) {
        if properties.isEmpty { return appendField(number, payload, to: &out) }
        out.append(field: number) { message in
            if !payload.isEmpty { message.append(field: 2, payload) }
            message.append(field: 4, properties.contentType)
            for (name, value) in properties.headers {
                message.append(field: 5) {
                    $0.append(field: 1, name)
                    $0.append(field: 2, value)
                }
            }
        }
    }

    /// Appends, as a field, a `Message` with only this payload.
    private static func appendField(_ number: UInt8, _ payload: UnsafeRawBufferPointer, to out: inout ByteBuffer) {
        let count = payload.isEmpty ? 0 : Protobuf.size(bytes: payload.count)
        let size = Protobuf.size(bytes: count)
        var writer = RawWriter(out.reserve(size))
        writer.head(number, count: count)
        if !payload.isEmpty { writer.field(2, payload) }
        out.commit(size)
    }

    /// Appends a HealthCheckRequest for the server as a whole.
    public static func appendHealthCheck(to out: inout ByteBuffer) { GRPCFraming.append(to: &out) { _ in } }
}

extension AdminRequest {
    /// The method that the request belongs to.
    public var method: GRPCMethod {
        switch self {
        case .list(.topics): .listTopics
        case .list(.subscriptions): .listSubscriptions
        case .list(.connections): .listConnections
        case .call(let call):
            switch call {
            case .info: .info
            case .topicInfo: .topicInfo
            case .completeTopic: .completeTopic
            case .failTopic: .failTopic
            case .deleteTopic: .deleteTopic
            case .closeConnection: .closeConnection
            case .closeSubscription: .closeSubscription
            case .publisherInfo: .publisherInfo
            }
        }
    }

    /// Appends the request's message.
    public func append(to out: inout ByteBuffer) {
        GRPCFraming.append(to: &out) {
            guard case .call(let call) = self else { return }
            switch call {
            case .info: break
            case .closeConnection(let id): $0.append(field: 1, id)
            case .closeSubscription(let id): $0.append(field: 1, id)
            case .topicInfo(let topic), .completeTopic(let topic), .deleteTopic(let topic):
                $0.append(field: 1, topic)
            case .failTopic(let topic, let message):
                $0.append(field: 1, topic)
                $0.append(field: 2, message ?? "")
            case .publisherInfo(let topic, let publisher):
                $0.append(field: 1, topic)
                $0.append(field: 2, publisher)
            }
        }
    }
}

extension GRPCHeads {
    /// The head of a call, with the pseudo-headers first (gRPC over HTTP/2, "Requests").
    ///
    /// - Parameters:
    ///   - authority: host and port of the server.
    ///   - scheme: "https" over TLS.
    public static func request(_ method: GRPCMethod, authority: String, scheme: String = "http") -> HTTPFields {
        [
            ":method": "POST", ":scheme": scheme, ":authority": authority, ":path": method.path,
            "content-type": "application/grpc", "te": "trailers", accepted.name: accepted.value,
            "user-agent": "forebay",
        ]
    }
}
