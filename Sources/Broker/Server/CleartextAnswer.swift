// CleartextAnswer: what a client is sent that is not served, by a thread that keeps no state of its protocol.

import Bytes
import Core
import ForebayWire
import HTTP2

enum CleartextAnswer {
    /// To a client that speaks another protocol than TLS to a listener of TLS.
    /// - Parameter first: the first byte that it sent. RSocket's is the length of a frame.
    static func needsTLS(_ wireProtocol: WireProtocol, _ first: UInt8) -> [UInt8] {
        switch (wireProtocol, first) {
        case (.rsocket, 0): unsupportedSetup("This port speaks TLS: connect with rsockets://.")
        case (.rsocket, _): badRequest("This port speaks RSocket over TLS: connect with rsockets://.")
        case (.http, 0): unsupportedSetup("This port speaks HTTP over TLS: connect with https://.")
        case (.http, _): badRequest("This port speaks TLS: connect with https://.")
        }
    }

    /// To a client that speaks another protocol than HTTP to a listener of HTTP without TLS.
    /// - Parameters:
    ///   - first: the first byte that it sent. RSocket's is the length of a frame, TLS's tells a handshake.
    ///   - isAdmin: the listener is the admin's.
    /// - Returns: nil where it may speak HTTP.
    static func needsHTTP(_ first: UInt8, isAdmin: Bool) -> [UInt8]? {
        switch first {
        case 0: return isAdmin ? adminPort : httpPort
        case 22: return badRequest("This port does not speak TLS: connect with http://.")
        default: return nil
        }
    }

    /// To a client that speaks RSocket to a listener of HTTP.
    static let httpPort = unsupportedSetup(
        "This port speaks HTTP: connect with http:// or https://, or to the broker's port for RSocket.")
    private static let adminPort = unsupportedSetup(
        "This is the admin port: connect to the broker's port for RSocket or HTTP.")

    /// RSocket's ERROR[REJECTED_SETUP] on stream 0.
    static func rejectedSetup(_ text: String) -> [UInt8] { error(3, text) }

    /// ERROR[UNSUPPORTED_SETUP]: another port, or another URL, is what the client needs.
    private static func unsupportedSetup(_ sentence: String) -> [UInt8] {
        error(2, ErrorWord.unsupported.text(sentence))
    }

    private static func error(_ code: UInt8, _ text: String) -> [UInt8] {
        let text = Array(text.utf8)
        let length = 10 + text.count
        let size = [UInt8(length >> 16), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF)]
        return size + [0, 0, 0, 0, 0x2C, 0, 0, 0, 0, code] + text
    }

    /// By as many bytes HTTP/2 is told from HTTP/1.1.
    static let preface = Array("PRI".utf8)

    /// To a client of HTTP whose first bytes are these.
    static func http(_ first: [UInt8], _ cause: ConnectionRefusal) -> [UInt8] {
        first == preface ? goAway(cause.message) : http1(cause.problem)
    }

    /// An answer to any request over HTTP/1.1, after which the connection ends.
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

    /// HTTP/2's SETTINGS, with which a server has to begin, and GOAWAY[NO_ERROR]: no stream has been processed (RFC
    /// 9113, 6.8).
    static func goAway(_ text: String) -> [UInt8] {
        let text = Array(text.utf8)
        let length = 8 + text.count
        let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]
        let head = [UInt8(length >> 16), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF), 7, 0, 0, 0, 0, 0]
        return settings + head + [UInt8](repeating: 0, count: 8) + text
    }

    /// TLS's fatal alert internal_error, which stands for a want of resources (RFC 8446, 6.2). It comes in the clear,
    /// before any handshake.
    static let alert: [UInt8] = [21, 3, 3, 0, 2, 2, 80]
}
