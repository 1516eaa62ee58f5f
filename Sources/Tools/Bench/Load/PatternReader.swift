// PatternReader: follows each topic's sequence in what Forebay sends to a subscriber of a pattern, however the bytes
// are split: a message that is missing must be reported as dropped. Meant for moderate rates: it copies all bytes.

import Bytes

struct PatternReader: MessageReader {
    /// The topics, by index, whose latencies do not matter.
    typealias Ignored = Range<Int>

    let replies: [UInt8] = []
    /// Messages that the broker reported as dropped.
    private(set) var dropped = 0
    private let frame: MessageFrame
    private let expected: [UInt8]
    private let figures: Int
    private let ignored: Ignored
    /// By topic, the last sequence received.
    private var last: [UInt64]
    private var rest: [UInt8] = []

    init(_ frame: MessageFrame, topics: Int, ignoring ignored: Ignored) {
        self.frame = frame
        expected = frame.bytes
        figures = RSocketWire.figures(in: frame).lowerBound
        self.ignored = ignored
        last = [UInt64](repeating: 0, count: topics)
    }

    mutating func take(
        _ bytes: UnsafeRawBufferPointer, comparing: Bool, _ found: (UInt64) -> Void
    ) throws(BenchError) -> Int {
        rest.append(contentsOf: bytes)
        var count = 0
        while rest.count - count * frame.size >= frame.size {
            try message(at: count * frame.size, comparing: comparing, found)
            count += 1
        }
        rest.removeFirst(count * frame.size)
        return count
    }

    mutating func clearReplies() {}

    private mutating func message(at start: Int, comparing: Bool, _ found: (UInt64) -> Void) throws(BenchError) {
        let first = rest[start..<(start + 3)]
        guard first.elementsEqual(expected[..<3]) else {
            throw BenchError("a subscriber received something else: \(Connector.printable(Array(rest[start...])))")
        }
        let body = start + frame.head.count
        if comparing, !rest[body..<(body + frame.payload)].elementsEqual(expected[frame.head.count...]) {
            throw BenchError("a subscriber received another payload")
        }
        let digits = rest[(body - PatternWire.nameSize + 2)..<body]
        let topic = digits.reduce(0) { $0 * 10 + Int($1 &- UInt8(ascii: "0")) } - PatternWire.firstName
        guard last.indices.contains(topic) else { throw BenchError("a subscriber received a message of no topic") }
        let (sequence, dropped) = (number(at: start + figures + 8), number(at: start + figures + 24))
        guard sequence == last[topic] &+ 1 &+ dropped else {
            throw BenchError(
                "topic \(topic): message \(sequence) came after \(last[topic]), and \(dropped) were reported as dropped"
            )
        }
        last[topic] = sequence
        self.dropped += Int(dropped)
        if !ignored.contains(topic) { found(number(at: body)) }
    }

    private func number(at offset: Int) -> UInt64 {
        rest[offset..<(offset + 8)].reduce(0) { $0 << 8 | UInt64($1) }
    }
}
