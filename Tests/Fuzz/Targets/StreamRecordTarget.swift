// Output for plain HTTP subscribers, read like a browser and a JSON parser: payloads are unchanged, and nothing that a
// publisher writes becomes another event.

import Bytes
import Core
import JSONParsing
import RSocket

@testable import HTTP2

func fuzzStreamRecord(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    let flags = input.byte()
    let metadata = input.piece()
    let payload = input.rest
    withCopy(metadata) { metadata in
        withCopy(payload) { payload in
            var message = StreamedMessage(
                epoch: 66, sequence: 42, timestamp: flags & 1 == 0 ? 17 : -17, dropped: UInt64(flags >> 4),
                metadata: metadata, payload: payload)
            message.restarts = flags & 2 != 0
            readEvents(message)
            readLine(message)
        }
    }
    withBytes(payload.asText) { readProblem($0.asText) }
}

/// The bytes of a record, in memory of exactly the announced size.
private func record(_ message: StreamedMessage, _ format: StreamFormat) -> [UInt8] {
    let record = StreamRecord(message, as: format)
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: record.size, alignment: 1)
    defer { memory.deallocate() }
    memory.initializeMemory(as: UInt8.self, repeating: 0xA5)
    record.write(to: memory.baseAddress!)
    return Array(memory)
}

private func readEvents(_ message: StreamedMessage) {
    let events = events(record(message, .eventStream))
    let hasGap = message.dropped > 0 || message.restarts
    guard events.count == (hasGap ? 2 : 1), let last = events.last else {
        return report("a message became \(events.count) events")
    }
    if hasGap {
        let restarted = message.restarts ? ",\"restarted\":true" : ""
        mustHold(events[0] == Event(type: "gap", data: "{\"dropped\":\(message.dropped)\(restarted)}"), "\(events[0])")
    }
    mustHold(last.id == "66-42", "the id is \(last.id)")
    let data =
        last.type == "base64" ? Base64.decode(Array(last.data.utf8), .standard) ?? [1, 2, 3] : Array(last.data.utf8)
    mustHold(["message", "base64"].contains(last.type), "a message became \(last.type)")
    mustHold(data.elementsEqual(message.payload), "\(Array(message.payload)) arrives as \(data)")
}

private struct Event: Equatable {
    var type = "message"
    var data = ""
    var id = ""

    static func == (a: Event, b: Event) -> Bool { a.type == b.type && a.data == b.data }
}

/// WHATWG's HTML, section 9.2.6: the part that the broker's streams need.
private func events(_ stream: [UInt8]) -> [Event] {
    var events: [Event] = []
    var event = Event()
    var data: [UInt8]?
    var line: [UInt8] = []
    func end() {
        if let text = data {
            events.append(Event(type: event.type, data: String(decoding: text, as: UTF8.self), id: event.id))
        }
        event.type = "message"
        data = nil
    }
    func take() {
        let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.count
        var value = line.dropFirst(colon + 1)
        if value.first == 0x20 { value.removeFirst() }
        switch String(decoding: line[..<colon], as: UTF8.self) {
        case "data": data = data.map { $0 + [0x0A] + value } ?? Array(value)
        case "event": event.type = String(decoding: value, as: UTF8.self)
        case "id": event.id = String(decoding: value, as: UTF8.self)
        case "": break
        case let field: report("a field \(field)")
        }
    }
    for byte in stream {
        // A carriage return would end a line, too.
        mustHold(byte != 0x0D, "there is a carriage return")
        guard byte == 0x0A else {
            line.append(byte)
            continue
        }
        if line.isEmpty { end() } else { take() }
        line = []
    }
    mustHold(line.isEmpty && data == nil, "the stream ends within an event")
    return events
}

private func readLine(_ message: StreamedMessage) {
    let line = record(message, .jsonLines)
    mustHold(line.last == 0x0A && line.count { $0 == 0x0A } == 1, "a record is not one line")
    // A repeated header gives a repeated member name, which this parser refuses; other parsers take the last one.
    let properties = MessageProperties(metadata: message.metadata)
    let names = properties.headers.map(\.name)
    guard Set(names).count == names.count else { return }
    // Jansson refuses U+0000 in member names, and in texts.
    let hasNUL =
        message.payload.contains(0) || properties.headers.contains { ($0.name + $0.value).utf8.contains(0) }
    guard let document = line.withUnsafeBytes({ JSONDocument($0) }) else {
        return mustHold(hasNUL, "\(line) is not JSON")
    }
    let root = document.root
    mustHold(root["epoch"]?.string == "66" && root["sequence"]?.number == 42, "the figures differ")
    if let text = root["payload"]?.string {
        mustHold(Array(text.utf8).elementsEqual(message.payload), "\(Array(message.payload)) arrives as \(text)")
    } else if let text = root["payload_base64"]?.string {
        let payload = Base64.decode(Array(text.utf8), .standard)
        mustHold(payload?.elementsEqual(message.payload) == true, "\(Array(message.payload)) arrives as \(text)")
    } else {
        report("there is no payload in \(line)")
    }
    mustHold((root["content_type"]?.string ?? "") == properties.contentType, "another content type")
    for (name, value) in properties.headers {
        let reported = root["headers"]?[name]?.string
        mustHold(
            reported.map { Array($0.utf8) } == Array(value.utf8),
            "the header \(name) arrives as \(reported ?? "nothing")")
    }
}

private func readProblem(_ text: String) {
    for format in StreamFormat.allCases {
        var out = ByteBuffer()
        format.appendFailed(after: EventID(epoch: 1, sequence: 2), message: text, StreamLoss(dropped: 3), into: &out)
        let bytes = Array(out.readable)
        switch format {
        case .eventStream:
            let events = events(bytes)
            mustHold(events.count == 1 && events[0].type == "failed", "the end is \(events)")
        case .jsonLines:
            mustHold(bytes.count { $0 == 0x0A } == 1, "the end is not one line")
            guard let document = bytes.withUnsafeBytes({ JSONDocument($0) }) else {
                return mustHold(text.utf8.contains(0), "\(text): no JSON")
            }
            mustHold(document.root["message"]?.string.map { Array($0.utf8) } == Array(text.utf8), "another text")
        }
    }
}
