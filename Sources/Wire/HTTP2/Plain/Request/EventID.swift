// EventID: the id of a message in an event stream, which a reconnecting client sends back.
//
//     6616333571386961933-42        after message 42 of that epoch
//     6616333571386961933-42-end    after the end, which followed message 42: nothing is left to stream
//     0-0-end                       after the end of a subscription to a pattern

/// The `id:` of an event, and the value of `Last-Event-ID`.
public struct EventID: Equatable, Sendable {
    /// The topic's epoch; 0 only after the end of a subscription to a pattern.
    public var epoch: UInt64
    /// The message's sequence; 0 before the first message.
    public var sequence: UInt64
    /// Whether the end of the stream has been sent.
    public var isEnd: Bool

    public init(epoch: UInt64, sequence: UInt64, isEnd: Bool = false) {
        self.epoch = epoch
        self.sequence = sequence
        self.isEnd = isEnd
    }

    /// - Throws: 400 for a value that no event of this broker has.
    public init(_ text: String) throws(Problem) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2 || (parts.count == 3 && parts[2] == "end"),
            let epoch = Decimal.parse(parts[0]),
            // The next message needs a sequence too.
            let sequence = Decimal.parse(parts[1]), sequence < UInt64.max,
            epoch > 0 || sequence == 0 && parts.count == 3
        else {
            throw Problem(
                .invalid,
                "Last-Event-ID: \(text) is not an event id; send the id as received (EPOCH-SEQUENCE), "
                    + "or omit the header.")
        }
        self.init(epoch: epoch, sequence: sequence, isEnd: parts.count == 3)
    }

    public var text: String { "\(epoch)-\(sequence)\(isEnd ? "-end" : "")" }
}
