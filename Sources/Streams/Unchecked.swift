// Unchecked: hands what is not Sendable to an API that asks for it.

/// Schedulers take closures of any kind, as Combine's do, while Dispatch and Foundation ask for `@Sendable` ones. That
/// such a closure is called on one thread while nobody else uses what it captured is for who schedules it to see to;
/// the operators of this library guard what they share.
struct Unchecked<Value>: @unchecked Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }
}
