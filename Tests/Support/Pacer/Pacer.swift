// pacer: one end of a pipeline through a broker, for the pacing tests, which run the two ends as processes.
//
//     pacer produce URL COUNT COUNTERS                          publishes 1, 2, … COUNT, and completes the topic
//     pacer subscribe URL COUNT COUNTERS WINDOW BUFFER          as a subscriber that requests WINDOW at a time
//     pacer iterate URL COUNT COUNTERS WINDOW BUFFER            with `for await` and a window
//
// COUNTERS is a file that both processes map: the producer sees how much the consumer has requested so far.

import Forebay
import Glibc
import Streams

struct PacerError: Error {
    var message: String
}

@main
enum Pacer {
    static func main() async {
        do {
            try await run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            let text = "pacer: \(error)\n"
            _ = text.withCString { write(2, $0, text.utf8.count) }
            exit(1)
        }
    }

    private static func run(_ arguments: [String]) async throws {
        guard arguments.count >= 4, let count = Int(arguments[2]), let counters = PaceCounters(arguments[3]) else {
            throw PacerError(message: "wrong usage")
        }
        let client = try await ForebayClient.connect(arguments[1])
        let topic = client.topic("pace")
        switch arguments[0] {
        case "produce": try await produce(topic, count, counters)
        case let form:
            guard arguments.count == 6, let window = Int(arguments[4]), let buffer = UInt32(arguments[5]) else {
                throw PacerError(message: "wrong usage")
            }
            if form == "iterate" {
                try await iterate(topic, count, counters, window, buffer)
            } else {
                try await subscribe(topic, count, counters, window, buffer)
            }
        }
        await client.close()
    }

    private static func produce(_ topic: Topic, _ count: Int, _ counters: PaceCounters) async throws {
        let publication = (1...count).publisher.map { number in
            counters.make()
            return OutgoingMessage(String(number))
        }.publish(to: topic, ending: .topic)
        let accepted = try await publication.result()
        guard accepted == UInt64(count) else { throw PacerError(message: "\(accepted) of \(count) were accepted") }
    }

    /// The iterator requests its window in advance, and then one for each message taken, or several at a time. So the
    /// requests that the iterator might make are counted before each message is taken.
    private static func iterate(
        _ topic: Topic, _ count: Int, _ counters: PaceCounters, _ window: Int, _ buffer: UInt32
    ) async throws {
        counters.ask(window)
        var messages = topic.messages(buffer: buffer, overflow: .block, window: window).makeAsyncIterator()
        var check = OrderCheck()
        while true {
            counters.ask(1)
            guard let message = try await messages.next() else { break }
            try check.take(message)
        }
        try check.finish(count)
    }

    private static func subscribe(
        _ topic: Topic, _ count: Int, _ counters: PaceCounters, _ window: Int, _ buffer: UInt32
    ) async throws {
        let (end, notifyOfEnd) = AsyncStream.makeStream(of: String?.self)
        let messages = topic.messages(buffer: buffer, overflow: .block)
        messages.subscribe(BatchSubscriber(window, count, counters) { notifyOfEnd.yield($0) })
        for await failure in end {
            if let failure { throw PacerError(message: failure) }
            return
        }
    }
}

/// Checks that all messages arrive in order and none is missing.
struct OrderCheck {
    private var next = 1

    mutating func take(_ message: Message) throws {
        guard message.text == String(next), message.gap == nil else {
            throw PacerError(message: "'\(message.text)' arrived instead of \(next)")
        }
        next += 1
    }

    func finish(_ count: Int) throws {
        guard next == count + 1 else { throw PacerError(message: "\(next - 1) of \(count) arrived") }
    }
}

/// Requests `window` messages at a time, and again when all of them have arrived. Called only on the client's thread.
private final class BatchSubscriber: Subscriber, @unchecked Sendable {
    typealias Input = Message
    typealias Failure = ForebayError

    private let window: Int
    private let count: Int
    private let counters: PaceCounters
    private let ended: (String?) -> Void
    private var check = OrderCheck()
    private var outstanding = 0
    private var subscription: (any Subscription)?

    init(_ window: Int, _ count: Int, _ counters: PaceCounters, ended: @escaping (String?) -> Void) {
        (self.window, self.count, self.counters, self.ended) = (window, count, counters, ended)
    }

    func receive(subscription: any Subscription) {
        self.subscription = subscription
        subscription.request(.max(next()))
    }

    private func next() -> Int {
        outstanding = window
        counters.ask(window)
        return window
    }

    func receive(_ input: Message) -> Subscribers.Demand {
        do {
            try check.take(input)
        } catch {
            subscription?.cancel()
            ended("\(error)")
            return .none
        }
        outstanding -= 1
        return outstanding == 0 ? .max(next()) : .none
    }

    func receive(completion: Subscribers.Completion<ForebayError>) {
        subscription = nil
        if case .failure(let error) = completion { return ended("\(error)") }
        do {
            try check.finish(count)
            ended(nil)
        } catch {
            ended("\(error)")
        }
    }
}
