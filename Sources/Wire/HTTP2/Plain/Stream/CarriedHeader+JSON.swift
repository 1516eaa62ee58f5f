// CarriedHeader+JSON: content type and headers of a message in plain HTTP: header fields of a publisher's request, and
// members of an object in JSON lines.

import Bytes
import RSocket

extension CarriedHeader {
    /// Bytes of `"name":"value"`.
    var jsonSize: Int {
        let size: (UnsafeRawBufferPointer) -> Int = { $0.count + (JSONText.escapes($0) ?? 0) }
        return "\"\":\"\"".utf8.count + nameSize(size) + valueSize(size)
    }

    func writeJSON(to out: inout RawWriter) {
        out.put(UInt8(ascii: "\""))
        writeName(to: &out) { JSONText.write($0, to: &$1) }
        out.put("\":\"")
        writeValue(to: &out) { JSONText.write($0, to: &$1) }
        out.put(UInt8(ascii: "\""))
    }
}

extension PublishCall {
    /// Appends content type and headers as composite metadata. `PlainProtocol.call` has checked the content type and
    /// the headers' length.
    public func appendMetadata(into out: inout ByteBuffer) {
        if var contentType {
            contentType.withUTF8 {
                CarriedMetadata.append(contentType: UnsafeRawBufferPointer($0), into: &out)
            }
        }
        guard !headers.isEmpty else { return }
        let rows = headers.reduce(0) {
            $0 + CarriedMetadata.row(name: $1.name.utf8.count, value: $1.value.utf8.count)
        }
        CarriedMetadata.appendHead(headers: rows, into: &out)
        for header in headers { header.withView { CarriedMetadata.append($0, into: &out) } }
    }
}

extension PlainHeader {
    fileprivate func withView(_ body: (HeaderView) -> Void) {
        var name = name
        var value = value
        name.withUTF8 { name in
            value.withUTF8 { value in
                body(HeaderView(name: UnsafeRawBufferPointer(name), value: UnsafeRawBufferPointer(value)))
            }
        }
    }
}
