// PlainLimits: the limits of one request over plain HTTP.

/// Limits of one request; bytes unless the name says otherwise.
public struct PlainLimits: Sendable {
    /// Payload of a published message: the body of its request.
    public var body = 1 << 20
    /// The request's target: path and query.
    public var target = 8 << 10
    /// Names and values of all stored headers together.
    public var headers = 64 << 10
    /// Number of headers of a message.
    public var messageHeaders = 256
    /// Number of options in a query, including `request`.
    public static let options = 32
    /// The largest demand: 2³¹−1, which means unbounded.
    public static let demand: UInt64 = (1 << 31) - 1

    public init() {}
}
