// PlainAnswer: status, headers and body of a response, made by PlainProtocol for a request.

import Bytes
import ForebayWire

/// A header; its name is in lower case.
public struct PlainHeader: Equatable, Sendable {
    public var name: String
    public var value: String

    public init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }

    /// Carries the subscription id of a stream.
    public static let subscription = "forebay-subscription"
}

/// A response for the transport to send. The transport adds Content-Length, Date and connection headers.
public struct PlainAnswer: Equatable, Sendable {
    public var status: Int
    public var headers: [PlainHeader]
    /// Empty for a stream, whose body follows later.
    public var body: [UInt8]
    /// Whether the request was HEAD, for which the body is not sent, although its length may be.
    public var omitsBody: Bool
}

/// Plain HTTP for the broker: turns requests into calls and results into responses.
public final class PlainProtocol: Sendable {
    public let limits: PlainLimits
    public let cors: CORSPolicy
    public let hosts: HostPolicy

    public init(
        limits: PlainLimits = PlainLimits(), cors: CORSPolicy = CORSPolicy(), hosts: HostPolicy = HostPolicy()
    ) {
        self.limits = limits
        self.cors = cors
        self.hosts = hosts
    }

    /// What a request asks for. Call it once the head is complete, before the body is read.
    ///
    /// - Throws: the refusal; answer it with `answer(_:to:)`.
    public func call(_ request: PlainRequest) throws(Problem) -> PlainCall {
        let call = try PlainCall(request, limits: limits)
        try hosts.check(request.authority)
        // A browser prevents a foreign page from reading responses, but not from sending requests.
        if let origin = request.origin, request.method != "OPTIONS",
            !cors.allows(origin: origin, authority: request.authority)
        {
            throw Problem(
                .foreignOrigin,
                "Pages from \(origin) may not use this broker; start it with --allow-origin \(origin) to allow them.")
        }
        return call
    }

    /// The response to OPTIONS, preflight or not.
    public func answerOptions(allow: String, to request: PlainRequest) -> PlainAnswer {
        var headers = [PlainHeader("allow", allow)]
        headers += cors.preflightHeaders(request, allow: allow)
        return PlainAnswer(status: 204, headers: headers, body: [], omitsBody: false)
    }

    /// The response for a refusal.
    public func answer(_ problem: Problem, to request: PlainRequest) -> PlainAnswer {
        var body = ByteBuffer(minimumCapacity: 256)
        problem.append(into: &body)
        let headers = [PlainHeader("content-type", Problem.mime)] + problem.headers
        return answer(problem.status, headers, Array(body.readable), to: request)
    }

    /// The response for an accepted message.
    ///
    /// - Parameters:
    ///   - isDuplicate: whether the message had already been published.
    ///   - origin: the origin of the page that sent the request, if any.
    public func answerPublished(
        sequence: UInt64, epoch: UInt64, isDuplicate: Bool = false, origin: String?
    ) -> PlainAnswer {
        // Assembled from bytes, because every message needs this response.
        let head: StaticString = "{\"sequence\":"
        let middle: StaticString = ",\"epoch\":\""
        let tail: StaticString = isDuplicate ? "\",\"duplicate\":true}\n" : "\"}\n"
        let count =
            head.utf8CodeUnitCount + RawWriter.digits(sequence) + middle.utf8CodeUnitCount + RawWriter.digits(epoch)
            + tail.utf8CodeUnitCount
        let body = [UInt8](unsafeUninitializedCapacity: count) { bytes, initialized in
            var writer = RawWriter(bytes.baseAddress!)
            writer.put(head)
            writer.put(decimal: sequence)
            writer.put(middle)
            writer.put(decimal: epoch)
            writer.put(tail)
            initialized = count
        }
        return PlainAnswer(
            status: 200, headers: withCORS(PlainProtocol.published, origin), body: body, omitsBody: false)
    }

    /// The response with a JSON object.
    public func answer(json: String, to request: PlainRequest) -> PlainAnswer {
        answer(200, [PlainHeader("content-type", "application/json")], Array((json + "\n").utf8), to: request)
    }

    /// The response if credit was given, or, for `PlainCall.ended`, if nothing is left to stream.
    public func answerEmpty(to request: PlainRequest) -> PlainAnswer { answer(204, [], [], to: request) }

    /// The head of a stream of messages.
    ///
    /// - Parameter id: the subscription's id; nil for HEAD, which opens none.
    public func streamHead(_ format: StreamFormat, id: SubscriptionID?, to request: PlainRequest) -> PlainAnswer {
        var headers = [
            PlainHeader("content-type", format.mime),
            // For proxies such as nginx: forward every message immediately.
            PlainHeader("x-accel-buffering", "no"),
            PlainHeader("vary", "accept"),
        ]
        if let id { headers.append(PlainHeader(PlainHeader.subscription, id.text)) }
        return answer(200, headers, [], to: request)
    }

    private static let common = [
        PlainHeader("cache-control", "no-store"), PlainHeader("x-content-type-options", "nosniff"),
    ]
    private static let published = [PlainHeader("content-type", "application/json")] + common

    private func answer(
        _ status: Int, _ own: [PlainHeader], _ body: [UInt8], to request: PlainRequest
    ) -> PlainAnswer {
        let headers = withCORS(own + PlainProtocol.common, request.origin)
        return PlainAnswer(status: status, headers: headers, body: body, omitsBody: request.method == "HEAD")
    }

    private func withCORS(_ headers: [PlainHeader], _ origin: String?) -> [PlainHeader] {
        let more = cors.headers(origin: origin)
        return more.isEmpty ? headers : headers + more
    }
}
