// JSONDocument: JSON parsed by Jansson, which is strict and bounds the depth of what it reads.

import CJansson
import Glibc

/// A JSON object; owns all values in it.
public final class JSONDocument {
    private let value: UnsafeMutablePointer<json_t>
    public var root: JSONValue { JSONValue(value, of: self) }

    /// Nil if the bytes are not JSON in UTF-8, are not an object, or contain a duplicate name.
    public init?(_ bytes: UnsafeRawBufferPointer) {
        // JSON contains no NUL (RFC 8259, 2), but Jansson skips one after a number.
        guard !bytes.contains(0),
            let text = json_loadb(
                bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count, Int(JSON_REJECT_DUPLICATES), nil)
        else { return nil }
        value = text
        guard text.pointee.type == JSON_OBJECT else { return nil }
    }

    deinit { json_decref(value) }
}

/// A value in a document, which it keeps alive.
public struct JSONValue {
    private let value: UnsafeMutablePointer<json_t>
    private let document: JSONDocument

    fileprivate init(_ value: UnsafeMutablePointer<json_t>, of document: JSONDocument) {
        self.value = value
        self.document = document
    }

    public var isObject: Bool { value.pointee.type == JSON_OBJECT }

    /// The names of an object's members, in their order; nil if this is not an object.
    public var names: [String]? {
        guard isObject else { return nil }
        var names: [String] = []
        var iterator = json_object_iter(value)
        while let current = iterator {
            if let name = json_object_iter_key(current) { names.append(String(cString: name)) }
            iterator = json_object_iter_next(value, current)
        }
        return names
    }

    /// Calls `body` with each member of an object, in their order.
    public func forEachMember<Failure>(_ body: (String, JSONValue) throws(Failure) -> Void) throws(Failure) {
        guard isObject else { return }
        var iterator = json_object_iter(value)
        while let current = iterator {
            if let name = json_object_iter_key(current), let member = json_object_iter_value(current) {
                try body(String(cString: name), JSONValue(member, of: document))
            }
            iterator = json_object_iter_next(value, current)
        }
    }

    /// The member of an object; nil if there is none or this is not an object.
    public subscript(name: String) -> JSONValue? {
        isObject ? json_object_get(value, name).map { JSONValue($0, of: document) } : nil
    }

    public var string: String? {
        guard value.pointee.type == JSON_STRING, let text = json_string_value(value) else { return nil }
        let bytes = UnsafeRawBufferPointer(start: text, count: json_string_length(value))
        return String(validating: bytes, as: UTF8.self)
    }

    public var number: Double? {
        value.pointee.type == JSON_INTEGER || value.pointee.type == JSON_REAL ? json_number_value(value) : nil
    }

    public var integer: Int? { value.pointee.type == JSON_INTEGER ? Int(json_integer_value(value)) : nil }

    /// The value as JSON without blanks; members of objects keep their order.
    public var text: String {
        guard let text = json_dumps(value, Int(JSON_COMPACT | JSON_ENCODE_ANY)) else { return "null" }
        defer { free(text) }
        return String(cString: text)
    }

    public var isTrue: Bool { value.pointee.type == JSON_TRUE }

    public var isBoolean: Bool { value.pointee.type == JSON_TRUE || value.pointee.type == JSON_FALSE }

    /// The elements of an array; nil if this is not one.
    public var elements: [JSONValue]? {
        guard value.pointee.type == JSON_ARRAY else { return nil }
        return (0..<json_array_size(value)).compactMap { index in
            json_array_get(value, index).map { JSONValue($0, of: document) }
        }
    }

    /// An array that contains only strings.
    public var strings: [String]? {
        guard let elements else { return nil }
        let strings = elements.compactMap(\.string)
        return strings.count == elements.count ? strings : nil
    }
}
