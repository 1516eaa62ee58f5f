// NATSParser: splits what a NATS server sends into operations. Bytes go in, operations come out.
//
//     line --complete line of MSG or HMSG--> body --payload and line break--> line
//        \__any other complete line: an operation, and the next line__________/
//         \__an error--> failed
//
// An operation that arrives whole is read in place in the caller's bytes. Others are collected in `aside`, whose space
// is reserved as soon as the length is known, so a payload is copied at most once. `aside` is freed when it is empty.
// The protocol: https://docs.nats.io/reference/reference-protocols/nats-protocol

import Bytes

/// One operation of a server. Pointers are valid until the next call of `next` or `feed`.
enum NATSOperation {
    /// The JSON of INFO.
    case info(UnsafeRawBufferPointer)
    case message(NATSMessage)
    case ping
    case pong
    case ok
    /// The text of -ERR, without quotation marks, at most `NATSLimits.maxErrorText` bytes.
    case error(UnsafeRawBufferPointer)
}

/// The parser of one connection. No input can make it trap or exceed its limits. Call `feed`, then `next` until it
/// returns nil.
struct NATSParser: ~Copyable {
    /// A message whose line has arrived. The ranges begin at the front.
    private struct Head {
        var subject: Range<Int>
        var reply: Range<Int>?
        var subscription: UInt64
        /// The length of the line with its break.
        var line: Int
        /// Bytes of headers; nil for MSG.
        var headers: Int?
        /// Bytes of headers and payload.
        var size: Int
    }

    private enum State {
        /// `searched` bytes at the front have no line feed.
        case line(searched: Int)
        case body(Head)
        case failed(NATSError)
    }

    private let limits: NATSLimits
    private var state = State.line(searched: 0)
    /// The part of the caller's bytes that has not been read yet.
    private var input = UnsafeRawBufferPointer.nothing
    /// The beginning of an unfinished operation.
    private var aside = ByteBuffer()
    /// Bytes at the front of `aside` that the latest operation may point to.
    private var pointedAt = 0

    init(limits: NATSLimits = NATSLimits()) { self.limits = limits }

    /// Bytes of memory held for an unfinished operation.
    var bufferedBytes: Int { aside.capacity }

    /// Whether bytes have arrived that belong to no operation returned so far.
    var hasUnread: Bool { aside.count > pointedAt || !input.isEmpty }

    /// Takes the bytes of one read. They are accessed until `next` has returned nil.
    mutating func feed(_ bytes: UnsafeRawBufferPointer) {
        release()
        putAside()
        input = bytes
    }

    /// The next operation; nil once all input has been handled.
    /// - Throws: if the server breaks the protocol or exceeds a limit. The connection ends; every further call throws
    ///   the same error.
    mutating func next() throws(NATSError) -> NATSOperation? {
        release()
        while true {
            do throws(NATSError) {
                switch state {
                case .failed(let error): throw error
                case .body(let head):
                    let whole = head.line + head.size + 2
                    guard gather(whole) else { return nil }
                    guard front[whole - 2] == 0x0D, front[whole - 1] == 0x0A else {
                        throw .protocol("A message of the server is not followed by a line break.")
                    }
                    return .message(message(head, take(whole)))
                case .line(let searched):
                    guard let end = try gatherLine(searched) else { return nil }
                    if let operation = try interpret(front.slice(0..<end)) {
                        _ = take(end + 2)
                        return operation
                    }
                }
            } catch {
                state = .failed(error)
                discard()
                throw error
            }
        }
    }

    /// Discards all input. The caller's bytes are no longer accessed.
    mutating func discard() {
        input = .nothing
        pointedAt = 0
        aside.removeAll()
        aside.shrink()
    }

    // MARK: Bytes

    /// The bytes that have been made contiguous.
    private var front: UnsafeRawBufferPointer { aside.isEmpty ? input : aside.readable }

    /// Releases what the latest operation pointed to.
    private mutating func release() {
        guard pointedAt > 0 else { return }
        aside.consume(pointedAt)
        pointedAt = 0
        aside.shrink()
    }

    /// Copies the rest of the caller's bytes to `aside`.
    private mutating func putAside() {
        aside.append(input)
        input = .nothing
    }

    /// Makes the first `count` bytes contiguous. Returns false if they have not all arrived; all input is then aside.
    private mutating func gather(_ count: Int) -> Bool {
        if aside.isEmpty, input.count >= count { return true }
        let missing = count - aside.count
        guard missing > 0 else { return true }
        let taken = min(missing, input.count)
        _ = aside.reserve(missing)
        aside.append(input.slice(0..<taken))
        input = input.slice(taken..<input.count)
        return taken == missing
    }

    /// Removes the first operation, whose bytes remain readable.
    private mutating func take(_ count: Int) -> UnsafeRawBufferPointer {
        let bytes = front.slice(0..<count)
        if aside.isEmpty {
            input = input.slice(count..<input.count)
        } else {
            pointedAt = count
        }
        state = .line(searched: 0)
        return bytes
    }

    /// Makes the first line contiguous and returns its length without the line break; nil if it has not fully arrived.
    private mutating func gatherLine(_ searched: Int) throws(NATSError) -> Int? {
        let isInfo = begins(with: "info")
        let limit = isInfo ? limits.maxInfo : limits.maxControlLine
        let old = aside.readable.index(of: 0x0A, from: searched)
        guard let feed = old ?? input.index(of: 0x0A).map({ aside.count + $0 }) else {
            guard aside.count + input.count <= limit + 1 else { throw tooLong(isInfo, limit) }
            putAside()
            state = .line(searched: aside.count)
            return nil
        }
        guard feed <= limit + 1 else { throw tooLong(isInfo, limit) }
        _ = gather(feed + 1)
        guard feed > 0, front[feed - 1] == 0x0D else {
            throw .protocol("A line of the server does not end with a carriage return and a line feed.")
        }
        return feed - 1
    }

    /// Whether the first bytes, which may not be contiguous, are `name`, in lower case letters, and a space.
    private func begins(with name: StaticString) -> Bool {
        let count = name.utf8CodeUnitCount
        for index in 0...count {
            guard index < aside.count + input.count else { return false }
            let byte = index < aside.count ? aside.readable[index] : input[index - aside.count]
            guard index < count ? byte | 0x20 == name.utf8Start[index] : NATSParser.isSpace(byte) else { return false }
        }
        return true
    }

    private func tooLong(_ isInfo: Bool, _ limit: Int) -> NATSError {
        .connection(
            .tooLarge, "\(isInfo ? "The server's INFO" : "A line of the server") has more than \(limit) bytes.")
    }

    // MARK: Operations

    /// Interprets a complete line. Nil means that it is the line of a message, whose body follows.
    private mutating func interpret(_ line: UnsafeRawBufferPointer) throws(NATSError) -> NATSOperation? {
        var fields = NATSFields(line)
        let name = fields.next() ?? 0..<0
        let word = line.slice(name)
        if word.isWord("msg") {
            try begin(line, &fields, hasHeaders: false)
            return nil
        }
        if word.isWord("hmsg") {
            try begin(line, &fields, hasHeaders: true)
            return nil
        }
        if word.isWord("ping") { return .ping }
        if word.isWord("pong") { return .pong }
        if word.isWord("+ok") { return .ok }
        let rest = line.slice(name.upperBound..<line.count).trimmed(NATSParser.isSpace)
        if word.isWord("info") { return .info(rest) }
        if word.isWord("-err") {
            let text = rest.trimmed { $0 == UInt8(ascii: "'") }
            return .error(text.slice(0..<min(text.count, NATSLimits.maxErrorText)))
        }
        throw .protocol("The server sent an unknown operation; is it a NATS server?")
    }

    /// Interprets the line of MSG or HMSG: subject, subscription, an optional reply subject, sizes.
    private mutating func begin(
        _ line: UnsafeRawBufferPointer, _ fields: inout NATSFields, hasHeaders: Bool
    ) throws(NATSError) {
        guard let subject = fields.next(), let subscription = fields.next().flatMap({ line.slice($0).decimal }) else {
            throw NATSParser.malformed(hasHeaders)
        }
        let (first, second, third) = (fields.next(), fields.next(), hasHeaders ? fields.next() : nil)
        let hasReply = (hasHeaders ? third : second) != nil
        guard fields.next() == nil, let last = hasHeaders ? third ?? second : second ?? first,
            let size = line.slice(last).decimal
        else { throw NATSParser.malformed(hasHeaders) }
        guard size <= UInt64(max(0, limits.maxMessage)) else {
            throw .connection(
                .tooLarge, "A message of the server has \(size) bytes, more than the limit of \(limits.maxMessage).")
        }
        var headers: Int?
        if hasHeaders {
            guard let bytes = (hasReply ? second : first).flatMap({ line.slice($0).decimal }), bytes <= size else {
                throw NATSParser.malformed(hasHeaders)
            }
            headers = Int(bytes)
        }
        state = .body(
            Head(
                subject: subject, reply: hasReply ? first : nil, subscription: subscription, line: line.count + 2,
                headers: headers, size: Int(size)))
    }

    private static func malformed(_ hasHeaders: Bool) -> NATSError {
        .protocol("The server sent a malformed \(hasHeaders ? "HMSG" : "MSG").")
    }

    private func message(_ head: Head, _ bytes: UnsafeRawBufferPointer) -> NATSMessage {
        let middle = head.line + (head.headers ?? 0)
        return NATSMessage(
            subject: bytes.slice(head.subject), reply: head.reply.map { bytes.slice($0) },
            subscription: head.subscription, headers: head.headers == nil ? nil : bytes.slice(head.line..<middle),
            payload: bytes.slice(middle..<head.line + head.size))
    }

    static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
}
