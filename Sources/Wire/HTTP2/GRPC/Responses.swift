// Responses: what the broker sends to publishers and for control calls, each as a whole message after gRPC's prefix.

import Bytes
import ForebayWire

/// `PublishResponse`: credit, acknowledgements, or both.
public struct PublishResponse: Equatable, Sendable {
    /// In addition to earlier grants.
    public var grantedCredit: UInt64
    /// 0 before the first message is accepted.
    public var acknowledgedSequence: UInt64
    /// Messages of this call accepted so far.
    public var acceptedCount: UInt64
    /// Whether some of the messages that this response acknowledges are duplicates.
    public var duplicate: Bool

    public init(
        grantedCredit: UInt64, acknowledgedSequence: UInt64, acceptedCount: UInt64, duplicate: Bool = false
    ) {
        self.grantedCredit = grantedCredit
        self.acknowledgedSequence = acknowledgedSequence
        self.acceptedCount = acceptedCount
        self.duplicate = duplicate
    }

    public func append(to out: inout ByteBuffer) {
        GRPCFraming.append(
            numbers: grantedCredit, acknowledgedSequence, acceptedCount, duplicate ? 1 : 0, to: &out)
    }
}

/// `PublishOneResponse`.
public struct PublishOneResponse: Equatable, Sendable {
    public var sequence: UInt64
    public var epoch: UInt64
    /// Whether the message had already been published.
    public var duplicate: Bool

    public init(sequence: UInt64, epoch: UInt64, duplicate: Bool = false) {
        self.sequence = sequence
        self.epoch = epoch
        self.duplicate = duplicate
    }

    public func append(to out: inout ByteBuffer) {
        GRPCFraming.append(numbers: sequence, epoch, duplicate ? 1 : 0, to: &out)
    }
}

/// A control call of `Admin`. Topic names are as sent, not yet checked.
public enum AdminRequest: Equatable, Sendable {
    case call(ControlCall)
    case list(BrokerList)

    /// - Parameter method: one of Admin's.
    /// - Throws: INVALID_ARGUMENT for malformed bytes; UNIMPLEMENTED if `method` is not one of Admin's.
    public static func parse(
        _ bytes: UnsafeRawBufferPointer, of method: GRPCMethod
    ) throws(GRPCError) -> AdminRequest {
        var topic = ""
        var message = ""
        var subscription: UInt64 = 0
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "request", &reader) {
            switch (number, value) {
            case (1, .bytes(let text)) where method.namesTopic: topic = try checkedText(text, "topic").text
            case (1, .bytes(let text)) where method == .closeConnection: topic = try checkedText(text, "id").text
            case (1, .varint(let value)) where method == .closeSubscription: subscription = value
            case (2, .bytes(let text)) where method == .failTopic: message = try checkedText(text, "message").text
            case (2, .bytes(let text)) where method == .publisherInfo:
                message = try checkedText(text, "publisher_id").text
            default: break
            }
        }
        switch method {
        case .info: return .call(.info)
        case .topicInfo: return .call(.topicInfo(topic))
        case .completeTopic: return .call(.completeTopic(topic))
        case .failTopic: return .call(.failTopic(topic, message: message.isEmpty ? nil : message))
        case .deleteTopic: return .call(.deleteTopic(topic))
        case .closeConnection: return .call(.closeConnection(topic))
        case .closeSubscription: return .call(.closeSubscription(subscription))
        case .publisherInfo: return .call(.publisherInfo(topic: topic, publisher: message))
        case .listTopics: return .list(.topics)
        case .listSubscriptions: return .list(.subscriptions)
        case .listConnections: return .list(.connections)
        default: throw GRPCError(.unimplemented, "\(method.path) is not a control call.")
        }
    }
}

extension GRPCMethod {
    fileprivate var namesTopic: Bool {
        switch self {
        case .topicInfo, .completeTopic, .failTopic, .deleteTopic, .publisherInfo: true
        default: false
        }
    }
}

/// `InfoResponse`.
public struct InfoResponse: Equatable, Sendable {
    public var json: String
    public var version: String
    /// `BrokerProtocol.number`.
    public var number: UInt64
    public var features: [String]

    public init(json: String, version: String, number: UInt64, features: [String]) {
        self.json = json
        self.version = version
        self.number = number
        self.features = features
    }

    public func append(to out: inout ByteBuffer) {
        GRPCFraming.append(to: &out) {
            $0.append(field: 1, json)
            $0.append(field: 2, version)
            $0.append(field: 3, number)
            for feature in features { $0.append(element: 4, feature) }
        }
    }
}

/// `Topic`: the response of four calls, and a row of ListTopics.
public struct TopicRow: Equatable, Sendable {
    /// `TopicState`, with its numbers.
    public enum State: UInt8, Sendable {
        case live = 1
        case completed = 2
        case failed = 3
    }
    /// `TopicStorage`, with its numbers.
    public enum Storage: UInt8, Sendable {
        case memory = 1
        case durable = 2
        case relaxed = 3
        case shared = 4
    }

    public var json: String
    public var name: String
    public var epoch: UInt64
    /// Nil means unspecified.
    public var state: State?
    /// Empty unless it has failed.
    public var error: String
    public var firstSequence: UInt64
    public var nextSequence: UInt64
    /// Nil means unspecified.
    public var storage: Storage?
    /// What its messages are charged, and those of them that the store has not written.
    public var bytes: UInt64
    public var uncommittedBytes: UInt64

    public init(
        json: String, name: String, epoch: UInt64, state: State?, error: String, firstSequence: UInt64,
        nextSequence: UInt64, storage: Storage? = nil, bytes: UInt64 = 0, uncommittedBytes: UInt64 = 0
    ) {
        self.json = json
        self.name = name
        self.epoch = epoch
        self.state = state
        self.error = error
        self.firstSequence = firstSequence
        self.nextSequence = nextSequence
        self.storage = storage
        self.bytes = bytes
        self.uncommittedBytes = uncommittedBytes
    }

    public func append(to out: inout ByteBuffer) {
        GRPCFraming.append(to: &out) {
            $0.append(field: 1, json)
            $0.append(field: 2, name)
            $0.append(field: 3, epoch)
            $0.append(field: 4, UInt64(state?.rawValue ?? 0))
            $0.append(field: 5, error)
            $0.append(field: 6, firstSequence)
            $0.append(field: 7, nextSequence)
            $0.append(field: 8, UInt64(storage?.rawValue ?? 0))
            $0.append(field: 9, bytes)
            $0.append(field: 10, uncommittedBytes)
        }
    }
}

/// `PublisherInfoResponse`.
public struct PublisherRow: Equatable, Sendable {
    public var json: String
    /// The number of its last message; 0 if the topic does not know the publisher.
    public var number: UInt64
    /// The sequence of that message; 0 if the publisher is unknown.
    public var sequence: UInt64
    /// The topic's epoch; 0 if there is no such topic.
    public var epoch: UInt64

    public init(json: String, number: UInt64, sequence: UInt64, epoch: UInt64) {
        self.json = json
        self.number = number
        self.sequence = sequence
        self.epoch = epoch
    }

    public func append(to out: inout ByteBuffer) {
        GRPCFraming.append(to: &out) {
            $0.append(field: 1, json)
            $0.append(field: 2, number)
            $0.append(field: 3, sequence)
            $0.append(field: 4, epoch)
        }
    }
}

/// `Subscription`, a row of ListSubscriptions.
public struct SubscriptionRow: Equatable, Sendable {
    public var json: String
    public var id: UInt64
    public var topic: String
    public var connection: String

    public init(json: String, id: UInt64, topic: String, connection: String) {
        self.json = json
        self.id = id
        self.topic = topic
        self.connection = connection
    }

    public func append(to out: inout ByteBuffer) {
        GRPCFraming.append(to: &out) {
            $0.append(field: 1, json)
            $0.append(field: 2, id)
            $0.append(field: 3, topic)
            $0.append(field: 4, connection)
        }
    }
}

/// `Connection`, a row of ListConnections.
public struct ConnectionRow: Equatable, Sendable {
    public var json: String
    public var id: String
    public var peer: String

    public init(json: String, id: String, peer: String) {
        self.json = json
        self.id = id
        self.peer = peer
    }

    public func append(to out: inout ByteBuffer) {
        GRPCFraming.append(to: &out) {
            $0.append(field: 1, json)
            $0.append(field: 2, id)
            $0.append(field: 3, peer)
        }
    }
}
