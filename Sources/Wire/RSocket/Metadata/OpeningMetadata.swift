// OpeningMetadata: the metadata of the PAYLOAD that opens a subscription with `opening=on`.

import Bytes
import ForebayWire

extension OpeningPosition {
    public static let mime = "application/vnd.forebay.opening"

    /// Appends the entry of composite metadata.
    public func appendMetadata(into out: inout ByteBuffer) {
        CompositeMetadata.appendHead(name: Self.mime, count: 16, into: &out)
        out.append(bigEndian: epoch)
        out.append(bigEndian: next)
    }

    /// Finds the entry in composite metadata; nil if there is none or the metadata is malformed.
    public init?(metadata: UnsafeRawBufferPointer) {
        var entries = CompositeMetadata.Iterator(metadata)
        while let entry = try? entries.next() {
            guard entry.id == nil, entry.name.elementsEqual(Self.mime.utf8), entry.bytes.count >= 16 else { continue }
            self.init(epoch: entry.bytes.bigEndian(at: 0), next: entry.bytes.bigEndian(at: 8))
            return
        }
        return nil
    }
}
