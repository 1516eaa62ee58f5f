import Bytes
import RSocket
import Testing

@testable import Core

/// Random clients of one topic over several engines. Whatever they do: nobody receives more than was asked for, each
/// sees messages in order and at most once, and what is missing is told.
@Suite struct LedgerTests {
    struct Random {
        var state: UInt64
        mutating func next(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int((state >> 33) % UInt64(bound))
        }
        mutating func pick<T>(_ values: [T]) -> T { values[next(values.count)] }
    }

    /// What one subscriber asked for and saw.
    final class Ledger {
        let client: TestClient
        let route: String
        var requested: Int
        var joined: Int
        var delivered = 0
        var last: Int
        var lost = 0
        var isUnbounded = false
        var end: String?

        init(_ client: TestClient, _ route: String, n: Int, joined: Int, from: Int) {
            self.client = client
            self.route = route
            requested = n
            self.joined = joined
            last = from
        }

        func read(_ seed: Int) {
            for line in client.received() {
                #expect(end == nil, "seed \(seed): \(route) got \(line) after its end")
                guard line.hasPrefix("1:["), !line.hasSuffix("]|"), let close = line.firstIndex(of: "]") else {
                    end = line
                    continue
                }
                let parts = line[line.index(line.startIndex, offsetBy: 3)..<close].split(separator: "-")
                let sequence = Int(parts[0])!
                let dropped = parts.count > 1 ? Int(parts[1])! : 0
                #expect(sequence == last + dropped + 1, "seed \(seed): \(route) saw \(line) after \(last)")
                #expect(line.hasSuffix("]m\(sequence)"), "seed \(seed): \(line)")
                last = sequence
                lost += dropped
                delivered += 1
                #expect(isUnbounded || delivered <= requested, "seed \(seed): \(route) got more than it asked for")
            }
        }
    }

    @Test(arguments: 0..<150)
    func ledgersBalance(_ seed: Int) {
        var random = Random(state: UInt64(seed))
        var limits = Limits()
        limits.retain = random.pick([3, 20, 1000])
        limits.output = random.pick([200, 2000, 256 << 10])
        limits.grant = random.pick([1, 5, 64])
        let shards = 1 + random.next(3)
        let broker = TestBroker(shards: shards, limits: limits)
        let publisher = broker.connect(random.next(shards))
        var published = 0
        var credit = 0
        publisher.channel("t", "m1")
        published = 1
        var ledgers: [Ledger] = []

        func readPublisher() {
            for line in publisher.received() where line.hasPrefix("5:+") { credit += Int(line.dropFirst(3))! }
        }

        for _ in 0..<200 {
            switch random.next(8) {
            case 0 where ledgers.count < 12:
                let policy = random.pick(["drop-oldest", "drop-newest", "replace-newest", "latest", "fail", "block"])
                let buffer = random.pick([1, 2, 7, 50])
                let replay = random.pick([0, 1, 5])
                let n = 1 + random.next(9)
                let client = broker.connect(random.next(shards))
                let route = "t?meta=on&overflow=\(policy)&buffer=\(buffer)&replay=\(replay)"
                let retained = min(limits.retain, published, policy == "latest" ? min(replay, 1) : replay)
                client.subscribe(route, n: UInt32(n))
                ledgers.append(Ledger(client, route, n: n, joined: published - retained, from: published - retained))
            case 1 where !ledgers.isEmpty:
                let ledger = random.pick(ledgers)
                let n = random.pick([1, 3, 20, 0x7FFF_FFFF])
                ledger.requested += n
                if n == 0x7FFF_FFFF { ledger.isUnbounded = true }
                ledger.client.requestN(UInt32(n))
            case 2 where !ledgers.isEmpty:
                let ledger = random.pick(ledgers)
                if random.next(2) == 0 { ledger.client.window = random.next(300) } else { ledger.client.read(.max) }
            case 3 where ledgers.count > 3:
                ledgers.remove(at: random.next(ledgers.count)).client.disconnect()
            case 4:
                broker.advance(seconds: random.pick([0.25, 2]))
            default:
                readPublisher()
                let count = min(credit, 1 + random.next(20))
                publisher.items((0..<count).map { "m\(published + 1 + $0)" })
                credit -= count
                published += count
            }
            for ledger in ledgers { ledger.read(seed) }
        }
        // Everybody asks for everything and reads it, and the topic ends.
        for ledger in ledgers {
            ledger.isUnbounded = true
            ledger.client.requestN(0x7FFF_FFFF)
            ledger.client.read(.max)
        }
        let control = broker.connect()
        control.publish("$SYS.topic.complete?name=t", "")
        for ledger in ledgers {
            ledger.read(seed)
            #expect(ledger.end != nil, "seed \(seed): \(ledger.route) saw no end")
            if ledger.route.contains("fail") || ledger.end?.contains("!") == true { continue }
            // What was dropped behind the last delivery is told with the end.
            var tail = 0
            if let end = ledger.end, let open = end.firstIndex(of: "["), let close = end.firstIndex(of: "]") {
                tail = Int(end[open..<close].split(separator: "-").last!) ?? 0
            }
            #expect(
                ledger.delivered + ledger.lost + tail == published - ledger.joined,
                "seed \(seed): \(ledger.route) delivered \(ledger.delivered), lost \(ledger.lost)+\(tail) of \(published - ledger.joined)"
            )
        }
        #expect(broker.shards.allSatisfy { $0.subscriptionCount == 0 })
        #expect(broker.shards.allSatisfy { $0.effects.mail.allSatisfy(\.isEmpty) })
    }
}
