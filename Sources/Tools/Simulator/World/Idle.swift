// Idle: the memory cost of idle objects, measured by the allocator, to compare with what `HeapCheck` allows for each.

import Core

public enum Idle: CaseIterable, Sendable {
    case shard, rsocket, resumable, http2, subscription, call, topic

    /// The bytes that the memory bound allows for one object.
    public var allowed: Int {
        switch self {
        case .shard: HeapCheck.shard
        case .rsocket, .resumable: HeapCheck.connection
        case .http2: HeapCheck.connection + HeapCheck.http2Connection
        case .subscription, .call: HeapCheck.stream
        case .topic: HeapCheck.topic + HeapCheck.stream
        }
    }

    /// The bytes that one object takes, averaged over many; nil if the allocator does not count.
    public func measured(_ count: Int = 200) -> Int? {
        guard Heap.isCounted else { return nil }
        return Heap.watch {
            let world = IdleWorld()
            if self == .shard { return Heap.live }
            let client = world.connect(.rsocket)
            let caller = world.connect(.http2)
            world.subscribe(client, "first")
            world.quiesce()
            let before = Heap.live
            for index in 0..<count {
                switch self {
                case .subscription: world.subscribe(client, "first")
                case .call: world.subscribe(caller, "first")
                case .topic: world.subscribe(client, "topic.\(index)")
                default: _ = world.connect(self)
                }
                world.quiesce()
            }
            return (Heap.live - before) / count
        }
    }
}

/// A broker with one shard and default limits.
private final class IdleWorld {
    private let plan = Plan.idle
    private let chance = Chance(seed: 1)
    private let trace = Trace(print: nil)
    private let referee = Referee()
    private let journal: Journal
    private let broker: Broker
    private var clients: [any VirtualClient] = []
    private var ledgers: [SubscriberLedger] = []

    init() {
        journal = Journal(referee)
        broker = Broker(plan, chance, trace)
    }

    func connect(_ kind: Idle) -> any VirtualClient {
        let wire = broker.open(on: 0, kind == .http2 ? .http : .rsocket)!
        let client: any VirtualClient
        if kind == .http2 {
            client = HTTP2Client(wire, plan, chance, journal, referee, trace) { _ in }
        } else {
            let token = (0..<16).map { UInt8(truncatingIfNeeded: clients.count >> $0) }
            let session = kind == .resumable ? SessionLedger(token, wire, plan, referee) : nil
            client = RSocketClient(wire, session, plan, chance, journal, referee, trace) { _ in }
        }
        clients.append(client)
        return client
    }

    func subscribe(_ client: any VirtualClient, _ topic: String) {
        var request = SubscribeRequest(topic: topic)
        client.adapt(&request)
        let ledger = SubscriberLedger(client, request, journal, referee)
        ledgers.append(ledger)
        client.subscribe(ledger, n: 1)
    }

    func quiesce() {
        repeat {
            broker.turn(0, isPartial: false)
            for client in clients { client.read(.max) }
        } while !broker.isAtRest
    }
}
