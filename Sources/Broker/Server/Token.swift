// Token: identifies the owner of an event from a loop's poller.

import Core

/// An event's owner in 64 bits: the high half is a generation or number, the low half an index or one of the marks,
/// which are above all indexes that the engine assigns.
enum Token: Equatable {
    case connection(ConnectionID)
    /// A socket in the LingerQueue, by number.
    case lingering(UInt32)
    case inbox
    /// A listening socket, by index.
    case listener(UInt32)
    /// An instance of the HTTP/1.1 library, by index.
    case micro(UInt32)
    /// A Relay, by number: its client's socket and the library's.
    case relay(UInt32)
    case relayInner(UInt32)

    private static let inboxMark = UInt32.max
    private static let lingerMark = UInt32.max - 1
    private static let microMark = UInt32.max - 2
    private static let relayMark = UInt32.max - 3
    private static let relayInnerMark = UInt32.max - 4
    private static let listenerMark = UInt32.max - 5

    init(rawValue: UInt64) {
        let low = UInt32(truncatingIfNeeded: rawValue)
        let high = UInt32(truncatingIfNeeded: rawValue >> 32)
        switch low {
        case Token.inboxMark: self = .inbox
        case Token.microMark: self = .micro(high)
        case Token.lingerMark: self = .lingering(high)
        case Token.relayMark: self = .relay(high)
        case Token.relayInnerMark: self = .relayInner(high)
        case Token.listenerMark: self = .listener(high)
        default: self = .connection(ConnectionID(index: low, generation: high))
        }
    }

    var rawValue: UInt64 {
        switch self {
        case .connection(let id): UInt64(id.generation) << 32 | UInt64(id.index)
        case .lingering(let number): UInt64(number) << 32 | UInt64(Token.lingerMark)
        case .inbox: UInt64(Token.inboxMark)
        case .micro(let place): UInt64(place) << 32 | UInt64(Token.microMark)
        case .relay(let number): UInt64(number) << 32 | UInt64(Token.relayMark)
        case .relayInner(let number): UInt64(number) << 32 | UInt64(Token.relayInnerMark)
        case .listener(let place): UInt64(place) << 32 | UInt64(Token.listenerMark)
        }
    }
}
