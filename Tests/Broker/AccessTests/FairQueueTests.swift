// A fair queue, checked against the invariants of any such queue, whatever is added.

import Testing

@testable import Access

@Suite struct FairQueueTests {
    private struct Job: Equatable {
        let user: String
        let number: Int
        let size: Int
    }

    /// The simplest model: all jobs in order of arrival, and the time at which each user was last served.
    @Test(arguments: 0..<40)
    func equalsAList(_ seed: UInt64) {
        var random = Drawn(seed: seed)
        var queue = FairQueue<Job>(limit: 20, byteLimit: 2000, perUser: 6)
        var model: [Job] = []
        /// When each user joined the queue or, if later, was last served.
        var since: [String: Int] = [:]
        for step in 0..<2000 {
            if random.below(3) > 0 {
                let user = "\(random.below(random.below(2) == 0 ? 3 : 30))"
                let job = Job(user: user, number: step, size: random.below(random.below(4) == 0 ? 600 : 60))
                let own = model.count { $0.user == user }
                let wasFull = model.count == 20 || model.reduce(0) { $0 + $1.size } + job.size > 2000
                let displaced = queue.append(job, of: user, size: job.size)
                if own == 6 { #expect(displaced == [job]) } else if !wasFull { #expect(displaced.isEmpty) }
                for one in displaced where one != job {
                    #expect(one.user != user && model.last { $0.user == one.user } == one, "its newest job is dropped")
                    model.remove(at: model.firstIndex(of: one)!)
                    if !model.contains(where: { $0.user == one.user }) { since[one.user] = nil }
                }
                if !displaced.contains(job) {
                    if own == 0 { since[user] = step }
                    model.append(job)
                }
            } else {
                let job = queue.popFirst()
                guard let due = since.min(by: { $0.value < $1.value })?.key else {
                    #expect(job == nil)
                    continue
                }
                #expect(job == model.first { $0.user == due }, "the user who has waited longest is served")
                model.removeAll { $0 == job }
                since[due] = model.contains { $0.user == due } ? step : nil
            }
            #expect(queue.count == model.count && queue.bytes == model.reduce(0) { $0 + $1.size })
            #expect(queue.count <= 20 && queue.bytes <= 2000)
        }
    }

    @Test func anAddressWithNoneTakesThePlaceOfOneWithMany() {
        var queue = FairQueue<Int>(limit: 8, byteLimit: 1000, perUser: 8)
        for number in 0..<8 { #expect(queue.append(number, of: "many", size: 1).isEmpty) }
        #expect(queue.append(8, of: "many", size: 1) == [8])
        #expect(queue.append(100, of: "none", size: 1) == [7])
        #expect(queue.popFirst() == 0 && queue.popFirst() == 100 && queue.popFirst() == 1)
    }

    @Test func thoseThatFailedComeInEachFourthTurn() {
        var queue = LoginQueue<String>()
        for number in 0..<3 {
            #expect(queue.append("bad\(number)", of: "a", size: 1, hasFailed: true).isEmpty)
            for more in 0..<2 {
                #expect(queue.append("good\(2 * number + more)", of: "b", size: 1, hasFailed: false).isEmpty)
            }
        }
        var order: [String] = []
        while let next = queue.popFirst() { order.append(next) }
        #expect(order == ["good0", "good1", "good2", "bad0", "good3", "good4", "good5", "bad1", "bad2"])
        #expect(queue.count == 0)
    }
}

/// SplitMix64.
private struct Drawn {
    private var state: UInt64
    init(seed: UInt64) { state = seed }

    mutating func below(_ bound: Int) -> Int {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ word >> 30) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ word >> 27) &* 0x94D0_49BB_1331_11EB
        return Int((word ^ word >> 31) % UInt64(bound))
    }
}
