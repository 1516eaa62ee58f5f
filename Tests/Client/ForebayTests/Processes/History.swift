// History: what one subscription was delivered, checked message by message against what every subscriber is promised.

@testable import Forebay

/// Checks the deliveries of one subscription to one topic. What is wrong with them is told in sentences.
struct History {
    /// Messages that the topic retains: what is lost although it was among them is wrong.
    private let retained: UInt64
    /// The subscription began with the oldest message.
    private let isWhole: Bool
    private(set) var faults: [String] = []
    /// Epochs, in the order in which they were seen, the number that each sequence of them carried.
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

    /// Messages that came.
    var count: Int { numbers.reduce(0) { $0 + $1.count } }
    /// Of the present epoch.
    var countInEpoch: Int { numbers.last?.count ?? 0 }
    /// The numbers of an epoch, in the order of the topic.
    func carried(_ epoch: Int) -> [Int] { numbers[epoch].sorted { $0.key < $1.key }.map(\.value) }

    /// A message was delivered.
    /// - Parameter newest: a sequence that the topic had not gone beyond by then; nil if nobody knows.
    mutating func take(_ message: Message, newest: UInt64? = nil) {
        if message.epoch != epochs.last { return begin(message) }
        if message.sequence <= last {
            fault(message, numbers.last?[message.sequence] == nil ? "comes late" : "comes twice")
        } else {
            check(message, missing: message.sequence - last - 1, newest)
        }
        note(message)
    }

    /// The first message of an epoch.
    private mutating func begin(_ message: Message) {
        if epochs.contains(message.epoch) { fault(message, "is of an epoch that is over") }
        if let previous = epochs.last {
            let gap = Gap(.newEpoch(previous: previous), lost: nil)
            if message.gap != gap { fault(message, "does not tell its epoch") }
        } else if isWhole, message.gap != nil {
            fault(message, "tells a gap before anything could be lost")
        }
        // Nobody has a right to what was before it came, but to all of an epoch that begins while it is there.
        if isWhole || !epochs.isEmpty, message.sequence != 1 { fault(message, "is not the first of its epoch") }
        epochs.append(message.epoch)
        numbers.append([:])
        last = 0
        note(message)
    }

    /// A later message: what is missing before it has to be told, and must not be there any more.
    private mutating func check(_ message: Message, missing: UInt64, _ newest: UInt64?) {
        lost += missing
        if missing == 0 {
            if message.gap != nil { fault(message, "tells a gap where nothing is missing") }
            return
        }
        if message.gap != Gap(.dropped, lost: missing) { fault(message, "does not tell that \(missing) are missing") }
        // The last one that is missing was retained until as many came behind it.
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

    /// Every message that the broker has acknowledged was delivered, and carried what was published, if the topic went
    /// on through all of it.
    mutating func check(acknowledged: [UInt64: Int]) {
        guard numbers.count == 1 else { return faults.append("The topic did not go on.") }
        for (sequence, number) in acknowledged where numbers[0][sequence] != number {
            faults.append("\(sequence) was '\(number)' when it was acknowledged.")
        }
    }
}
