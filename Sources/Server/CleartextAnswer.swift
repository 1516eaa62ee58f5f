// CleartextAnswer: what a client is sent that is not served, by a thread that keeps no state of its protocol.

import Bytes
import Core
import HTTP2

enum CleartextAnswer {
    /// To a client that speaks another protocol than TLS to a listener of TLS.
    static func needsTLS(_ face: Face) -> [UInt8] {
        switch face {
        case .rsocket: return rejectedSetup("This port speaks TLS: connect with rsockets://.")
        case .http:
            return http1(
                "400 Bad Request", ["content-type: text/plain"],
                Array("This port speaks TLS: connect with https://.\n".utf8))
        }
    }

    /// RSocket's ERROR[REJECTED_SETUP] on stream 0.
    static func rejectedSetup(_ text: String) -> [UInt8] {
        let text = Array(text.utf8)
        let length = 10 + text.count
        return [UInt8(length >> 16), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF), 0, 0, 0, 0, 0x2C, 0, 0, 0, 0, 3]
            + text
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
