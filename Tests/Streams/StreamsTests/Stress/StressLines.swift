// The streams that many threads use at once in `StressTests`.

import Foundation
import Streams

/// A publisher into which the tests send values.
struct StressLine: @unchecked Sendable, CustomStringConvertible {
    let name: String
    /// Which subscribers receive all values.
    enum Reach {
        /// Subscribers that request every value, even one by one.
        case all
        /// Subscribers with unlimited demand: for others, the subject drops values sent without demand.
        case unlimited
        case none
    }
    let reach: Reach
    /// Whether the values of one sender keep their order.
    let isOrdered: Bool
    let make: () -> Source

    struct Source: @unchecked Sendable {
        let publisher: AnyPublisher<Mark, Never>
        let send: (Mark) -> Void
        let finish: () -> Void
    }

    var description: String { name }

    /// - Parameter apply: what is between the subject and the subscribers.
    init<P: Publisher>(
        _ name: String, reach: Reach = .all, isOrdered: Bool = true,
        _ apply: @escaping (PassthroughSubject<Mark, Never>) -> P
    ) where P.Output == Mark, P.Failure == Never {
        self.init(name, reach: reach, isOrdered: isOrdered, PassthroughSubject.init, apply)
    }

    init<S: Subject, P: Publisher>(
        _ name: String, reach: Reach = .all, isOrdered: Bool = true, _ subject: @escaping () -> S,
        _ apply: @escaping (S) -> P
    ) where S.Output == Mark, S.Failure == Never, P.Output == Mark, P.Failure == Never {
        self.name = name
        self.reach = reach
        self.isOrdered = isOrdered
        make = {
            let subject = subject()
            return Source(
                publisher: apply(subject).eraseToAnyPublisher(), send: { subject.send($0) },
                finish: { subject.send(completion: .finished) })
        }
    }

    static let concurrent = DispatchQueue(label: "concurrent", attributes: .concurrent)
    static let serial = DispatchQueue(label: "serial")
    static let operations = OperationQueue()

    static let timed: [StressLine] = [
        StressLine("receive(on: serial)") { $0.receive(on: serial) },
        StressLine("receive(on: concurrent)") { $0.receive(on: concurrent) },
        StressLine("receive(on: operations)") { $0.receive(on: operations) },
        StressLine("delay") { $0.delay(for: .microseconds(100), scheduler: concurrent) },
        StressLine("debounce", reach: .none) { $0.debounce(for: .microseconds(10), scheduler: concurrent) },
        StressLine("throttle", reach: .none) {
            $0.throttle(for: .microseconds(10), scheduler: serial, latest: true)
        },
        StressLine("timeout") { $0.timeout(.seconds(100), scheduler: concurrent) },
        StressLine("collect(byTimeOrCount)", reach: .none) {
            $0.collect(.byTimeOrCount(concurrent, .microseconds(50), 5)).map { (group: [Mark]) -> Mark in group[0] }
        },
    ]

    static let plain: [StressLine] = [
        StressLine("PassthroughSubject") { $0 },
        StressLine(
            "CurrentValueSubject", reach: .none, { CurrentValueSubject(Mark(sender: -1, number: 0)) }, { $0 }),
        StressLine("BufferSubject", reach: .none, { BufferSubject(limit: 16) }, { $0 }),
        StressLine("shareReplay") { $0.shareReplay(capacity: 16) },
        StressLine("map, scan, filter") {
            $0.map { $0 }.scan(Mark(sender: -1, number: -1)) { $1 }.filter { $0.number >= 0 }.removeDuplicates()
        },
        StressLine("handleEvents") { $0.handleEvents(receiveOutput: { _ in }, receiveRequest: { _ in }) },
    ]

    static let combining: [StressLine] = [
        StressLine("merge", reach: .unlimited) {
            $0.filter { $0.sender == 0 }.merge(with: $0.filter { $0.sender == 1 }, $0.filter { $0.sender == 2 })
        },
        StressLine("mergeMany", reach: .unlimited) { subject in
            Publishers.MergeMany((0..<3).map { sender in subject.filter { $0.sender == sender } })
        },
        StressLine("flatMap", reach: .unlimited, isOrdered: false) { $0.flatMap { Just($0) } },
        StressLine("flatMap(maxPublishers: 2)", reach: .none, isOrdered: false) {
            $0.flatMap(maxPublishers: .max(2)) { mark in [mark, mark].publisher }
        },
        StressLine("switchToLatest", reach: .none, isOrdered: false) { $0.map { Just($0) }.switchToLatest() },
        StressLine("zip", reach: .none) {
            $0.filter { $0.sender == 0 }.zip($0.filter { $0.sender == 1 }).map { (first: Mark, _: Mark) in first }
        },
        StressLine("combineLatest", reach: .none, isOrdered: false) {
            $0.filter { $0.sender == 0 }.combineLatest($0.filter { $0.sender == 1 }) { first, _ in first }
        },
        StressLine("append, prepend", isOrdered: false) { $0.append([]).prepend([]) },
        StressLine("tryMap, catch") { $0.tryMap { $0 }.catch { _ in Empty() } },
    ]

    static let sharing: [StressLine] = [
        StressLine("share") { $0.share() },
        StressLine("multicast", { PassthroughSubject() }, { $0.multicast { PassthroughSubject() }.autoconnect() }),
        StressLine("shareReplay(block)", reach: .none) { $0.shareReplay(capacity: 4, overflow: .block) },
        StressLine("buffer(byRequest)") { $0.buffer(size: 2000, prefetch: .byRequest, whenFull: .dropOldest) },
        StressLine("buffer(keepFull)", reach: .none) {
            $0.buffer(size: 20, prefetch: .keepFull, whenFull: .dropNewest)
        },
        // Row 20: values before the scheduled demand are not lost.
        StressLine("buffer, receive(on:)") {
            $0.buffer(size: 2000, prefetch: .byRequest, whenFull: .dropOldest).receive(on: concurrent)
        },
    ]

    static let all = plain + passing + timed + combining + sharing
}
