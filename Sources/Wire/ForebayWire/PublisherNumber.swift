// PublisherNumber: a publisher's own id and the number of a message, with which a topic recognizes repeated publishes.
// All protocols and clients use the same names and bounds.

/// What identifies a publish, so that it can be repeated without publishing the message twice.
public struct PublisherNumber: Equatable, Sendable {
    /// The publisher's id, which belongs to its user: 1 to `longestID` bytes of UTF-8.
    public var publisher: String
    /// The number of the message, or of a channel's first message. A publisher's first message in a topic has number
    /// 1.
    public var number: UInt64

    /// Bytes of the longest id.
    public static let longestID = 255
    /// The largest number.
    public static let largest = UInt64(Int64.max)

    /// The entry of composite metadata that marks the acknowledgement of a duplicate. It is empty.
    public static let duplicateMime = "application/vnd.forebay.duplicate"

    public init(publisher: String, number: UInt64) {
        self.publisher = publisher
        self.number = number
    }

    /// What is wrong with a publisher's id, as a sentence; nil if it is valid.
    public static func fault(id: String) -> String? {
        if id.isEmpty { return "The publisher's id is empty; use 1 to \(longestID) bytes." }
        let count = id.utf8.count
        guard count > longestID else { return nil }
        return "The publisher's id has \(count) bytes; use at most \(longestID)."
    }

    /// What is wrong with the id or the number, as a sentence; nil if both are valid.
    public var fault: String? {
        if let fault = Self.fault(id: publisher) { return fault }
        if (1...Self.largest).contains(number) { return nil }
        return "The publisher's number is \(number); use 1 to \(Self.largest)."
    }
}
