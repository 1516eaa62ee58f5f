// Calls: requests to JetStream's API that have not been answered. Each has a number, with which its reply subject ends.

import Core

struct Calls {
    /// What is asked.
    enum Purpose {
        case find
        case create(epoch: UInt64)
        case inspect
        case read
        case ask
        /// To record the topic's end.
        case record
        /// To find out whether messages are lost: a message to publish, and one that must be there.
        case probe
        case verify
        /// To take the stream off the topic's subjects.
        case retire
        /// The last message of the publisher of a message that waits for it.
        case number(PublishTicket)
        /// The last message of a publisher, for a client.
        case publisher(PublishTicket)
    }

    struct Call {
        var feed: TopicFeed
        /// The feed's round: answers to calls of an earlier one are ignored.
        var round: UInt32
        var purpose: Purpose
    }

    /// How long JetStream has to answer, in nanoseconds. While a stream has no leader, calls about it are not answered.
    private static let time: UInt64 = 2_000_000_000

    private var calls: [UInt64: Call] = [:]
    private var last: UInt64 = 0
    /// When calls are given up, in the order in which they were made.
    private var due: [(number: UInt64, time: UInt64)] = []
    private var dueHead = 0

    subscript(number: UInt64) -> Call? { calls[number] }

    mutating func add(_ call: Call, now: UInt64) -> UInt64 {
        last += 1
        calls[last] = call
        due.append((last, now + Calls.time))
        return last
    }

    mutating func remove(_ number: UInt64) { calls[number] = nil }

    mutating func removeAll() {
        calls.removeAll()
        due.removeAll()
        dueHead = 0
    }

    /// When the oldest call is given up; nil if there is none.
    mutating func deadline() -> UInt64? {
        while dueHead < due.count, calls[due[dueHead].number] == nil { dueHead += 1 }
        if dueHead > 1024, dueHead * 2 > due.count {
            due.removeFirst(dueHead)
            dueHead = 0
        }
        return dueHead < due.count ? due[dueHead].time : nil
    }

    /// Removes a call that was not answered in time; nil if there is none.
    mutating func takeOverdue(now: UInt64) -> Call? {
        guard let time = deadline(), time <= now else { return nil }
        defer { dueHead += 1 }
        return calls.removeValue(forKey: due[dueHead].number)
    }
}
