// ResponseReader: counts the messages in the responses of a gRPC call, however the byte stream is split and however
// many messages a response holds, and sends what an HTTP/2 client must: acknowledgements of SETTINGS, PING and received
// bytes. The reader skips from message to message by their lengths without looking inside, unless messages are to be
// compared.
//
//     HTTP/2:  head ──> payload of DATA ──────> head …        other frames: buffered whole, then handled
//     in DATA: flag ──> length ──> tag ──> value [──> content] ──> tag … ──> flag …

struct ResponseReader: MessageReader {
    private enum Place {
        case head
        case data
        case control
    }

    private enum Part {
        case flag
        case length
        case tag
        case value
    }

    private let payload: Int
    /// Bytes to send to the server.
    private(set) var replies: [UInt8] = []
    /// Bytes of DATA that have not been acknowledged.
    private var unacknowledged = 0

    // HTTP/2
    private var place = Place.head
    /// The part received of a frame's header, and of the payload if it is a control frame.
    private var kept: [UInt8] = []
    /// Remaining bytes of the frame's payload.
    private var frameLeft = 0

    // gRPC and protobuf
    private var part = Part.flag
    private var number = 0
    private var digits = 0
    private var tag: UInt8 = 0
    /// Remaining bytes of the response, and of the field's content.
    private var left = 0
    private var content = 0
    /// The part received of a message to compare.
    private var message: [UInt8] = []

    private static let headSize = 9
    /// SubscribeResponse.messages.
    private static let messagesTag: UInt8 = 1 << 3 | 2
    /// Well-behaved servers send no control frames longer than this.
    private static let longestControl = 16 << 10

    /// - Parameter payload: bytes of each message's payload.
    init(payload: Int) {
        self.payload = payload
        kept.reserveCapacity(64)
    }

    mutating func take(
        _ bytes: UnsafeRawBufferPointer, comparing: Bool = false, _ found: (UInt64) -> Void = { _ in }
    ) throws(BenchError) -> Int {
        var offset = 0
        var count = 0
        while offset < bytes.count {
            let part = min(place == .head ? ResponseReader.headSize - kept.count : frameLeft, bytes.count - offset)
            let range = UnsafeRawBufferPointer(rebasing: bytes[offset..<(offset + part)])
            offset += part
            switch place {
            case .head:
                kept.append(contentsOf: range)
                if kept.count == ResponseReader.headSize { try begin() }
                continue
            case .data: count += try walk(range, comparing)
            case .control: kept.append(contentsOf: range)
            }
            frameLeft -= part
            if frameLeft == 0 { try end() }
        }
        acknowledge()
        return count
    }

    mutating func clearReplies() { replies.removeAll(keepingCapacity: true) }

    // MARK: Frames

    private mutating func begin() throws(BenchError) {
        frameLeft = CreditReader.number(kept, at: 0, bytes: 3)
        if kept[3] == 0 {
            // END_STREAM, PADDED.
            guard kept[4] == 0 else { throw BenchError("the call has ended, or its DATA frames are padded") }
            place = .data
            unacknowledged += frameLeft
        } else {
            guard frameLeft <= ResponseReader.longestControl else { throw BenchError("a frame is too long") }
            place = .control
        }
        if frameLeft == 0 { try end() }
    }

    private mutating func end() throws(BenchError) {
        if place == .control { try control() }
        place = .head
        kept.removeAll(keepingCapacity: true)
    }

    private mutating func control() throws(BenchError) {
        let acknowledges = kept[4] & 1 != 0
        switch kept[3] {
        case 1 where acknowledges, 3, 7:
            // HEADERS with END_STREAM, RST_STREAM, GOAWAY.
            throw BenchError("the server ended the call: \(Connector.printable(kept))")
        case 4 where !acknowledges: replies += GRPCWire.frame(type: 4, flags: 1, stream: 0, [])
        case 6 where !acknowledges:
            replies += GRPCWire.frame(type: 6, flags: 1, stream: 0, Array(kept[ResponseReader.headSize...]))
        default: break
        }
    }

    private mutating func acknowledge() {
        guard unacknowledged >= GRPCWire.window / 2 else { return }
        for stream in [0, GRPCWire.stream] { replies += GRPCWire.windowUpdate(stream: stream, unacknowledged) }
        unacknowledged = 0
    }

    // MARK: Responses

    private mutating func walk(_ bytes: UnsafeRawBufferPointer, _ comparing: Bool) throws(BenchError) -> Int {
        var offset = 0
        var count = 0
        while offset < bytes.count {
            if content > 0 {
                let part = min(content, bytes.count - offset)
                if comparing { message.append(contentsOf: bytes[offset..<(offset + part)]) }
                content -= part
                left -= part
                offset += part
                if content == 0, tag == ResponseReader.messagesTag {
                    count += 1
                    if comparing { try compare() }
                }
            } else {
                try step(bytes[offset])
                offset += 1
            }
            if left == 0, part == .tag { part = .flag }
        }
        return count
    }

    private mutating func step(_ byte: UInt8) throws(BenchError) {
        switch part {
        case .flag:
            guard byte == 0 else { throw BenchError("a response is compressed") }
            number = 0
            digits = 0
            part = .length
        case .length:
            number = number << 8 | Int(byte)
            digits += 1
            guard digits == 4 else { return }
            left = number
            part = .tag
        case .tag:
            guard byte < 0x80, byte & 7 == 0 || byte & 7 == 2 else { throw BenchError("unknown field in a response") }
            tag = byte
            left -= 1
            number = 0
            digits = 0
            part = .value
        case .value:
            if digits < 8 { number |= Int(byte & 0x7f) << (7 * digits) }
            digits += 1
            left -= 1
            guard byte < 0x80 else { return }
            part = .tag
            if tag & 7 == 2 {
                guard number <= left else { throw BenchError("a field is longer than its response") }
                content = number
            }
        }
    }

    /// Throws if a message's payload is not what was published. The message that opens a publisher's channel, which
    /// contains zeros, may arrive late enough for the first subscribers to receive it.
    private mutating func compare() throws(BenchError) {
        defer { message.removeAll(keepingCapacity: true) }
        // Message.sequence, then Message.payload: fields 1 and 2.
        let head: [UInt8] = [2 << 3 | 2] + GRPCWire.varint(UInt64(payload))
        let content = MessageFrame(head: [], payload: payload).bytes
        guard let start = message.dropFirst().firstIndex(where: { $0 < 0x80 }), message.first == 1 << 3,
            [content, content.map { _ in 0 }].contains(where: { message[(start + 1)...].starts(with: head + $0) })
        else { throw BenchError("a subscriber received an unexpected message: \(Connector.printable(message))") }
    }
}
