// EventID: what an event stream calls its messages, and what a client that reconnects says it has seen.
//
//     6616333571386961933-42        after message 42 of that epoch
//     6616333571386961933-42-end    after the end, which came behind message 42: there is nothing more to have

/// The `id:` of an event, and the value of `Last-Event-ID`.
public struct EventID: Equatable, Sendable {
    /// Of the topic; never 0.
    public var epoch: UInt64
    /// Of the message; 0 before the first one.
    public var sequence: UInt64
    /// The end of the stream has been told.
    public var isEnd: Bool

    public init(epoch: UInt64, sequence: UInt64, isEnd: Bool = false) {
        self.epoch = epoch
        self.sequence = sequence
        self.isEnd = isEnd
    }

    /// - Throws: 400 for a value that no event of this broker had.
    public init(_ text: String) throws(Problem) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2 || (parts.count == 3 && parts[2] == "end"),
            let epoch = Decimal.parse(parts[0]), epoch > 0,
            // The next one has a number too.
            let sequence = Decimal.parse(parts[1]), sequence < UInt64.max
        else {
            throw Problem(
                .invalid,
                "Last-Event-ID: \(text) is not the id of an event; send back the id as it came (EPOCH-SEQUENCE), "
                    + "or leave the header out.")
        }
        self.init(epoch: epoch, sequence: sequence, isEnd: parts.count == 3)
    }

    public var text: String { "\(epoch)-\(sequence)\(isEnd ? "-end" : "")" }
}
