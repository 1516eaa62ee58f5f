// JSONDocument: JSON parsed by Jansson, for the two objects of a JWT.

import CJansson

/// A JSON object; owns all values in it.
final class JSONDocument {
    private let value: UnsafeMutablePointer<json_t>
    var root: JSONValue { JSONValue(value, of: self) }

    /// Nil if the bytes are not JSON, are not an object, or contain a duplicate name.
    init?(_ bytes: [UInt8]) {
        // JSON contains no NUL (RFC 8259, 2), but Jansson skips one after a number.
        guard !bytes.contains(0) else { return nil }
        let text = bytes.withUnsafeBytes { bytes in
            json_loadb(
                bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count, Int(JSON_REJECT_DUPLICATES), nil)
        }
        guard let text else { return nil }
        value = text
        guard text.pointee.type == JSON_OBJECT else { return nil }
    }

    deinit { json_decref(value) }
}

/// A value in a document, which it keeps alive.
struct JSONValue {
    private let value: UnsafeMutablePointer<json_t>
    private let document: JSONDocument

    fileprivate init(_ value: UnsafeMutablePointer<json_t>, of document: JSONDocument) {
        self.value = value
        self.document = document
    }

    var isObject: Bool { value.pointee.type == JSON_OBJECT }

    /// The member of an object; nil if there is none or this is not an object.
    subscript(name: String) -> JSONValue? {
        isObject ? json_object_get(value, name).map { JSONValue($0, of: document) } : nil
    }

    var string: String? {
        guard value.pointee.type == JSON_STRING, let text = json_string_value(value) else { return nil }
        let bytes = UnsafeRawBufferPointer(start: text, count: json_string_length(value))
        return String(validating: bytes, as: UTF8.self)
    }

    var number: Double? {
        value.pointee.type == JSON_INTEGER || value.pointee.type == JSON_REAL ? json_number_value(value) : nil
    }

    /// An array that contains only strings.
    var strings: [String]? {
        guard value.pointee.type == JSON_ARRAY else { return nil }
        var list: [String] = []
        for index in 0..<json_array_size(value) {
            guard let element = json_array_get(value, index), let text = JSONValue(element, of: document).string else {
                return nil
            }
            list.append(text)
        }
        return list
    }
}
