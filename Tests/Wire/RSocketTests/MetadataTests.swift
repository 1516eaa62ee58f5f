// Metadata: the vectors of Protocol/vectors/metadata.json, and writing.

import Bytes
import Testing

@testable import RSocket

@Suite struct MetadataTests {
    private func form(_ name: String) throws -> MetadataForm {
        try #require(["composite": MetadataForm.composite, "routing": .routing, "plain": .plain][name])
    }

    @Test(arguments: Vectors.metadata)
    func theRouteIsRead(_ vector: MetadataVector) throws {
        let form = try form(vector.form)
        try withOptionalBytes(vector.hex) { metadata in
            do {
                let request = try RequestMetadata.parse(metadata, form: form, stream: 9)
                #expect(request.route == vector.route)
                #expect(request.extraTags == vector.tags)
            } catch let error as RSocketError {
                #expect(error.code.name == vector.error, "\(error.message)")
                #expect(error.scope == .stream(9))
                #expect(error.message.hasSuffix("."))
            }
        }
    }

    @Test(arguments: Vectors.metadata)
    func whatIsCarriedIsAllButRouteAndCredentials(_ vector: MetadataVector) throws {
        let form = try form(vector.form)
        try withOptionalBytes(vector.hex) { metadata in
            guard let metadata else { return }
            var out = ByteBuffer()
            do {
                let count = try CompositeMetadata.carriedCount(metadata, form: form)
                try CompositeMetadata.appendCarried(metadata, form: form, into: &out)
                let carried = hex(out.readable)
                #expect(carried == vector.carried)
                let appended = out.count
                #expect(appended == count)
            } catch let error as RSocketError {
                #expect(error.code == .invalid)
                #expect(vector.carried == nil)
            }
        }
    }

    @Test func whatIsWrittenIsReadAgain() throws {
        var out = ByteBuffer()
        try CompositeMetadata.appendRoute(["ticks", "replay=5"], into: &out)
        bytes("{}") { CompositeMetadata.appendEntry(id: MimeType.jsonID, $0, into: &out) }
        bytes("abc") { CompositeMetadata.appendEntry(name: "application/x.thing", $0, into: &out) }
        let request = try RequestMetadata.parse(out.readable, form: .composite)
        #expect(request == RequestMetadata(route: "ticks", extraTags: ["replay=5"]))
        var entries = CompositeMetadata.Iterator(out.readable)
        var seen: [String] = []
        while let entry = try entries.next() {
            let type = entry.id.map { String($0) } ?? String(decoding: entry.name, as: UTF8.self)
            seen.append("\(type) \(hex(entry.bytes))")
        }
        #expect(seen == ["126 057469636b73087265706c61793d35", "5 7b7d", "application/x.thing 616263"])
    }

    @Test(arguments: [
        ("fe0000020174", true), ("fe0000020174fa00000185", false), ("fa00000185fe0000020174", false),
        ("fe0000020174fc00000101", false),
    ])
    func aRouteThatIsAloneIsTold(_ composite: String, _ isAlone: Bool) throws {
        try unhex(composite).withUnsafeBytes {
            let tags = try RouteTags($0, form: .composite)
            #expect(tags.isAlone == isAlone)
            #expect(String(decoding: tags.route, as: UTF8.self) == "t")
            let request = try RequestMetadata(tags)
            #expect(request == RequestMetadata(route: "t", extraTags: []))
        }
        try unhex("0174").withUnsafeBytes {
            for form in [MetadataForm.routing, .plain] {
                let tags = try RouteTags($0, form: form)
                #expect(tags.isAlone)
            }
        }
    }

    @Test func aRouteThatDoesNotFitIsRefused() throws {
        var out = ByteBuffer()
        #expect(throws: RSocketError.self) { try CompositeMetadata.appendRoute([], into: &out) }
        let long = String(repeating: "a", count: 256)
        let error = #expect(throws: RSocketError.self) { try CompositeMetadata.appendRoute(["t", long], into: &out) }
        #expect(error?.code == .invalid)
        let written = out.count
        #expect(written == 0)
    }

    @Test func theFormFollowsTheMimeType() {
        #expect(MetadataForm(mime: "message/x.rsocket.composite-metadata.v0") == .composite)
        #expect(MetadataForm(mime: "Message/X.rsocket.Composite-Metadata.v0") == .composite)
        #expect(MetadataForm(mime: "message/x.rsocket.routing.v0") == .routing)
        #expect(MetadataForm(mime: "text/plain") == .plain)
        #expect(MetadataForm(mime: "") == .plain)
    }

    private func withOptionalBytes(_ text: String?, _ body: (UnsafeRawBufferPointer?) throws -> Void) throws {
        guard let text else { return try body(nil) }
        try unhex(text).withUnsafeBytes { try body($0) }
    }
}
