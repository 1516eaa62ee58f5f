// Guarded: a value used by several threads, one at a time. The thread sanitizer does not see the futex of a
// `Synchronization.Mutex`, and would report accesses to the value as races.

import Foundation

final class Guarded<Value>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    init(_ value: Value) { self.value = value }

    func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}
