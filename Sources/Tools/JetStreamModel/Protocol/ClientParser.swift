// ClientParser: splits what a client sends into operations.

/// One operation of a client.
enum ClientOperation {
    /// The JSON of CONNECT.
    case connect([UInt8])
    case ping
    case pong
    case subscribe(filter: String, queue: String?, id: String)
    /// `max`: messages since SUB after which the subscription ends.
    case unsubscribe(id: String, max: Int?)
    case publish(Publication)
}

/// A message that is published.
struct Publication {
    var subject: String
    /// Where answers go.
    var reply: String?
    /// Nil for PUB.
    var headers: [UInt8]?
    var payload: [UInt8]
}

/// Why a server closes a connection; `text` is sent as -ERR before.
struct ClientError: Error {
    var text: String?
}

/// The parser of one connection. Append bytes, then call `next` until it returns nil.
struct ClientParser {
    /// A PUB or HPUB whose line has arrived.
    private struct Head {
        var publication: Publication
        var headers: Int?
        var size: Int
    }

    private static let maxLine = 4_096
    private let maxPayload: Int
    private var bytes: [UInt8] = []
    /// The bytes before this one have been handled.
    private var start = 0
    private var head: Head?

    init(maxPayload: Int) { self.maxPayload = maxPayload }

    mutating func append(_ more: some Sequence<UInt8>) {
        bytes.removeFirst(start)
        start = 0
        bytes += more
    }

    /// The next operation; nil if it has not fully arrived.
    /// - Throws: if the connection ends.
    mutating func next() throws(ClientError) -> ClientOperation? {
        while true {
            if let head { return try body(of: head).map(ClientOperation.publish) }
            guard let end = bytes[start...].firstIndex(of: 0x0A) else {
                guard bytes.count - start <= ClientParser.maxLine else { throw ClientParser.tooLong }
                return nil
            }
            let line = bytes[start..<end].filter { $0 != 0x0D }
            guard line.count <= ClientParser.maxLine + 8 else { throw ClientParser.tooLong }
            start = end + 1
            if let operation = try interpret(line) { return operation }
        }
    }

    private static let tooLong = ClientError(text: "maximum control line exceeded")
    private static let unknown = ClientError(text: "Unknown Protocol Operation")

    /// Nil for the line of PUB or HPUB, whose body follows.
    private mutating func interpret(_ line: [UInt8]) throws(ClientError) -> ClientOperation? {
        let fields = line.split { $0 == 0x20 || $0 == 0x09 }.map { String(decoding: $0, as: UTF8.self) }
        let arguments = Array(fields.dropFirst())
        switch fields.first?.lowercased() {
        case "ping": return .ping
        case "pong": return .pong
        case "connect": return .connect(Array(line.drop { $0 != 0x20 && $0 != 0x09 }))
        case "sub":
            guard 2...3 ~= arguments.count, let id = arguments.last else { throw ClientError() }
            return .subscribe(filter: arguments[0], queue: arguments.count == 3 ? arguments[1] : nil, id: id)
        case "unsub":
            guard 1...2 ~= arguments.count else { throw ClientError() }
            return .unsubscribe(id: arguments[0], max: arguments.count == 2 ? ClientParser.decimal(arguments[1]) : nil)
        case "pub":
            try begin(arguments, hasHeaders: false)
            return nil
        case "hpub":
            try begin(arguments, hasHeaders: true)
            return nil
        default: throw ClientParser.unknown
        }
    }

    private mutating func begin(_ arguments: [String], hasHeaders: Bool) throws(ClientError) {
        let least = hasHeaders ? 3 : 2
        guard least...least + 1 ~= arguments.count, let size = arguments.last.flatMap(ClientParser.decimal) else {
            throw ClientError()
        }
        var headers: Int?
        if hasHeaders {
            guard let count = ClientParser.decimal(arguments[arguments.count - 2]), count <= size else {
                throw ClientError()
            }
            headers = count
        }
        guard size <= maxPayload else { throw ClientError(text: "Maximum Payload Violation") }
        let publication = Publication(
            subject: arguments[0], reply: arguments.count > least ? arguments[1] : nil, headers: nil, payload: [])
        head = Head(publication: publication, headers: headers, size: size)
    }

    private mutating func body(of head: Head) throws(ClientError) -> Publication? {
        let end = start + head.size
        guard bytes.count >= end + 2 else { return nil }
        guard bytes[end] == 0x0D, bytes[end + 1] == 0x0A else { throw ClientParser.unknown }
        var publication = head.publication
        let middle = start + (head.headers ?? 0)
        if head.headers != nil { publication.headers = Array(bytes[start..<middle]) }
        publication.payload = Array(bytes[middle..<end])
        start = end + 2
        self.head = nil
        return publication
    }

    private static func decimal(_ text: String) -> Int? {
        text.utf8.count <= 9 && text.utf8.allSatisfy { 0x30...0x39 ~= $0 } ? Int(text) : nil
    }
}
