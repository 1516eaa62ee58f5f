// PublishTargets: the targets of single publishes, by the bytes of their routes. A client that publishes to a topic
// repeatedly sends the same route each time; the route is parsed and checked once.
//
// The table has a fixed size. Each route has one slot, chosen by a hash of its bytes, and evicts the route that was in
// the slot. Whatever clients send, a miss costs only time.

import ForebayWire
import RSocket

/// A topic that may be published to, as named by a route without options.
final class PublishTarget {
    let name: String
    /// The shard that owns the topic.
    let owner: Int
    /// Where the topic was last found, if it is on this shard. The handle finds nothing once the topic is gone.
    var place: Handle?

    init(name: String, owner: Int) {
        self.name = name
        self.owner = owner
    }
}

/// The latest topics that a connection was found to be allowed to publish to. When all places are taken, the oldest is
/// replaced and has to be looked up again.
struct AllowedTargets {
    /// The maximum number of topics remembered.
    static let most = 4

    private var targets = InlineArray<4, PublishTarget?>(repeating: nil)
    /// Where the next topic is stored.
    private var next = 0

    func contains(_ target: PublishTarget) -> Bool {
        for place in targets.indices where targets[place] === target { return true }
        return false
    }

    /// Latest first.
    func forEach(_ body: (PublishTarget) -> Void) {
        for back in 1...AllowedTargets.most {
            if let target = targets[(next + AllowedTargets.most - back) % AllowedTargets.most] { body(target) }
        }
    }

    mutating func insert(_ target: PublishTarget) {
        targets[next] = target
        next = (next + 1) % AllowedTargets.most
    }
}

struct PublishTargets {
    /// How many routes a shard remembers.
    static let slots = 1 << slotBits
    private static let slotBits = 10
    /// The maximum length of a remembered route in bytes: the longest name that needs no percent-encoding.
    static let longestRoute = TopicName.longest

    private struct Slot {
        var route: [UInt8]
        var target: PublishTarget
    }

    /// Empty until the first insertion.
    private var slots: [Slot?] = []

    /// The remembered target of a route; nil if there is none or its slot was taken by another route.
    func find(_ tags: RouteTags) -> PublishTarget? {
        // Extra tags are options, and routes with options are not remembered.
        guard !slots.isEmpty, tags.extra.isEmpty, let slot = slots[PublishTargets.slot(of: tags.route)],
            slot.route.count == tags.route.count,
            slot.route.withUnsafeBytes({ $0.elementsEqual(tags.route) })
        else { return nil }
        return slot.target
    }

    /// Remembers the target of a route that has no options.
    mutating func insert(_ target: PublishTarget, for tags: RouteTags) {
        guard tags.extra.isEmpty, tags.route.count <= PublishTargets.longestRoute else { return }
        if slots.isEmpty { slots = Array(repeating: nil, count: PublishTargets.slots) }
        slots[PublishTargets.slot(of: tags.route)] = Slot(route: Array(tags.route), target: target)
    }

    static func slot(of route: UnsafeRawBufferPointer) -> Int {
        // FNV-1a, as for owners. The last multiplication spreads the last bytes' changes to the top bits, which are
        // used.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in route { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return Int((hash &* 0x9E37_79B9_7F4A_7C15) >> (64 - slotBits))
    }
}
