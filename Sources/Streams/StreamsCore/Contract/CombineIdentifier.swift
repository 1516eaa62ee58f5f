// CombineIdentifier: distinguishes subscribers and subscriptions of any type.

import Synchronization

/// A unique identifier.
public struct CombineIdentifier: Hashable, CustomStringConvertible, Sendable {
    private static let next = Atomic<UInt64>(0)
    private let number: UInt64

    /// Creates an identifier that has never been used.
    public init() { number = CombineIdentifier.next.wrappingAdd(1, ordering: .relaxed).oldValue }

    /// Creates the identifier of an object, unique during the object's lifetime.
    public init(_ object: AnyObject) { number = UInt64(UInt(bitPattern: ObjectIdentifier(object))) }

    public var description: String { "0x\(String(number, radix: 16))" }
}

/// A type whose instances can be distinguished from those of any other type.
public protocol CustomCombineIdentifierConvertible {
    /// The identifier. That of an object is derived from its identity.
    var combineIdentifier: CombineIdentifier { get }
}

extension CustomCombineIdentifierConvertible where Self: AnyObject {
    /// The identifier. That of an object is derived from its identity.
    public var combineIdentifier: CombineIdentifier { CombineIdentifier(self) }
}
