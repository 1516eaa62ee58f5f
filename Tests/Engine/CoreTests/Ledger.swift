// Ledger: what random clients requested and saw, checked against what every client of one broker must see.

import Bytes
import Replay
import RSocket
import Testing

@testable import Core

/// A small generator with a seed, so that failures are reproducible.
struct LedgerRandom {
    var state: UInt64

    mutating func next(_ bound: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return bound <= 1 ? 0 : Int((state >> 33) % UInt64(bound))
    }
    mutating func pick<T>(_ values: [T]) -> T { values[next(values.count)] }
}

/// What all clients agree on: each message has one sequence, and each sequence one message.
final class Books {
    struct Place: Hashable {
        var epoch: UInt64
        var sequence: UInt64
    }

    let seed: Int
    private var texts: [Place: String] = [:]
    private var places: [String: Place] = [:]

    init(seed: Int) { self.seed = seed }

    func saw(_ text: String, _ epoch: UInt64, _ sequence: UInt64) {
        let place = Place(epoch: epoch, sequence: sequence)
        let known = texts[place] ?? text
        #expect(known == text, "seed \(seed): two messages at \(sequence) of \(epoch)")
        let old = places[text] ?? place
        #expect(old == place, "seed \(seed): \(text.prefix(20)) appears twice")
        texts[place] = text
        places[text] = place
    }

    func acknowledged(_ text: String, _ sequence: UInt64) {
        guard let place = places[text] else { return }
        #expect(place.sequence == sequence, "seed \(seed): \(text.prefix(20)) was acknowledged as another")
    }
}

/// One stream, as its client sees it.
class Account {
    let books: Books
    let peer: LedgerPeer
    let stream: UInt32
    let route: String
    /// COMPLETE, or the text of the error that ended it.
    private(set) var end: String?
    /// Whether the client cancelled the stream. Only messages that were already in flight may then arrive.
    var isCancelled = false

    init(_ books: Books, _ peer: LedgerPeer, _ stream: UInt32, _ route: String) {
        self.books = books
        self.peer = peer
        self.stream = stream
        self.route = route
        peer.accounts[stream] = self
    }

    var name: String { "seed \(books.seed): stream \(stream) of \(route)" }
    var isOver: Bool { end != nil || isCancelled || peer.client.isClosed }

    func item(_ metadata: [UInt8]?, _ text: String) {}
    func granted(_ n: Int) {}
    func ended(_ metadata: [UInt8]?, _ error: String?) {
        #expect(end == nil, "\(name) ended twice")
        end = error ?? "|"
    }
}

/// A subscription with `meta=on`.
final class SubscriberAccount: Account {
    var requested = 0
    var isUnbounded = false
    private(set) var delivered = 0
    private(set) var epoch: UInt64 = 0
    private(set) var last: UInt64?
    /// Messages lost between deliveries.
    private(set) var lost: UInt64 = 0
    /// Messages lost after the last delivery, as reported by the end.
    private(set) var tail: UInt64 = 0

    override func item(_ metadata: [UInt8]?, _ text: String) {
        guard let (epoch, sequence, dropped) = Self.figures(metadata) else {
            Issue.record("\(name) got a message without metadata")
            return
        }
        delivered += 1
        #expect(isUnbounded || delivered <= requested, "\(name) got more than it requested")
        #expect(end == nil, "\(name) got a message after its end")
        if let last {
            #expect(epoch == self.epoch, "\(name) changed its epoch")
            #expect(sequence == last + dropped + 1, "\(name) saw \(sequence) (\(dropped) dropped) after \(last)")
            lost += dropped
        }
        #expect(sequence > dropped, "\(name) lost more than there was")
        self.epoch = epoch
        last = sequence
        books.saw(text, epoch, sequence)
    }

    override func ended(_ metadata: [UInt8]?, _ error: String?) {
        super.ended(metadata, error)
        if let (_, _, dropped) = Self.figures(metadata) { tail = dropped }
    }

    /// Epoch, sequence and dropped-before.
    private static func figures(_ metadata: [UInt8]?) -> (UInt64, UInt64, UInt64)? {
        guard let metadata, metadata.count >= MessageMetadata.entry else { return nil }
        return metadata.withUnsafeBytes {
            let at = MessageMetadata.entry - 32
            return ($0.bigEndian(at: at), $0.bigEndian(at: at + 8), $0.bigEndian(at: at + 24))
        }
    }
}

/// An acknowledged publish, or a channel.
final class PublisherAccount: Account {
    var credit = 0
    var sent: [String] = []
    private(set) var accepted = 0
    private var sequence: UInt64 = 0
    private(set) var acknowledgements = 0
    var acknowledgementsAsked = 0
    let isChannel: Bool
    /// Whether the client has completed its half.
    var isComplete = false

    init(_ books: Books, _ peer: LedgerPeer, _ stream: UInt32, _ route: String, isChannel: Bool, first: String) {
        self.isChannel = isChannel
        super.init(books, peer, stream, route)
        sent.append(first)
    }

    override func granted(_ n: Int) { credit += n }

    override func item(_ metadata: [UInt8]?, _ text: String) {
        acknowledgements += 1
        let number = UInt64(text) ?? 0
        #expect(number > sequence, "\(name): acknowledgements must grow")
        sequence = number
        guard isChannel else { return books.acknowledged(sent[0], number) }
        #expect(acknowledgements <= acknowledgementsAsked, "\(name) got more acknowledgements than it requested")
        let count = metadata?.withUnsafeBytes { $0.bigEndian(at: $0.count - 8, as: UInt64.self) } ?? 0
        #expect(Int(count) >= accepted && Int(count) <= sent.count, "\(name) sent \(sent.count), accepted \(count)")
        accepted = Int(count)
        if accepted > 0, accepted <= sent.count { books.acknowledged(sent[accepted - 1], number) }
    }

    override func ended(_ metadata: [UInt8]?, _ error: String?) {
        super.ended(metadata, error)
        guard let error else { return }
        #expect(!error.contains("beyond its credit"), "\(name) kept to its credit: \(error)")
    }
}

/// A client with its streams.
class LedgerPeer {
    let client: TestClient
    var accounts: [UInt32: Account] = [:]
    var nextStream: UInt32 = 1
    private var partial: [UInt32: (metadata: [UInt8]?, data: [UInt8])] = [:]

    init(_ client: TestClient) { self.client = client }

    func freshStream() -> UInt32 {
        defer { nextStream += 2 }
        return nextStream
    }

    /// Whether the client reads everything there is for it.
    var isReading: Bool { client.window == .max }

    func subscribe(_ account: SubscriberAccount, topic: String, policy: String, buffer: Int, start: String, n: Int) {
        client.subscribe(account.route, n: UInt32(n), stream: account.stream)
    }

    func request(_ n: Int, _ account: Account) { client.requestN(UInt32(n), stream: account.stream) }
    func cancel(_ account: Account) { client.cancel(stream: account.stream) }

    func publishOne(_ account: PublisherAccount, topic: String, _ text: String) {
        client.publish(topic, text, stream: account.stream)
    }

    func openChannel(_ account: PublisherAccount, route: String, _ text: String) {
        client.channel(
            route, text, n: UInt32(account.acknowledgementsAsked), stream: account.stream, complete: account.isComplete)
    }

    func items(_ texts: [String], _ account: Account) { client.items(texts, stream: account.stream) }
    func complete(_ account: Account) { client.complete(stream: account.stream) }

    /// Makes the client read little from now on, or everything again.
    func stall(_ random: inout LedgerRandom) {
        if random.next(2) == 0 { client.window = random.next(300) } else { readAll() }
    }

    func readAll() { client.read(.max) }

    /// Handles what has arrived.
    func read() { client.takeFrames { take($0) } }

    private func take(_ bytes: UnsafeRawBufferPointer) {
        guard let frame = try? Frame.decode(bytes.bytes) else {
            Issue.record("a frame that cannot be decoded")
            return
        }
        guard let account = accounts[frame.stream] else { return }
        switch frame.body {
        case .payload(let next, let complete, let content):
            var message = partial.removeValue(forKey: frame.stream) ?? (nil, [])
            if let metadata = content.metadata { message.metadata = (message.metadata ?? []) + bytes[metadata] }
            message.data += bytes[content.data]
            if frame.flags.contains(.follows) {
                partial[frame.stream] = message
                return
            }
            if next { account.item(message.metadata, String(decoding: message.data, as: UTF8.self)) }
            if complete { account.ended(message.metadata, nil) }
        case .error(_, let text): account.ended(nil, String(decoding: bytes[text], as: UTF8.self))
        case .requestN(let n): account.granted(Int(n))
        default: break
        }
    }
}
