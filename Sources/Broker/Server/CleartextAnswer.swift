// CleartextAnswer: answers to clients that are refused, sent by threads that keep no protocol state for them.

import Bytes
import Core
import ForebayWire
import HTTP2

enum CleartextAnswer {
    /// The answer to a client that does not speak TLS on a TLS listener.
    /// - Parameter first: the first byte that the client sent. In RSocket, it is part of a frame's length.
    static func needsTLS(_ wireProtocol: WireProtocol, _ first: UInt8) -> [UInt8] {
        switch (wireProtocol, first) {
        case (.rsocket, 0): unsupportedSetup("This port speaks TLS; connect with rsockets://.")
        case (.rsocket, _): badRequest("This port speaks RSocket over TLS; connect with rsockets://.")
        case (.http, 0): unsupportedSetup("This port speaks HTTP over TLS; connect with https://.")
        case (.http, _): badRequest("This port speaks TLS; connect with https://.")
        }
    }

    /// The answer to a client that does not speak HTTP on an HTTP listener without TLS.
    /// - Parameters:
    ///   - first: the first byte that the client sent. In RSocket, it is part of a frame's length; in TLS, the record
    ///     type.
    ///   - isAdmin: whether the listener is the admin listener.
    /// - Returns: nil if the client may speak HTTP.
    static func needsHTTP(_ first: UInt8, isAdmin: Bool) -> [UInt8]? {
        switch first {
        case 0: return isAdmin ? adminPort : httpPort
        case 22: return badRequest("This port does not speak TLS; connect with http://.")
        default: return nil
        }
    }

    /// The answer to a client that speaks RSocket on an HTTP listener.
    static let httpPort = unsupportedSetup(
        "This port speaks HTTP; connect with http:// or https://, or to the broker's RSocket port.")
    private static let adminPort = unsupportedSetup(
        "This is the admin port; connect to the broker's RSocket or HTTP port.")

    /// An RSocket ERROR[REJECTED_SETUP] on stream 0.
    static func rejectedSetup(_ text: String) -> [UInt8] { error(3, text) }

    /// An RSocket ERROR[UNSUPPORTED_SETUP]: the client needs another port or URL.
    private static func unsupportedSetup(_ sentence: String) -> [UInt8] {
        error(2, ErrorWord.unsupported.text(sentence))
    }

    private static func error(_ code: UInt8, _ text: String) -> [UInt8] {
        let text = Array(text.utf8)
        let length = 10 + text.count
        let size = [UInt8(length >> 16), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF)]
        return size + [0, 0, 0, 0, 0x2C, 0, 0, 0, 0, code] + text
    }

    /// The bytes that distinguish HTTP/2 from HTTP/1.1.
    static let preface = Array("PRI".utf8)

    /// The answer to an HTTP client that has sent these first bytes.
    static func http(_ first: [UInt8], _ cause: ConnectionRefusal) -> [UInt8] {
        first == preface ? goAway(cause.message) : http1(cause.problem)
    }

    /// A response to any HTTP/1.1 request, after which the connection is closed.
    static func http1(_ problem: Problem) -> [UInt8] {
        var content = ByteBuffer()
        problem.append(into: &content)
        let headers = ["content-type: \(Problem.mime)"] + problem.headers.map { "\($0.name): \($0.value)" }
        let phrase = problem.status == 503 ? "503 Service Unavailable" : "\(problem.status) Refused"
        return http1(phrase, headers, Array(content.readable))
    }

    private static func badRequest(_ sentence: String) -> [UInt8] {
        let text = ErrorWord.unsupported.text(sentence)
        return http1("400 Bad Request", ["content-type: text/plain"], Array("\(text)\n".utf8))
    }

    private static func http1(_ status: String, _ headers: [String], _ content: [UInt8]) -> [UInt8] {
        let all = headers + ["content-length: \(content.count)", "connection: close"]
        return Array("HTTP/1.1 \(status)\r\n\(all.map { $0 + "\r\n" }.joined())\r\n".utf8) + content
    }

    /// HTTP/2 SETTINGS, which a server must send first, and GOAWAY[NO_ERROR] with last stream 0: no stream has been
    /// processed (RFC 9113, 6.8).
    static func goAway(_ text: String) -> [UInt8] {
        let text = Array(text.utf8)
        let length = 8 + text.count
        let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]
        let head = [UInt8(length >> 16), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF), 7, 0, 0, 0, 0, 0]
        return settings + head + [UInt8](repeating: 0, count: 8) + text
    }

    /// The fatal TLS alert internal_error, for a lack of resources (RFC 8446, 6.2). The alert is sent in the clear,
    /// before any handshake.
    static let alert: [UInt8] = [21, 3, 3, 0, 2, 2, 80]
}
