// History: the deliveries of one subscription, checked message by message against what every subscriber is guaranteed.

@testable import Forebay

/// Checks the deliveries of one subscription to one topic. Faults are described in sentences.
struct History {
    /// The number of messages that the topic retains: a loss among them is a fault.
    private let retained: UInt64
    /// Whether the subscription began with the oldest message.
    private let isWhole: Bool
    private(set) var faults: [String] = []
    /// Epochs in the order in which they were seen, with the number carried by the message of each sequence.
    private(set) var epochs: [UInt64] = []
    private(set) var numbers: [[UInt64: Int]] = []
    private(set) var last: UInt64 = 0
    private(set) var lost: UInt64 = 0

    /// - Parameters:
    ///   - retained: messages that the topic retains.
    ///   - isWhole: the subscription began with the oldest message there was.
    init(retained: Int, isWhole: Bool) {
        self.retained = UInt64(retained)
        self.isWhole = isWhole
    }

    /// Messages received.
    var count: Int { numbers.reduce(0) { $0 + $1.count } }
    /// Messages of the current epoch.
    var countInEpoch: Int { numbers.last?.count ?? 0 }
    /// The numbers of an epoch, in the order of the topic.
    func carried(_ epoch: Int) -> [Int] { numbers[epoch].sorted { $0.key < $1.key }.map(\.value) }

    /// Checks a message that was delivered.
    /// - Parameter newest: a sequence number that the topic had not exceeded at that time; nil if unknown.
    mutating func take(_ message: Message, newest: UInt64? = nil) {
        if message.epoch != epochs.last { return begin(message) }
        if message.sequence <= last {
            fault(message, numbers.last?[message.sequence] == nil ? "comes late" : "comes twice")
        } else {
            check(message, missing: message.sequence - last - 1, newest)
        }
        note(message)
    }

    /// Checks the first message of an epoch.
    private mutating func begin(_ message: Message) {
        if epochs.contains(message.epoch) { fault(message, "is of an epoch that is over") }
        if let previous = epochs.last {
            let gap = Gap(.newEpoch(previous: previous), lost: nil)
            if message.gap != gap { fault(message, "does not report its epoch") }
        } else if isWhole, message.gap != nil {
            fault(message, "tells a gap before anything could be lost")
        }
        // A subscription has no claim to messages before it began, but to all messages of an epoch that begins later.
        if isWhole || !epochs.isEmpty, message.sequence != 1 { fault(message, "is not the first of its epoch") }
        epochs.append(message.epoch)
        numbers.append([:])
        last = 0
        note(message)
    }

    /// Checks a later message: messages missing before it must be reported, and must no longer be retained.
    private mutating func check(_ message: Message, missing: UInt64, _ newest: UInt64?) {
        lost += missing
        if missing == 0 {
            if message.gap != nil { fault(message, "tells a gap where nothing is missing") }
            return
        }
        if message.gap != Gap(.dropped, lost: missing) { fault(message, "does not report that \(missing) are missing") }
        // The last missing message was retained until `retained` messages followed it.
        let gone = message.sequence - 1
        if let newest, newest < gone + retained { fault(message, "misses what the topic still held") }
    }

    private mutating func note(_ message: Message) {
        last = max(last, message.sequence)
        numbers[numbers.count - 1][message.sequence] = message.number
    }

    private mutating func fault(_ message: Message, _ text: String) {
        faults.append("\(message.sequence) of epoch \(message.epoch), '\(message.text)', \(text).")
    }

    /// Checks that every message that the broker acknowledged was delivered with the published content, if the topic
    /// survived throughout.
    mutating func check(acknowledged: [UInt64: Int]) {
        guard numbers.count == 1 else { return faults.append("The topic did not go on.") }
        for (sequence, number) in acknowledged where numbers[0][sequence] != number {
            faults.append("\(sequence) was '\(number)' when it was acknowledged.")
        }
    }
}
