// CombineIdentifier: tells subscribers and subscriptions apart, whatever kind they are.

import Synchronization

/// A mark that no other has.
public struct CombineIdentifier: Hashable, CustomStringConvertible, Sendable {
    private static let next = Atomic<UInt64>(0)
    private let number: UInt64

    /// A mark that was never given before.
    public init() { number = CombineIdentifier.next.wrappingAdd(1, ordering: .relaxed).oldValue }

    /// The mark of an object, as long as it lives.
    public init(_ object: AnyObject) { number = UInt64(UInt(bitPattern: ObjectIdentifier(object))) }

    public var description: String { "0x\(String(number, radix: 16))" }
}

/// Something that can be told apart from others of any kind.
public protocol CustomCombineIdentifierConvertible {
    /// Objects are identified by what they are, values by what is made of them at the first question.
    var combineIdentifier: CombineIdentifier { get }
}

extension CustomCombineIdentifierConvertible where Self: AnyObject {
    /// Objects are identified by what they are, values by what is made of them at the first question.
    public var combineIdentifier: CombineIdentifier { CombineIdentifier(self) }
}
