// FairQueue: a queue that its users share fairly. Each user has a separate line of bounded length, and the lines are
// served round robin. When the whole queue is full, the user with the most elements loses its newest element to a user
// with fewer.
//
//     turns   a ──▶ b ──▶ c          taken: a1, b1, c1, a2, c2, a3
//             a1    b1    c1
//             a2          c2
//             a3

struct FairQueue<Element> {
    private struct Line {
        var elements: [(element: Element, size: Int)] = []
        var bytes = 0
    }

    /// Limits: elements in total, bytes in total, and elements of one user.
    let limit: Int
    let byteLimit: Int
    let perUser: Int

    /// No line is empty.
    private var lines: [String: Line] = [:]
    /// The users with a line, each once, in the order in which they are served. At most `limit`.
    private var turns: [String] = []
    private(set) var count = 0
    private(set) var bytes = 0

    init(limit: Int, byteLimit: Int, perUser: Int) {
        self.limit = limit
        self.byteLimit = byteLimit
        self.perUser = perUser
    }

    /// Returns the elements that do not fit: the new one, some that were queued before, or both.
    mutating func append(_ element: Element, of user: String, size: Int) -> [Element] {
        let own = lines[user] ?? Line()
        guard own.elements.count < perUser else { return [element] }
        var displaced: [Element] = []
        while count >= limit || bytes + size > byteLimit {
            // The replacement must make the two users' shares more equal.
            let victim =
                count >= limit
                ? most { $0.elements.count }.flatMap { $0.most > own.elements.count + 1 ? $0.user : nil }
                : most { $0.bytes }.flatMap { $0.most > own.bytes + size ? $0.user : nil }
            guard let victim, victim != user else { return displaced + [element] }
            displaced.append(removeNewest(of: victim))
        }
        if lines[user] == nil { turns.append(user) }
        lines[user, default: Line()].elements.append((element, size))
        lines[user]?.bytes += size
        count += 1
        bytes += size
        return displaced
    }

    mutating func popFirst() -> Element? {
        guard !turns.isEmpty else { return nil }
        let user = turns.removeFirst()
        guard var line = lines.removeValue(forKey: user) else { return nil }
        let (element, size) = line.elements.removeFirst()
        line.bytes -= size
        count -= 1
        bytes -= size
        if !line.elements.isEmpty {
            lines[user] = line
            turns.append(user)
        }
        return element
    }

    /// The user with the most elements; among equals, the one that is served last.
    private func most(_ measure: (Line) -> Int) -> (user: String, most: Int)? {
        var found: (user: String, most: Int)?
        for user in turns {
            guard let line = lines[user] else { continue }
            let amount = measure(line)
            if amount >= found?.most ?? 0 { found = (user, amount) }
        }
        return found
    }

    private mutating func removeNewest(of user: String) -> Element {
        let (element, size) = lines[user]!.elements.removeLast()
        lines[user]!.bytes -= size
        count -= 1
        bytes -= size
        if lines[user]!.elements.isEmpty {
            lines[user] = nil
            turns.removeAll { $0 == user }
        }
        return element
    }
}

/// Logins that wait for the slow hash of a password. Addresses without recent failures go first, except on every
/// fourth turn. So a flood of wrong passwords keeps nobody out, and nobody waits forever.
public struct LoginQueue<Element> {
    private static var empty: FairQueue<Element> {
        FairQueue(limit: LoginLimits.queue, byteLimit: LoginLimits.queueBytes, perUser: LoginLimits.perAddress)
    }

    private var fresh = empty
    private var failed = empty
    private var turn = 0

    public init() {}

    public var count: Int { fresh.count + failed.count }

    /// Returns the elements that do not fit.
    /// - Parameters:
    ///   - block: the address block, from `AddressBlock`.
    ///   - hasFailed: a login from this block failed recently.
    public mutating func append(_ element: Element, of block: String, size: Int, hasFailed: Bool) -> [Element] {
        hasFailed
            ? failed.append(element, of: block, size: size) : fresh.append(element, of: block, size: size)
    }

    public mutating func popFirst() -> Element? {
        turn = (turn + 1) % 4
        return turn == 0
            ? failed.popFirst() ?? fresh.popFirst()
            : fresh.popFirst() ?? failed.popFirst()
    }
}
