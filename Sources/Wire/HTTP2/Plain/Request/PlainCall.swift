// PlainCall: what a request asks the broker to do, and the table of paths, methods and queries.
//
//     GET, HEAD  /v1/topics/{topic}/messages?request=N&…    subscribe
//     POST       /v1/topics/{topic}/messages                publish, acknowledged
//     POST       /v1/topics/{pattern}/messages?request=N&…  subscribe; the body has positions to resume from
//     GET, HEAD  /v1/topics/{topic}/publishers/{id}         the last number of a publisher
//     POST       /v1/subscriptions/{id}/request?n=N         give a subscription credit

import ForebayWire
import RSocket

/// A subscription to open.
public struct SubscribeCall: Equatable, Sendable {
    /// The topic as sent, percent-decoded; the engine checks whether it is a valid name.
    public var topic: String
    /// Options of the subscription in the form of the engine's routes: `meta=on` is always present, `request` never,
    /// and `from` and `epoch` come from Last-Event-ID if it was sent.
    public var options: [QueryOption]
    /// The initial demand, 1 to 2³¹−1, which means unbounded.
    public var demand: UInt32
    public var format: StreamFormat
    /// Whether to open nothing: for HEAD, check the options and return only the head of a stream.
    public var isHead: Bool
    /// Whether the request's body has the positions from which to resume.
    public var hasPositions = false
}

/// A message to publish. The request's body is its payload.
public struct PublishCall: Equatable, Sendable {
    public var topic: String
    public var contentType: String?
    public var headers: [PlainHeader]
    /// Whether the message is numbered; `PlainRequest.publisherNumber` returns the number. Calls are copied often, and
    /// few of them have one.
    public var isNumbered: Bool

    public init(topic: String, contentType: String?, headers: [PlainHeader], isNumbered: Bool = false) {
        self.topic = topic
        self.contentType = contentType
        self.headers = headers
        self.isNumbered = isNumbered
    }
}

public enum PlainCall: Equatable, Sendable {
    case subscribe(SubscribeCall)
    /// An event stream's client reconnects after it has seen the end: 204 makes it stop.
    case ended
    case publish(PublishCall)
    case request(SubscriptionID, UInt32)
    /// The last number of one of the user's publishers.
    case publisher(topic: String, id: String)
    /// OPTIONS, answered by `PlainProtocol.answerOptions`.
    case options(allow: String)
}

/// What a path refers to.
private enum Resource {
    case everything
    case messages(topic: String)
    case publisher(topic: String, id: String)
    case credit(id: String)

    var allow: String {
        switch self {
        case .everything: "GET, HEAD, POST, OPTIONS"
        case .messages: "GET, HEAD, POST, OPTIONS"
        case .publisher: "GET, HEAD, OPTIONS"
        case .credit: "POST, OPTIONS"
        }
    }

    init(_ target: Target) throws(Problem) {
        if target.path == "*" {
            self = .everything
            return
        }
        let segments = try target.segments()
        if segments.count == 5, segments[0] == "v1", segments[1] == "topics", segments[3] == "publishers" {
            self = .publisher(topic: segments[2], id: segments[4])
            return
        }
        guard segments.count == 4, segments[0] == "v1" else { throw Resource.unknown(target) }
        switch (segments[1], segments[3]) {
        case ("topics", "messages"): self = .messages(topic: segments[2])
        case ("subscriptions", "request"): self = .credit(id: segments[2])
        default: throw Resource.unknown(target)
        }
    }

    private static func unknown(_ target: Target) -> Problem {
        Problem(
            .notFound,
            "There is no resource \(target.path); use /v1/topics/{topic}/messages, "
                + "/v1/topics/{topic}/publishers/{id} or /v1/subscriptions/{id}/request.")
    }
}

extension PlainCall {
    /// - Throws: the refusal.
    init(_ request: PlainRequest, limits: PlainLimits) throws(Problem) {
        try request.check()
        // The fast path for publishers.
        if request.method == "POST", let topic = Target.plainTopic(request.target), topic.utf8.count <= limits.target {
            self = try PlainCall.publish(topic, [], request, limits)
            return
        }
        let target = try Target(request.target, limit: limits.target)
        let resource = try Resource(target)
        switch (resource, request.method) {
        case (_, "OPTIONS"): self = .options(allow: resource.allow)
        case (.messages(let topic), "GET"), (.messages(let topic), "HEAD"):
            self = try PlainCall.subscribe(topic, try target.options(), request)
        case (.messages(let topic), "POST") where TopicName.isPattern(topic):
            if let length = request.contentLength { try PlainBody.check(length, limits) }
            self = try PlainCall.subscribe(topic, try target.options(), request)
        case (.messages(let topic), "POST"):
            self = try PlainCall.publish(topic, try target.options(), request, limits)
        case (.publisher(let topic, let id), "GET"), (.publisher(let topic, let id), "HEAD"):
            try PlainCall.expectNone(try target.options(), "a publisher")
            if let fault = PublisherNumber.fault(id: id) { throw Problem(.invalid, fault) }
            self = .publisher(topic: topic, id: id)
        case (.credit(let id), "POST"): self = try PlainCall.credit(id, try target.options())
        case (.everything, _):
            throw Problem(.invalid, "The target * is only valid with OPTIONS; use a path.")
        default:
            throw Problem(
                .methodNotAllowed, "\(request.method) is not allowed for \(target.path); use one of \(resource.allow).",
                allow: resource.allow)
        }
    }

    private static func subscribe(
        _ topic: String, _ query: [QueryOption], _ request: PlainRequest
    ) throws(Problem) -> PlainCall {
        var demand = PlainLimits.demand
        var options: [QueryOption] = []
        for option in query {
            switch option.name {
            case "request": demand = try number(option)
            case "meta":
                guard option.value == "on" else {
                    throw Problem(
                        .invalid,
                        "meta=\(option.value) is not supported over HTTP, which always sends "
                            + "metadata; omit the option.")
                }
            default: options.append(option)
            }
        }
        let format = try StreamFormat(accept: request.accept)
        if let text = request.lastEventID, !text.isEmpty {
            let id = try EventID(text)
            if id.isEnd { return .ended }
            // A reconnecting client repeats its query, whose start position was for the first connection.
            options.removeAll { ["replay", "from", "epoch", "since"].contains($0.name) }
            options.append(QueryOption("from", String(id.sequence + 1)))
            options.append(QueryOption("epoch", String(id.epoch)))
        }
        options.append(QueryOption("meta", "on"))
        return .subscribe(
            SubscribeCall(
                topic: topic, options: options, demand: UInt32(demand), format: format,
                isHead: request.method == "HEAD", hasPositions: request.method == "POST"))
    }

    private static func publish(
        _ topic: String, _ query: [QueryOption], _ request: PlainRequest, _ limits: PlainLimits
    ) throws(Problem) -> PlainCall {
        try expectNone(query, "a publish")
        if let length = request.contentLength { try PlainBody.check(length, limits) }
        let type = request.contentType.flatMap { $0.isEmpty ? nil : $0 }
        if let type, !CarriedMetadata.isContentType(type.utf8) {
            throw Problem(
                .invalid,
                "The content type must be ASCII of at most \(CarriedMetadata.longestContentType) bytes.")
        }
        var headers = request.messageHeaders
        // The payload is carried unchanged, so its encoding must be carried too.
        if let encoding = request.contentEncoding, !encoding.isEmpty, encoding.lowercased() != "identity",
            !headers.contains(where: { $0.name == "content-encoding" })
        {
            headers.append(PlainHeader("content-encoding", encoding))
        }
        let isNumbered = try request.publisherNumber() != nil
        return .publish(PublishCall(topic: topic, contentType: type, headers: headers, isNumbered: isNumbered))
    }

    private static func expectNone(_ query: [QueryOption], _ use: String) throws(Problem) {
        guard let option = query.first(where: { !BrokerProtocol.isIgnorable(option: $0.name) }) else { return }
        throw Problem(.invalid, "The option '\(option.name)' is unknown; \(use) over HTTP takes no options.")
    }

    private static func credit(_ text: String, _ query: [QueryOption]) throws(Problem) -> PlainCall {
        if let option = query.first(where: { $0.name != "n" && !BrokerProtocol.isIgnorable(option: $0.name) }) {
            throw Problem(.invalid, "The option '\(option.name)' is unknown; a request for messages takes only n.")
        }
        guard let option = query.first(where: { $0.name == "n" }) else {
            throw Problem(.invalid, "The number of messages is missing; add it, for example ?n=10.")
        }
        let n = try number(option)
        guard let id = SubscriptionID(text) else {
            throw Problem(
                .notFound,
                "'\(text)' is not a subscription id; use the one in the stream's header "
                    + "\(PlainHeader.subscription).")
        }
        return .request(id, UInt32(n))
    }

    /// Parses a demand.
    private static func number(_ option: QueryOption) throws(Problem) -> UInt64 {
        guard let value = Decimal.parse(option.value), (1...PlainLimits.demand).contains(value) else {
            throw Problem(
                .invalid,
                "\(option.name)=\(option.value) is not a number from 1 to \(PlainLimits.demand).")
        }
        return value
    }
}

/// The limit on the size of a body: of a message, or of positions.
public enum PlainBody {
    /// Call this with Content-Length before the body, and with the bytes received so far as they arrive.
    ///
    /// - Throws: 413 if the body has more bytes than a message may.
    public static func check(_ count: UInt64, _ limits: PlainLimits) throws(Problem) {
        guard count <= UInt64(limits.body) else {
            throw Problem(
                .tooLarge, "The body has more than \(limits.body) bytes; send a smaller one.")
        }
    }
}
