// RepublishedReader: finds the messages in what NATS sends to a subscriber, with headers of any size, however the bytes
// are split. Meant for moderate rates: it copies all bytes.
//
//     HMSG subject sid header-size size\r\n   headers   payload   \r\n

struct RepublishedReader: MessageReader {
    /// A PING is not answered: the server waits for an hour.
    let replies: [UInt8] = []
    private let expected: [UInt8]
    private var rest: [UInt8] = []

    /// - Parameter payload: bytes of each message's payload, at least eight.
    init(payload: Int) { expected = MessageFrame(head: [], payload: payload).bytes }

    mutating func take(
        _ bytes: UnsafeRawBufferPointer, comparing: Bool, _ found: (UInt64) -> Void
    ) throws(BenchError) -> Int {
        rest.append(contentsOf: bytes)
        var offset = 0
        var count = 0
        while let feed = rest[offset...].firstIndex(of: 10) {
            let line = rest[offset..<feed]
            guard line.first == UInt8(ascii: "H") else {
                if line.first == UInt8(ascii: "-") { throw BenchError(Connector.printable(Array(line))) }
                offset = feed + 1
                continue
            }
            let numbers = line.dropLast().split(separator: UInt8(ascii: " ")).suffix(2).map(RepublishedReader.number)
            let (start, end) = (feed + 1 + numbers[0], feed + 1 + numbers[1])
            guard rest.count >= end + 2 else { break }
            guard end - start == expected.count, !comparing || rest[start..<end].elementsEqual(expected) else {
                throw BenchError(
                    "a subscriber received an unexpected message: " + Connector.printable(Array(rest[offset..<end])))
            }
            found(rest[start..<(start + 8)].reduce(0) { $0 << 8 | UInt64($1) })
            count += 1
            offset = end + 2
        }
        rest.removeFirst(offset)
        return count
    }

    mutating func clearReplies() {}

    private static func number(_ digits: ArraySlice<UInt8>) -> Int {
        digits.reduce(0) { $0 * 10 + Int($1 &- UInt8(ascii: "0")) }
    }
}
