// Every overflow policy, as a table of cases.

import ForebayWire
import Replay
import Testing

struct PolicyTests {
    @Test(arguments: dropOldest + latest) func dropsOldest(_ script: Script) { script.run() }
    @Test(arguments: dropNewest + replaceNewest) func dropsNewest(_ script: Script) { script.run() }
    @Test(arguments: fail) func fails(_ script: Script) { script.run() }
    @Test(arguments: block) func blocks(_ script: Script) { script.run() }

    static let dropOldest: [Script] = [
        Script(
            name: "credit for all", policy: .dropOldest, buffer: 2, credit: 9, steps: [.append(5)], gives: "1 2 3 4 5"),
        Script(
            name: "no credit", policy: .dropOldest, buffer: 3, steps: [.append(3)], gives: "", waiting: 3, then: "1 2 3"
        ),
        Script(
            name: "one too many", policy: .dropOldest, buffer: 3, steps: [.append(4)], gives: "", dropped: 1,
            waiting: 3,
            then: "2(1) 3 4"),
        Script(
            name: "credit runs out within a batch", policy: .dropOldest, buffer: 2, credit: 2, steps: [.append(7)],
            gives: "1 2", dropped: 3, waiting: 2, then: "6(3) 7"),
        Script(
            name: "room runs out within a batch", policy: .dropOldest, buffer: 2, credit: 9,
            steps: [.append(4, room: 1), .room(1)], gives: "1 3(1)", dropped: 1, waiting: 1, then: "4"),
        Script(
            name: "credit later", policy: .dropOldest, buffer: 2,
            steps: [.append(5), .request(1), .room(9), .append(2)],
            gives: "4(3)", dropped: 4, waiting: 2, then: "6(1) 7"),
        Script(
            name: "what waits goes before what arrives", policy: .dropOldest, buffer: 2,
            steps: [.append(2), .request(3), .append(2)], gives: "1 2 3", waiting: 1, then: "4"),
        Script(
            name: "buffer of 1", policy: .dropOldest, buffer: 1, steps: [.append(1), .append(1), .append(1)], gives: "",
            dropped: 2, waiting: 1, then: "3(2)"),
        Script(
            name: "far beyond", policy: .dropOldest, buffer: 3, steps: [.append(1 << 40)], gives: "",
            dropped: (1 << 40) - 3, waiting: 3,
            then: "\((1 << 40) - 2)(\((1 << 40) - 3)) \((1 << 40) - 1) \(1 << 40)"),
        Script(
            name: "a joiner's limit is buffer plus replay", policy: .dropOldest, buffer: 2, start: .all,
            retained: 1..<6,
            steps: [.append(2)], gives: "", waiting: 7, then: "1 2 3 4 5 6 7"),
        Script(
            name: "and no more", policy: .dropOldest, buffer: 2, start: .all, retained: 1..<6, steps: [.append(4)],
            gives: "", dropped: 2, waiting: 7, then: "3(2) 4 5 6 7 8 9"),
        Script(
            name: "until buffer wait", policy: .dropOldest, buffer: 2, start: .all, retained: 1..<6,
            steps: [.request(3), .room(9), .append(2)], gives: "1 2 3", dropped: 2, waiting: 2, then: "6(2) 7"),
        Script(
            name: "one more than buffer keeps it", policy: .dropOldest, buffer: 2, start: .all, retained: 1..<6,
            steps: [.request(2), .room(9), .append(9)], gives: "1 2", dropped: 5, waiting: 7,
            then: "8(5) 9 10 11 12 13 14"),
        Script(
            name: "a replay that fits leaves the buffer as it is", policy: .dropOldest, buffer: 3, start: .last(3),
            retained: 1..<6, steps: [.append(1)], gives: "", dropped: 1, waiting: 3, then: "4(1) 5 6"),
        Script(
            name: "eviction", policy: .dropOldest, buffer: 4, steps: [.append(4), .evict(3)], gives: "", dropped: 2,
            waiting: 2, then: "3(2) 4"),
        Script(
            name: "eviction of what does not wait", policy: .dropOldest, buffer: 4, credit: 3,
            steps: [.append(4), .evict(3), .evict(4)], gives: "1 2 3", waiting: 1, then: "4"),
        Script(
            name: "eviction beyond all that waits", policy: .dropOldest, buffer: 4,
            steps: [.append(2), .evict(6), .append(3)],
            gives: "", dropped: 5, waiting: 0, then: "+5"),
        Script(
            name: "a gap at the start and drops add up", policy: .dropOldest, buffer: 2, start: .from(sequence(3)),
            retained: 5..<7, steps: [.append(3)], gives: "", dropped: 3, waiting: 2, then: "8(5) 9"),
        Script(
            name: "completion waits for what waits", policy: .dropOldest, buffer: 4,
            steps: [.append(2), .complete, .takeEnd, .request(1), .room(9), .takeEnd], gives: "1", waiting: 1,
            then: "2 | completed"),
        Script(
            name: "completion needs no credit", policy: .dropOldest, buffer: 4, credit: 2,
            steps: [.append(2), .complete, .takeEnd], gives: "1 2 | completed"),
        Script(
            name: "the first end counts", policy: .dropOldest, buffer: 4, steps: [.failTopic, .complete, .takeEnd],
            gives: "| topicFailed"),
        Script(
            name: "drops after the last delivery are reported with the end", policy: .dropOldest, buffer: 4, credit: 1,
            steps: [.append(3), .evict(4), .failTopic], gives: "1", dropped: 2, then: "+2 | topicFailed"),
        Script(
            name: "nothing after the end", policy: .dropOldest, buffer: 4, credit: 9,
            steps: [.append(1), .complete, .takeEnd, .append(3), .room(9), .failTopic, .fail(.bytes), .takeEnd],
            gives: "1 | completed"),
        Script(
            name: "a request for nothing changes nothing", policy: .dropOldest, buffer: 4,
            steps: [.request(0), .append(1), .request(0)], gives: "", waiting: 1, then: "1"),
    ]

    static let latest: [Script] = [
        Script(
            name: "only the newest", policy: .latest, buffer: 100, steps: [.append(4)], gives: "", dropped: 3,
            waiting: 1, then: "4(3)"),
        Script(
            name: "credit is used first", policy: .latest, buffer: 100, credit: 2, steps: [.append(5)], gives: "1 2",
            dropped: 2, waiting: 1, then: "5(2)"),
        Script(
            name: "replay is 1 and drops none", policy: .latest, buffer: 100, start: .all, retained: 1..<6,
            steps: [.request(2), .room(9), .append(2)], gives: "5 6", waiting: 1, then: "7"),
        Script(
            name: "replay gives way", policy: .latest, buffer: 100, start: .last(3), retained: 1..<6,
            steps: [.append(1)],
            gives: "", dropped: 1, waiting: 1, then: "6(1)"),
        Script(
            name: "from reports what it skips", policy: .latest, buffer: 100, start: .from(sequence(2)),
            retained: 1..<6,
            steps: [.append(1)], gives: "", dropped: 4, waiting: 1, then: "6(4)"),
    ]

    static let dropNewest: [Script] = [
        Script(
            name: "refuses", policy: .dropNewest, buffer: 3, steps: [.append(5)], gives: "", dropped: 2, waiting: 3,
            then: "1 2 3 +2"),
        Script(
            name: "credit is used first", policy: .dropNewest, buffer: 2, credit: 2, steps: [.append(7)], gives: "1 2",
            dropped: 3, waiting: 2, then: "3 4 +3"),
        Script(
            name: "takes again once there is room", policy: .dropNewest, buffer: 2,
            steps: [.append(4), .request(1), .room(9), .append(3)], gives: "1", dropped: 4, waiting: 2,
            then: "2 5(2) +2"),
        Script(
            name: "a second range goes on", policy: .dropNewest, buffer: 3,
            steps: [.append(5), .request(2), .room(9), .append(1), .append(2)], gives: "1 2", dropped: 3, waiting: 3,
            then: "3 6(2) 7 +1"),
        Script(
            name: "straight through after a gap", policy: .dropNewest, buffer: 1,
            steps: [.append(3), .request(2), .append(1), .append(2)], gives: "1 4(2)", dropped: 3, waiting: 1,
            then: "5 +1"),
        Script(
            name: "eviction across ranges", policy: .dropNewest, buffer: 3,
            steps: [.append(5), .request(2), .room(9), .append(3), .evict(7), .append(3)], gives: "1 2", dropped: 6,
            waiting: 3, then: "7(4) 9(1) 10 +1"),
        Script(
            name: "completion reports the last drops", policy: .dropNewest, buffer: 1, steps: [.append(3), .complete],
            gives: "", dropped: 2, waiting: 1, then: "1 +2 | completed"),
        Script(
            name: "a joiner", policy: .dropNewest, buffer: 2, start: .all, retained: 1..<4, steps: [.append(4)],
            gives: "", dropped: 2, waiting: 5, then: "1 2 3 4 5 +2"),
    ]

    static let replaceNewest: [Script] = [
        Script(
            name: "replaces", policy: .replaceNewest, buffer: 3, steps: [.append(5)], gives: "", dropped: 2, waiting: 3,
            then: "1 2 5(2)"),
        Script(
            name: "buffer of 1", policy: .replaceNewest, buffer: 1, steps: [.append(1), .append(1), .append(3)],
            gives: "",
            dropped: 4, waiting: 1, then: "5(4)"),
        Script(
            name: "credit is used first", policy: .replaceNewest, buffer: 2, credit: 2, steps: [.append(7)],
            gives: "1 2",
            dropped: 3, waiting: 2, then: "3 7(3)"),
        Script(
            name: "again and again", policy: .replaceNewest, buffer: 3,
            steps: [.append(4), .append(1), .request(1), .room(9), .append(1), .append(1)], gives: "1", dropped: 3,
            waiting: 3, then: "2 5(2) 7(1)"),
        Script(
            name: "straight on to the pending", policy: .replaceNewest, buffer: 2,
            steps: [.append(4), .request(3), .append(1)], gives: "1 4(2) 5", dropped: 2),
        Script(
            name: "eviction within the first range", policy: .replaceNewest, buffer: 3, steps: [.append(5), .evict(2)],
            gives: "", dropped: 3, waiting: 2, then: "2(1) 5(2)"),
        Script(
            name: "a joiner", policy: .replaceNewest, buffer: 2, start: .all, retained: 1..<4, steps: [.append(4)],
            gives: "", dropped: 2, waiting: 5, then: "1 2 3 4 7(2)"),
    ]

    static let fail: [Script] = [
        Script(
            name: "full is not too much", policy: .fail, buffer: 3, steps: [.append(3), .takeEnd], gives: "",
            waiting: 3, then: "1 2 3"),
        Script(
            name: "what waits is delivered, then the end", policy: .fail, buffer: 3,
            steps: [.append(4), .takeEnd, .request(2), .room(9), .takeEnd], gives: "1 2", waiting: 1,
            then: "3 | overflow(Replay.OverflowCause.buffer)"),
        Script(
            name: "takes nothing more", policy: .fail, buffer: 2,
            steps: [.append(3), .request(9), .room(1), .append(2)],
            gives: "1 2", then: "| overflow(Replay.OverflowCause.buffer)"),
        Script(
            name: "credit is used first", policy: .fail, buffer: 2, credit: 2, steps: [.append(4)], gives: "1 2",
            waiting: 2, then: "3 4"),
        Script(
            name: "a later end does not matter", policy: .fail, buffer: 1, steps: [.append(2), .complete], gives: "",
            waiting: 1, then: "1 | overflow(Replay.OverflowCause.buffer)"),
        Script(
            name: "an earlier end does", policy: .fail, buffer: 2, steps: [.append(2), .complete, .append(5)],
            gives: "",
            waiting: 2, then: "1 2 | completed"),
        Script(
            name: "eviction", policy: .fail, buffer: 4, steps: [.append(3), .evict(2), .append(1)], gives: "",
            dropped: 1,
            waiting: 2, then: "2(1) 3 | overflow(Replay.OverflowCause.bytes)"),
        Script(
            name: "eviction of all", policy: .fail, buffer: 4, steps: [.append(3), .evict(4), .takeEnd],
            gives:
                "| overflow(Replay.OverflowCause.bytes)", dropped: 3, then: "+3"),
        Script(
            name: "eviction of nothing that waits", policy: .fail, buffer: 4, credit: 1,
            steps: [.append(3), .evict(2)],
            gives: "1", waiting: 2, then: "2 3"),
        Script(
            name: "eviction after an overflow", policy: .fail, buffer: 2, steps: [.append(3), .evict(2)], gives: "",
            dropped: 1, waiting: 1, then: "2(1) | overflow(Replay.OverflowCause.buffer)"),
        Script(
            name: "eviction outdoes completion", policy: .fail, buffer: 4, steps: [.append(3), .complete, .evict(2)],
            gives: "", dropped: 1, waiting: 2, then: "2(1) 3 | overflow(Replay.OverflowCause.bytes)"),
        Script(
            name: "a joiner", policy: .fail, buffer: 1, start: .all, retained: 1..<3, steps: [.append(1), .append(1)],
            gives: "", waiting: 3, then: "1 2 3 | overflow(Replay.OverflowCause.buffer)"),
    ]

    static let block: [Script] = [
        Script(
            name: "always waits", policy: .block, buffer: 2, steps: [.append(5)], gives: "", waiting: 5,
            then: "1 2 3 4 5"),
        Script(
            name: "fails at once", policy: .block, buffer: 2, credit: 1,
            steps: [.append(3), .fail(.blockedTooLong), .append(2), .takeEnd],
            gives: "1 | overflow(Replay.OverflowCause.blockedTooLong)", dropped: 2, then: "+2"),
        Script(
            name: "failing outdoes an end not yet due", policy: .block, buffer: 2,
            steps: [.append(1), .complete, .fail(.blockedTooLong)], gives: "", dropped: 1,
            then: "+1 | overflow(Replay.OverflowCause.blockedTooLong)"),
        Script(
            name: "but not one that is", policy: .block, buffer: 2, steps: [.complete, .fail(.blockedTooLong)],
            gives: "",
            then: "| completed"),
        Script(
            name: "eviction of a joiner's history", policy: .block, buffer: 2, start: .all, retained: 1..<5,
            steps: [.append(1), .evict(3)], gives: "", dropped: 2, waiting: 3, then: "3(2) 4 5"),
    ]

    /// The bounds for publishers and for eviction depend only on what arrived after joining.
    @Test func horizonAndFloor() {
        var subscription = Subscription(
            start: .all, window: window(1..<6), buffer: 3, overflow: .block, credit: credit(0))
        func expect(floor: UInt64?, horizon: UInt64?, at line: SourceLocation = #_sourceLocation) {
            #expect(subscription.floor?.value == floor, sourceLocation: line)
            #expect(subscription.horizon?.value == horizon, sourceLocation: line)
        }
        expect(floor: 6, horizon: 9)
        subscription.appended(upTo: sequence(9))
        expect(floor: 6, horizon: 9)
        subscription.applyPolicy()
        expect(floor: 6, horizon: 9)
        _ = subscription.request(6)
        subscription.handOver(5)
        #expect(subscription.cursor == sequence(6))
        expect(floor: 6, horizon: 9)
        subscription.handOver(1)
        expect(floor: 7, horizon: 10)
        subscription.appended(upTo: sequence(12))
        subscription.applyPolicy()
        expect(floor: 7, horizon: 10)
        subscription.topicEnded(.completed, at: sequence(12))
        expect(floor: 7, horizon: 10)
        subscription.fail(.blockedTooLong)
        expect(floor: nil, horizon: nil)
        let taken = subscription.takeEnd()
        #expect(taken == .overflow(.blockedTooLong))
        expect(floor: nil, horizon: nil)

        for policy in Overflow.allCases where policy != .block {
            let other = Subscription(start: .all, window: window(1..<6), buffer: 3, overflow: policy, credit: credit(0))
            #expect(other.horizon == nil)
            #expect(other.floor == nil)
        }
    }
}
