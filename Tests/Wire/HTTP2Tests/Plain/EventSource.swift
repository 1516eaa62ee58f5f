// An EventSource that follows WHATWG's HTML, section 9.2.6, written only from that specification and independent of the
// broker's writer: how a browser reads the bytes.

struct EventSourceEvent: Equatable {
    var type: String
    var data: String
    var lastEventID: String
}

struct EventSource {
    private(set) var events: [EventSourceEvent] = []
    private(set) var comments: [String] = []
    private(set) var retry: Int?
    private(set) var lastEventID = ""

    init(_ stream: [UInt8]) {
        var text = String(decoding: stream, as: UTF8.self).unicodeScalars[...]
        if text.first == "\u{FEFF}" { text.removeFirst() }
        var data = ""
        var type = ""
        var id = ""
        while let end = text.firstIndex(where: { $0 == "\n" || $0 == "\r" }) {
            let line = text[..<end]
            var next = text.index(after: end)
            if text[end] == "\r", next < text.endIndex, text[next] == "\n" { next = text.index(after: next) }
            text = text[next...]
            if line.isEmpty {
                lastEventID = id
                if !data.isEmpty {
                    if data.unicodeScalars.last == "\n" { data.unicodeScalars.removeLast() }
                    events.append(
                        EventSourceEvent(type: type.isEmpty ? "message" : type, data: data, lastEventID: id))
                }
                data = ""
                type = ""
                continue
            }
            let colon = line.firstIndex(of: ":")
            if colon == line.startIndex {
                comments.append(String(String.UnicodeScalarView(line.dropFirst())))
                continue
            }
            var value = colon.map { line[line.index(after: $0)...] } ?? line[line.endIndex...]
            if value.first == " " { value.removeFirst() }
            let string = String(String.UnicodeScalarView(value))
            switch String(String.UnicodeScalarView(line[..<(colon ?? line.endIndex)])) {
            case "event": type = string
            case "data": data.unicodeScalars.append(contentsOf: value + ["\n"])
            case "id": if !value.contains("\u{0}") { id = string }
            case "retry":
                if !value.isEmpty, value.allSatisfy({ ("0"..."9").contains($0) }) { retry = Int(string) }
            default: break
            }
        }
    }
}
