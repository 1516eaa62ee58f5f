// AdminAnswer: a response of the admin listener.

import Bytes
import Core
import HTTP2

struct AdminAnswer: Sendable {
    var status = 200
    var type = "application/json"
    var headers: [(name: String, value: String)] = []
    var body: [UInt8]

    init(json: String) { body = Array((json + "\n").utf8) }

    init(status: Int = 200, type: String, text: String) {
        self.status = status
        self.type = type
        body = Array(text.utf8)
    }

    init(type: String, bytes: [UInt8], headers: [(name: String, value: String)]) {
        self.type = type
        self.headers = headers
        body = bytes
    }

    init(_ problem: Problem) {
        status = problem.status
        type = Problem.mime
        headers = problem.headers.map { ($0.name, $0.value) }
        var buffer = ByteBuffer(minimumCapacity: 256)
        problem.append(into: &buffer)
        body = Array(buffer.readable)
    }

    /// The answer without the Basic challenge, which would make browsers show their own login dialog.
    var withoutDialog: AdminAnswer {
        var copy = self
        copy.headers.removeAll { $0.name == "www-authenticate" && $0.value.hasPrefix("Basic") }
        return copy
    }

    /// The response head, for the driver.
    func head(isLast: Bool, wall: Int64) -> HTTP1Answer {
        let common: [(name: String, value: String)] = [
            ("date", HTTPDate.text(wall)), ("content-type", type), ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ]
        return HTTP1Answer(status: status, headers: common + headers, length: body.count, isLast: isLast)
    }
}
