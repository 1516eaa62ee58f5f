// Route: `NAME?option=value&…`, the first routing tag of a request, and extra tags with one `option=value` each.

import Bytes
import ForebayWire
import RSocket

/// A name and its options, percent-decoded and without duplicates.
struct Route {
    /// The most options that one request may carry.
    static let mostOptions = 32
    /// Bytes of a control request's data.
    static let longestData = 8 << 10

    var name: String
    private(set) var options: [(name: String, value: String)] = []

    init(_ text: String, tags: [String]) throws(Refusal) {
        let (path, query) = Route.cut(Substring(text), at: "?")
        name = try Route.decode(path)
        try add(query: query)
        for tag in tags { try add(Substring(tag)) }
    }

    /// Creates a route from a query that is already parsed.
    init(name: String, options: [(name: String, value: String)]) {
        self.name = name
        self.options = options
    }

    init(_ tags: RouteTags) throws(Refusal) {
        let request: RequestMetadata
        do throws(RSocketError) {
            request = try RequestMetadata(tags)
        } catch {
            throw Refusal(error)
        }
        try self.init(request.route, tags: request.extraTags)
    }

    /// Adds the options in the data of a control request, which have the form of a query.
    mutating func addOptions(from data: UnsafeRawBufferPointer) throws(Refusal) {
        guard !data.isEmpty else { return }
        guard data.count <= Route.longestData else {
            throw Refusal(
                .tooLarge, "The request's data has \(data.count) bytes; at most \(Route.longestData) are allowed.")
        }
        guard data.isUTF8 else { throw .invalid("The request's data is not UTF-8; send option=value&option=value.") }
        try add(query: Substring(String(decoding: data, as: UTF8.self)))
    }

    subscript(option: String) -> String? { options.first { $0.name == option }?.value }

    /// Refuses options that are not in `known`.
    func expect(_ known: [String], for use: String) throws(Refusal) {
        for option in options
        where !known.contains(option.name) && !BrokerProtocol.isIgnorable(option: option.name) {
            let list = known.isEmpty ? "takes no options" : "takes only \(known.joined(separator: ", "))"
            throw .invalid("The option '\(option.name)' is unknown; \(use) \(list).")
        }
    }

    /// The option as one of `values`.
    func choice<Value>(_ option: String, _ values: [(String, Value)]) throws(Refusal) -> Value? {
        guard let text = self[option] else { return nil }
        for (name, value) in values where name == text { return value }
        let list = values.map(\.0).joined(separator: ", ")
        throw .invalid("\(option)=\(text) is unknown; use one of: \(list).")
    }

    /// The option as a whole number in `range`.
    func number(_ option: String, _ range: ClosedRange<UInt64>) throws(Refusal) -> UInt64? {
        guard let text = self[option] else { return nil }
        guard text.utf8.allSatisfy({ (48...57).contains($0) }), let value = UInt64(text), range.contains(value) else {
            throw .invalid(
                "\(option)=\(text) is not a number from \(range.lowerBound) to \(range.upperBound).")
        }
        return value
    }

    private mutating func add(query: Substring?) throws(Refusal) {
        var rest = query
        while let pairs = rest {
            let (pair, others) = Route.cut(pairs, at: "&")
            if !pair.isEmpty { try add(pair) }
            rest = others
        }
    }

    private mutating func add(_ pair: Substring) throws(Refusal) {
        let (coded, text) = Route.cut(pair, at: "=")
        let option = try Route.decode(coded)
        guard let text else {
            throw .invalid("The option '\(option)' has no value; write \(option)=value.")
        }
        guard self[option] == nil else { throw .invalid("The option '\(option)' is given twice; give it once.") }
        guard options.count < Route.mostOptions else {
            throw .invalid("The route has more than \(Route.mostOptions) options.")
        }
        options.append((option, try Route.decode(text)))
    }

    /// The text before and after the first `separator`; the latter is nil if there is none. The search works on bytes
    /// because splitting a string by characters is slow.
    private static func cut(_ text: Substring, at separator: Unicode.Scalar) -> (Substring, Substring?) {
        guard let place = text.utf8.firstIndex(of: UInt8(ascii: separator)) else { return (text, nil) }
        return (text[..<place], text[text.utf8.index(after: place)...])
    }

    private static func decode(_ text: Substring) throws(Refusal) -> String {
        do throws(PercentFault) { return try text.percentDecoded() } catch { throw .invalid(error.description) }
    }
}
