// The messages of forebay.v1, in both directions: what is parsed can be written with the same meaning.

import Bytes
import RSocket

@testable import HTTP2

func fuzzProtobuf(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    let kind = input.number(below: 9)
    let detail = input.byte()
    withCopy(input.rest) { bytes in
        do throws(GRPCError) {
            switch kind {
            case 0: try subscribe(bytes)
            case 1: try publish(bytes)
            case 2: try publishOne(bytes)
            case 3: try administer(bytes, GRPCMethod.allCases[Int(detail) % GRPCMethod.allCases.count])
            case 4: try receive(bytes)
            case 5: try acknowledge(bytes)
            case 6: _ = try Health.check(try Health.parse(bytes), isServing: true)
            case 7: _ = try AdminAnswer.json(bytes)
            default: try write(bytes, detail)
            }
        } catch {
            mustHold(!error.message.isEmpty && error.status != .ok, "the error has no text")
        }
    }
}

/// The only message in `out`, without its prefix.
private func message(_ out: borrowing ByteBuffer) -> UnsafeRawBufferPointer {
    let bytes = out.readable
    mustHold(
        bytes.count >= 5 && bytes[0] == 0 && Int(bytes.bigEndian(at: 1, as: UInt32.self)) == bytes.count - 5,
        "the prefix has another length")
    return bytes.slice(5..<bytes.count)
}

private func subscribe(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
    let action = try SubscribeAction.parse(bytes)
    var out = ByteBuffer()
    switch action {
    case .open(let open):
        mustHold(open.requestN > 0, "a demand of 0 is accepted")
        open.append(to: &out)
    case .request(let n): ClientRequests.appendCredit(n, to: &out)
    }
    let again = try SubscribeAction.parse(message(out))
    mustHold(again == action, "\(action) is read back as \(again)")
}

private func publish(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
    var published = PublishedMessage()
    let action = try PublishAction.parse(bytes, message: &published)
    var out = ByteBuffer()
    var again = PublishedMessage()
    switch action {
    case .open(let topic, let completesTopic, let number):
        if let number { mustHold(number.fault == nil, "the number \(number) is not valid") }
        ClientRequests.appendPublishOpen(topic: topic, completesTopic: completesTopic, number: number, to: &out)
    case .message:
        let properties = try check(published)
        ClientRequests.appendMessage(published.payload, properties, to: &out)
    case .failTopic: return
    }
    let same = try PublishAction.parse(message(out), message: &again)
    mustHold(same == action, "\(action) is read back as \(same)")
    compare(published, again)
}

private func publishOne(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
    var published = PublishedMessage()
    let (topic, number) = try PublishOneRequest.parse(bytes, message: &published)
    let properties = try check(published)
    var out = ByteBuffer()
    ClientRequests.appendPublishOne(topic: topic, published.payload, properties, number: number, to: &out)
    var again = PublishedMessage()
    let same = try PublishOneRequest.parse(message(out), message: &again)
    mustHold(same == (topic, number), "another topic or number")
    compare(published, again)
}

private func compare(_ a: PublishedMessage, _ b: PublishedMessage) {
    mustHold(a.payload.elementsEqual(b.payload), "another payload")
    mustHold(a.contentType.elementsEqual(b.contentType), "another content type")
    let isSame = a.headers.elementsEqual(b.headers) {
        $0.name.elementsEqual($1.name) && $0.value.elementsEqual($1.value)
    }
    mustHold(isSame, "other headers")
}

/// What is written to the log has the announced length, and a subscriber reads the same from it.
private func check(_ published: PublishedMessage) throws(GRPCError) -> MessageProperties {
    let count = try MessageHeaders.metadataCount(of: published, limit: 64 << 10)
    var metadata = ByteBuffer()
    MessageHeaders.appendMetadata(of: published, into: &metadata)
    let written = metadata.count
    mustHold(written == count, "the metadata has \(written) bytes, \(count) were announced")
    let properties = MessageProperties(
        contentType: published.contentType.asText, headers: published.headers.map { ($0.name.asText, $0.value.asText) })
    mustHold(MessageProperties(metadata: metadata.readable) == properties, "the log differs")
    readEntry(metadata.readable, published.payload, properties)
    return properties
}

/// A message as a subscriber receives it.
private func readEntry(
    _ metadata: UnsafeRawBufferPointer, _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties?
) {
    let name = Array("a.b".utf8.prefix(payload.count % 4))
    name.withUnsafeBytes { readEntry(metadata, payload, properties, topic: $0) }
}

private func readEntry(
    _ metadata: UnsafeRawBufferPointer, _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties?,
    topic: UnsafeRawBufferPointer
) {
    let entry = MessageEntry(
        sequence: 77, timestamp: -5, payloadCount: payload.count, metadata: metadata, topic: topic)
    let memory = UnsafeMutableRawPointer.allocate(byteCount: entry.size, alignment: 1)
    defer { memory.deallocate() }
    entry.write(payload, to: memory)
    guard var response = try? ReceivedMessages(UnsafeRawBufferPointer(start: memory, count: entry.size)),
        let message = try? response.next()
    else { return report("a message is invalid") }
    mustHold(message.sequence == 77 && message.timestamp == -5, "the figures differ")
    mustHold(message.payload.elementsEqual(payload), "the payload differs")
    mustHold(message.topic.elementsEqual(topic), "the topic differs")
    var scratch = PublishedMessage()
    var carried = ByteBuffer()
    try? message.appendMetadata(&scratch, limit: .max, into: &carried)
    if let properties, Set(properties.headers.map(\.name)).count == properties.headers.count {
        let got = MessageProperties(metadata: carried.readable)
        mustHold(got == properties, "\(properties) arrive as \(got)")
    }
}

private func administer(_ bytes: UnsafeRawBufferPointer, _ method: GRPCMethod) throws(GRPCError) {
    let request = try AdminRequest.parse(bytes, of: method)
    mustHold(request.method == method, "\(request) has another method")
    var out = ByteBuffer()
    request.append(to: &out)
    let again = try AdminRequest.parse(message(out), of: method)
    mustHold(again == request, "\(request) is read back as \(again)")
}

private func receive(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
    var response = try ReceivedMessages(bytes)
    var payloads = 0
    var scratch = PublishedMessage()
    while let message = try response.next() {
        payloads += message.payload.count
        var out = ByteBuffer()
        try message.appendMetadata(&scratch, limit: 2000, into: &out)
        let count = out.count
        mustHold(count <= 2000, "\(count) bytes of metadata are above the limit")
    }
    mustHold(payloads <= bytes.count, "payloads are longer than the response")
}

private func acknowledge(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
    let response = try PublishResponse(bytes)
    var out = ByteBuffer()
    response.append(to: &out)
    let again = try PublishResponse(message(out))
    mustHold(again == response, "\(response) is read back as \(again)")
    let one = try PublishOneResponse(bytes)
    out.removeAll()
    one.append(to: &out)
    let oneAgain = try PublishOneResponse(message(out))
    mustHold(oneAgain == one, "\(one) is read back as \(oneAgain)")
}

/// Any metadata, as a gRPC subscriber receives it.
private func write(_ bytes: UnsafeRawBufferPointer, _ detail: UInt8) throws(GRPCError) {
    var input = FuzzInput(bytes)
    let metadata = input.take(Int(detail))
    readEntry(metadata, input.rest, nil)
}
