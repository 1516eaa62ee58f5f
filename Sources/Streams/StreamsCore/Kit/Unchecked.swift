// Unchecked: hands on what the compiler cannot see to be safe on another thread, where this library sees to it.

/// What is held is used from one thread at a time.
package struct Unchecked<Value>: @unchecked Sendable {
    package let value: Value

    package init(_ value: Value) { self.value = value }
}
