// JetStreamAnswer: what all answers in JSON have in common: no server may have received the request, or the answer is
// an error.

import JSONParsing
import NATS

/// The answer to a request whose success is all that matters.
public struct JetStreamAnswer {
    let root: JSONValue

    init(_ message: NATSMessage) throws(JetStreamError) {
        if let block = message.headers {
            let status: Int?
            do { status = try NATSHeaders(block).status } catch { throw .malformed(error.sentence) }
            if let status { throw JetStreamError(status: status) }
        }
        guard let document = JSONDocument(message.payload) else { throw .malformed("It is not a JSON object.") }
        root = document.root
        guard let error = root["error"] else { return }
        guard let code = error["err_code"]?.integer, let status = error["code"]?.integer else {
            throw .malformed("Its error has no number.")
        }
        throw JetStreamError(code: code, status: status, error["description"]?.string ?? "")
    }

    /// - Throws: the error that the server answered, or that the answer is malformed.
    public static func expectSuccess(_ message: NATSMessage) throws(JetStreamError) { _ = try JetStreamAnswer(message) }

    /// - Throws: if there is no such member.
    func member(_ name: String) throws(JetStreamError) -> JSONValue {
        guard let value = root[name] else { throw .missing(name) }
        return value
    }
}

extension JSONValue {
    /// A member that is a number of 0 or more.
    func count(_ name: String) throws(JetStreamError) -> UInt64 {
        guard let value = self[name]?.integer, let count = UInt64(exactly: value) else { throw .missing(name) }
        return count
    }

    /// A member that is a string.
    func text(_ name: String) throws(JetStreamError) -> String {
        guard let text = self[name]?.string else { throw .missing(name) }
        return text
    }
}
