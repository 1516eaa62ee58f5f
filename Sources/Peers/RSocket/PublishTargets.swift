// PublishTargets: where single publishes go, by the bytes of their routes. A client that publishes to a topic again and
// again sends the same route each time; it is parsed and checked once.
//
// A table of fixed size: each route has one slot, by a hash of its bytes, and takes it from the one that was there. So
// whatever clients send, all that can be lost is time.

import ForebayWire
import RSocket

/// A topic that may be published to, as a route without options names it.
final class PublishTarget {
    let name: String
    /// The shard that the topic lives on.
    let owner: Int
    /// Where the topic was found last, if it lives on this shard. Once it is gone, nothing is found there.
    var place: Handle?

    init(name: String, owner: Int) {
        self.name = name
        self.owner = owner
    }
}

/// Topics that a connection has been found to be allowed to publish to: of one more than there is room for, the oldest
/// is forgotten, and looked up again.
struct AllowedTargets {
    /// How many are remembered.
    static let most = 4

    private var targets = InlineArray<4, PublishTarget?>(repeating: nil)
    /// The place of the next one.
    private var next = 0

    func contains(_ target: PublishTarget) -> Bool {
        for place in targets.indices where targets[place] === target { return true }
        return false
    }

    /// From the latest one back.
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
    /// Routes that one shard remembers.
    static let slots = 1 << slotBits
    private static let slotBits = 10
    /// Bytes of the longest route that is remembered: of a name that needs no percent signs, the longest.
    static let longestRoute = TopicName.longest

    private struct Slot {
        var route: [UInt8]
        var target: PublishTarget
    }

    /// Empty until something is to be remembered.
    private var slots: [Slot?] = []

    /// What was remembered for a route; nil if nothing was, or something else has taken its slot.
    func find(_ tags: RouteTags) -> PublishTarget? {
        // Further tags are options, and routes with options are not remembered.
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
        // FNV-1a, as for owners; a last step spreads what the last bytes changed to the top, which is taken.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in route { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return Int((hash &* 0x9E37_79B9_7F4A_7C15) >> (64 - slotBits))
    }
}
