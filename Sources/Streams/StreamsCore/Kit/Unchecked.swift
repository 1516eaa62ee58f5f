// Unchecked: passes a value between threads when this library, not the compiler, ensures that it is safe.

/// The value is used by one thread at a time.
package struct Unchecked<Value>: @unchecked Sendable {
    package let value: Value

    package init(_ value: Value) { self.value = value }
}
