// GRPCCall: the parsed head of a request: the method called and its timeout (gRPC over HTTP/2, "Requests").

/// The methods that the broker serves.
public enum GRPCMethod: String, Sendable, CaseIterable {
    case subscribe = "/forebay.v1.PubSub/Subscribe"
    case publish = "/forebay.v1.PubSub/Publish"
    case publishOne = "/forebay.v1.PubSub/PublishOne"
    case info = "/forebay.v1.Admin/Info"
    case topicInfo = "/forebay.v1.Admin/TopicInfo"
    case completeTopic = "/forebay.v1.Admin/CompleteTopic"
    case failTopic = "/forebay.v1.Admin/FailTopic"
    case deleteTopic = "/forebay.v1.Admin/DeleteTopic"
    case closeConnection = "/forebay.v1.Admin/CloseConnection"
    case closeSubscription = "/forebay.v1.Admin/CloseSubscription"
    case publisherInfo = "/forebay.v1.Admin/PublisherInfo"
    case listTopics = "/forebay.v1.Admin/ListTopics"
    case listSubscriptions = "/forebay.v1.Admin/ListSubscriptions"
    case listConnections = "/forebay.v1.Admin/ListConnections"
    case healthCheck = "/grpc.health.v1.Health/Check"
    case healthWatch = "/grpc.health.v1.Health/Watch"
    case healthList = "/grpc.health.v1.Health/List"
    case reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    case reflectionAlpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

    /// The method's `:path`.
    public var path: String { rawValue }

    /// The full name of its service, such as `forebay.v1.PubSub`.
    public var service: String {
        String(rawValue.dropFirst().prefix { $0 != "/" })
    }

    /// Whether the client sends only one message. Other methods accept messages until the client half-closes.
    public var takesOneMessage: Bool {
        switch self {
        case .subscribe, .publish, .reflection, .reflectionAlpha: false
        default: true
        }
    }

    /// Services by full name, in listing order.
    public static let services: [String] = {
        var names: [String] = []
        for method in allCases where names.last != method.service { names.append(method.service) }
        return names
    }()

    /// - Throws: UNIMPLEMENTED for an unknown path; the text says whether the service or the method is unknown.
    public static func named(_ path: String) throws(GRPCError) -> GRPCMethod {
        if let method = GRPCMethod(rawValue: path) { return method }
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        if parts.count == 3, parts[0].isEmpty, services.contains(String(parts[1])) {
            let known = allCases.filter { $0.service == parts[1] }.map { $0.path.split(separator: "/")[1] }
            throw GRPCError(
                .unimplemented,
                "'\(shown(parts[2]))' is not a method of \(parts[1]); it has \(known.joined(separator: ", ")).")
        }
        throw GRPCError(
            .unimplemented,
            "'\(shown(path[...]))' is not a service of this broker; use one of \(services.joined(separator: ", ")).")
    }

    /// The client's text, shortened for use in a message.
    fileprivate static func shown(_ text: Substring) -> String {
        text.utf8.count <= 100 ? String(text) : text.prefix(100) + "…"
    }
}

/// Why a request is not accepted as a call.
public enum GRPCHeadRefusal: Error, Equatable, Sendable {
    /// The request is not gRPC: answer with this HTTP status, without a body. `allow` is the header that 405 requires.
    case http(status: Int, allow: String?)
    /// The request is gRPC: answer with 200 and these trailers only.
    case call(GRPCError)

    /// The headers of the response, which also end the stream.
    public var headers: [(name: String, value: String)] {
        switch self {
        case .http(let status, let allow):
            [(":status", String(status))] + (allow.map { [("allow", $0)] } ?? [])
        case .call(let error): GRPCHeads.trailersOnly(error)
        }
    }
}

/// A call, as described by its head.
public struct GRPCCall: Equatable, Sendable {
    public var method: GRPCMethod
    /// Time from the head's arrival until the call ends with DEADLINE_EXCEEDED, in ns; nil if it has no deadline.
    /// Longer times are capped at 2⁶³−1 ns, 292 years.
    public var timeout: UInt64?

    /// Whether a request is for gRPC, unless its path belongs to plain HTTP: its content type begins with
    /// `application/grpc`.
    public static func isMeant(_ headers: [(name: String, value: String)]) -> Bool {
        headers.contains { $0.name == "content-type" && $0.value.lowercased().hasPrefix(mime) }
    }

    private static let mime = "application/grpc"

    /// Parses a request's head. Unknown headers are ignored. gRPC asks clients to send `te: trailers`, to detect
    /// intermediaries without trailers; a call without it is accepted anyway.
    ///
    /// - Parameters:
    ///   - method: `:method`.
    ///   - path: `:path`.
    ///   - headers: all others, with names in lower case.
    /// - Throws: 405 for a method other than POST, 415 for another content type; UNIMPLEMENTED for an unknown service
    ///   or method and for compression, INVALID_ARGUMENT for a malformed timeout.
    public static func parse(
        method: String, path: String, headers: [(name: String, value: String)]
    ) throws(GRPCHeadRefusal) -> GRPCCall {
        guard method == "POST" else { throw .http(status: 405, allow: "POST") }
        var isGRPC = false
        var encoding = "identity"
        var timeout: String?
        for (name, value) in headers {
            switch name {
            case "content-type": isGRPC = isContentType(value)
            case "grpc-encoding": encoding = value
            case "grpc-timeout": timeout = value
            default: break
            }
        }
        guard isGRPC else { throw .http(status: 415, allow: nil) }
        do throws(GRPCError) {
            var call = GRPCCall(method: try GRPCMethod.named(path), timeout: nil)
            guard encoding == "identity" else {
                throw GRPCError(
                    .unimplemented,
                    "The grpc-encoding '\(GRPCMethod.shown(encoding[...]))' is not supported; use identity.")
            }
            if let timeout { call.timeout = try nanoseconds(timeout) }
            return call
        } catch {
            throw .call(error)
        }
    }

    /// Whether the content type is `application/grpc` or `application/grpc+proto`, with any parameters.
    private static func isContentType(_ value: String) -> Bool {
        var type = value.prefix { $0 != ";" }
        while type.last == " " || type.last == "\t" { type.removeLast() }
        let lower = type.lowercased()
        return lower == mime || lower == mime + "+proto"
    }

    /// `grpc-timeout`: 1 to 8 digits and a unit.
    static func nanoseconds(_ text: String) throws(GRPCError) -> UInt64 {
        let digits = text.utf8.dropLast()
        guard (1...8).contains(digits.count), digits.allSatisfy({ (0x30...0x39).contains($0) }), let unit = unit(text),
            let value = UInt64(String(decoding: digits, as: UTF8.self))
        else {
            throw .invalid(
                "The grpc-timeout is invalid; use 1 to 8 digits and a unit (H, M, S, m, u or n), for example 100m.")
        }
        let (product, overflow) = value.multipliedReportingOverflow(by: unit)
        return overflow ? longest : Swift.min(product, longest)
    }

    private static let longest = UInt64(Int64.max)

    private static func unit(_ text: String) -> UInt64? {
        switch text.utf8.last {
        case UInt8(ascii: "H"): 3_600_000_000_000
        case UInt8(ascii: "M"): 60_000_000_000
        case UInt8(ascii: "S"): 1_000_000_000
        case UInt8(ascii: "m"): 1_000_000
        case UInt8(ascii: "u"): 1000
        case UInt8(ascii: "n"): 1
        default: nil
        }
    }
}
