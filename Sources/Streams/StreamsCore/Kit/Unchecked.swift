// Unchecked: passes a value to another thread when the compiler cannot prove that this is safe but the library ensures
// it.

/// The value is used by one thread at a time.
package struct Unchecked<Value>: @unchecked Sendable {
    package let value: Value

    package init(_ value: Value) { self.value = value }
}
