// JSON: flat objects as written by control calls and the broker's own topics, encoded directly into bytes.

import Bytes

/// Writes one JSON object. Its members are in the order of the calls.
public struct JSONObject {
    /// The object so far, without the closing brace.
    private var open: [UInt8] = []

    public init() {
        // Enough for most objects.
        open.reserveCapacity(256)
        open.append(UInt8(ascii: "{"))
    }

    public mutating func add(_ key: String, _ value: String) {
        name(key)
        JSONText.append(value, to: &open)
    }

    public mutating func add(_ key: String, _ value: some BinaryInteger) {
        name(key)
        if value < 0 { open.append(UInt8(ascii: "-")) }
        put(UInt64(value.magnitude))
    }

    public mutating func add(_ key: String, _ value: Bool) {
        name(key)
        put(value ? "true" : "false")
    }

    /// Adds a value that is already JSON.
    public mutating func add(_ key: String, json: String) {
        name(key)
        put(json)
    }

    /// The object in UTF-8.
    public consuming func bytes() -> [UInt8] {
        open.append(UInt8(ascii: "}"))
        return open
    }

    public consuming func finished() -> String { String(decoding: bytes(), as: UTF8.self) }

    private mutating func name(_ key: String) {
        if open.count > 1 { open.append(UInt8(ascii: ",")) }
        open.append(UInt8(ascii: "\""))
        put(key)
        open.append(UInt8(ascii: "\""))
        open.append(UInt8(ascii: ":"))
    }

    private mutating func put(_ text: String) {
        var text = text
        text.withUTF8 { open.append(contentsOf: $0) }
    }

    private mutating func put(_ number: UInt64) {
        Decimal.with(number) { open.append(contentsOf: $0) }
    }
}
