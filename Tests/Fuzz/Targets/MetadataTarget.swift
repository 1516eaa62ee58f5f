// Metadata: composite, routing and authentication, as the broker and as subscribers read it.

import Bytes
import Client
import RSocket

@testable import HTTP2

func fuzzMetadata(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    let form = input.pick([MetadataForm.composite, .routing, .plain])
    withCopy(input.rest) { metadata in
        readRoute(metadata, form)
        readEntries(metadata, form)
        readCredentials(metadata)
        readCarried(metadata)
        readInfo(metadata)
    }
}

/// What a client reads of the broker's own entries. Naming the topic changes nothing else.
private func readInfo(_ metadata: UnsafeRawBufferPointer) {
    let info = MessageInfo(metadata: metadata)
    var named = MessageInfo(metadata: metadata, ofPattern: true)
    let topic = named?.topic
    if let info, let named {
        let others = info.removeOwn(from: metadata)
        let rest = named.removeOwn(from: metadata)
        mustHold(others.count <= metadata.count, "metadata has grown")
        mustHold(topic == nil ? rest == others : rest.count < others.count, "a topic's entry is not removed")
    }
    named?.topic = nil
    mustHold(info == named, "\(String(describing: info)) is read as \(String(describing: named))")
}

private func readRoute(_ metadata: UnsafeRawBufferPointer, _ form: MetadataForm) {
    do throws(RSocketError) {
        let request = try RequestMetadata.parse(metadata, form: form, stream: 5)
        mustHold(!request.route.isEmpty, "a route is empty")
        let tags = [request.route] + request.extraTags
        var out = ByteBuffer()
        guard form != .plain else { return mustHold(tags == [metadata.asText], "a plain route has changed") }
        try CompositeMetadata.appendRoute(tags, into: &out)
        let again = try RequestMetadata.parse(out.readable, form: .composite)
        mustHold(again == request, "\(request) is read back as \(again)")
    } catch {
        mustHold(error.code == .invalid, "\(error) is not a refusal")
    }
}

private func readEntries(_ metadata: UnsafeRawBufferPointer, _ form: MetadataForm) {
    var carried = ByteBuffer()
    let carriedCount: Int
    do throws(RSocketError) {
        carriedCount = try CompositeMetadata.carriedCount(metadata, form: form)
        try CompositeMetadata.appendCarried(metadata, form: form, into: &carried)
    } catch {
        return mustHold(error.code == .invalid, "\(error) is not a refusal")
    }
    mustHold(carried.count == carriedCount && carriedCount <= metadata.count, "another count is carried")
    guard form == .composite else { return mustHold(carried.isEmpty, "invalid metadata is carried") }
    var entries = CompositeMetadata.Iterator(metadata)
    var kept = CompositeMetadata.Iterator(carried.readable)
    var out = ByteBuffer()
    while let entry = try? entries.next() {
        if let id = entry.id {
            CompositeMetadata.appendEntry(id: id, entry.bytes, into: &out)
        } else if let name = String(validating: entry.name, as: UTF8.self) {
            CompositeMetadata.appendEntry(name: name, entry.bytes, into: &out)
        } else {
            out.append(metadata.slice(entry.range))
        }
        if entry.isRouting || entry.isAuthentication { continue }
        guard let other = try? kept.next() else { return report("an entry is not carried") }
        mustHold(
            other.id == entry.id && other.name.elementsEqual(entry.name) && other.bytes.elementsEqual(entry.bytes),
            "an entry is carried with changes")
    }
    mustHold(out.readable.elementsEqual(metadata), "rewritten entries differ")
    if let more = try? kept.next() { report("\(more) is carried in addition") }
}

private func readCredentials(_ metadata: UnsafeRawBufferPointer) {
    guard let content = AuthenticationMetadata(metadata) else { return }
    var out = ByteBuffer()
    switch content {
    case .simple(let user, let password):
        guard let user = String(validating: user, as: UTF8.self) else { return }
        AuthenticationMetadata.appendSimple(user: user, password: Array(password), into: &out)
    case .bearer(let token): AuthenticationMetadata.appendBearer(Array(token), into: &out)
    }
    var entries = CompositeMetadata.Iterator(out.readable)
    guard let entry = try? entries.next() else { return report("written credentials are not an entry") }
    mustHold(entry.isAuthentication && entry.bytes.elementsEqual(metadata), "written credentials differ")
}

/// What a gRPC subscriber receives of the metadata is unchanged when it is written as a publisher would send it, and
/// read again.
private func readCarried(_ metadata: UnsafeRawBufferPointer) {
    let properties = MessageProperties(metadata: metadata)
    guard properties.isValid else { return }
    var out = ByteBuffer()
    properties.appendMetadata(into: &out)
    let again = MessageProperties(metadata: out.readable)
    mustHold(again == properties, "\(properties) is read back as \(again)")
}
