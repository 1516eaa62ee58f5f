// Document: a file's text into nodes, by libyaml's events. Pure: bytes in, a tree or a fault with its place out. What
// a configuration has no use for (anchors and aliases, tags, several documents) is refused, and what it has is bounded.

import CYAML

public enum Document {
    /// Bytes of a file, nodes in it, and how deep they may lie in each other. As many as the longest lists of a
    /// configuration need: 10,000 users with 800 bytes and 40 keys, values and lists each.
    public static let longest = 8 << 20
    public static let mostNodes = 400_000
    public static let deepest = 16

    /// Reads a YAML document; nil if there is nothing in it but comments.
    public static func parse(_ bytes: [UInt8]) throws(Fault) -> Node? {
        guard bytes.count <= longest else {
            throw Fault(Place(line: 1, column: 1), "the file has more than \(longest) bytes; write less")
        }
        if bytes.isEmpty { return nil }
        return try bytes.withUnsafeBufferPointer { bytes throws(Fault) -> Node? in
            var reader = Reader(bytes)
            return try reader.document()
        }
    }
}

/// Puts the tree together. libyaml keeps a pointer to the bytes, which must stay where they are.
private struct Reader: ~Copyable {
    private let bytes: UnsafeBufferPointer<UInt8>
    private let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
    private let event = UnsafeMutablePointer<yaml_event_t>.allocate(capacity: 1)
    private var nodes = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) {
        self.bytes = bytes
        event.initialize(to: yaml_event_t())
        parser.initialize(to: yaml_parser_t())
        precondition(yaml_parser_initialize(parser) == 1, "there is no memory for a parser")
        yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        yaml_parser_set_input_string(parser, bytes.baseAddress!, bytes.count)
    }

    deinit {
        yaml_event_delete(event)
        yaml_parser_delete(parser)
        event.deallocate()
        parser.deallocate()
    }

    mutating func document() throws(Fault) -> Node? {
        try advance()  // the stream's begin
        try advance()
        guard event.pointee.type == YAML_DOCUMENT_START_EVENT else { return nil }
        try advance()
        let root = try node(depth: 1)
        try advance()  // the document's end
        try advance()
        guard event.pointee.type == YAML_STREAM_END_EVENT else {
            throw fault("a second document begins here; write a single one")
        }
        return root.content == .nothing ? nil : root
    }

    /// The node that the event at hand begins; the event at hand is its last one afterwards.
    private mutating func node(depth: Int) throws(Fault) -> Node {
        nodes += 1
        guard nodes <= Document.mostNodes else { throw fault("the file has more than \(Document.mostNodes) values") }
        guard depth <= Document.deepest else {
            throw fault("values lie more than \(Document.deepest) deep in each other here; write them flatter")
        }
        let place = place
        switch event.pointee.type {
        case YAML_SCALAR_EVENT: return Node(try scalar(), at: place)
        case YAML_SEQUENCE_START_EVENT:
            let begin = event.pointee.data.sequence_start
            try refuse(anchor: begin.anchor, tag: begin.tag)
            return Node(.list(try list(depth: depth)), at: place)
        case YAML_MAPPING_START_EVENT:
            let begin = event.pointee.data.mapping_start
            try refuse(anchor: begin.anchor, tag: begin.tag)
            return Node(.mapping(try mapping(depth: depth)), at: place)
        default:
            // The library lets nothing else come where a value is due but an alias.
            throw fault("aliases (*name) have no use here; write the value out, in quotes if it begins with *")
        }
    }

    private mutating func list(depth: Int) throws(Fault) -> [Node] {
        var elements: [Node] = []
        while true {
            try advance()
            if event.pointee.type == YAML_SEQUENCE_END_EVENT { return elements }
            elements.append(try node(depth: depth + 1))
        }
    }

    private mutating func mapping(depth: Int) throws(Fault) -> [Node.Entry] {
        var entries: [Node.Entry] = []
        var lines: [String: Int] = [:]
        while true {
            try advance()
            if event.pointee.type == YAML_MAPPING_END_EVENT { return entries }
            let key = try node(depth: depth + 1)
            guard case .text(let name) = key.content else {
                throw Fault(key.place, "a key is missing here; write KEY: VALUE")
            }
            if let line = lines.updateValue(key.place.line, forKey: name) {
                throw Fault(key.place, "\(shown(name)): the key is in line \(line) already; write it once")
            }
            try advance()
            let value = try node(depth: depth + 1)
            entries.append(Node.Entry(key: name, place: key.place, value: value))
        }
    }

    private func scalar() throws(Fault) -> Node.Content {
        let scalar = event.pointee.data.scalar
        try refuse(anchor: scalar.anchor, tag: scalar.tag)
        // No value has several lines; > alone is one that somebody forgot to quote.
        if scalar.style == YAML_FOLDED_SCALAR_STYLE || scalar.style == YAML_LITERAL_SCALAR_STYLE {
            let sign = scalar.style == YAML_FOLDED_SCALAR_STYLE ? ">" : "|"
            throw fault("\(sign) begins a text of several lines; put it in quotes, \"\(sign)\", if it is the value")
        }
        let text = String(decoding: UnsafeBufferPointer(start: scalar.value, count: scalar.length), as: UTF8.self)
        if scalar.style == YAML_PLAIN_SCALAR_STYLE, ["", "~", "null"].contains(text) { return .nothing }
        if text.utf8.contains(0) { throw fault("there is a NUL character in this text; leave it out") }
        return .text(text)
    }

    private func refuse(anchor: UnsafePointer<UInt8>?, tag: UnsafePointer<UInt8>?) throws(Fault) {
        if anchor != nil { throw fault("anchors (&name) have no use here; leave it out, or write it in quotes") }
        if tag != nil { throw fault("tags (!name) have no use here; leave it out, or write it in quotes") }
    }

    private mutating func advance() throws(Fault) {
        yaml_event_delete(event)
        if yaml_parser_parse(parser, event) == 1 { return }
        let problem = parser.pointee.problem.map { String(cString: $0) } ?? "there is no memory for it"
        if parser.pointee.error == YAML_READER_ERROR {
            let before = bytes[..<min(parser.pointee.problem_offset, bytes.count)]
            let line = before.reduce(1) { $1 == UInt8(ascii: "\n") ? $0 + 1 : $0 }
            throw Fault(Place(line: line, column: 1), "the line is no text in UTF-8: \(problem)")
        }
        let mark = parser.pointee.problem_mark
        throw Fault(
            Place(line: Int(mark.line) + 1, column: Int(mark.column) + 1),
            "this is not YAML: \(problem); write KEY: VALUE, indent with spaces only, and put texts in quotes that "
                + "have : or # in them or begin with another sign")
    }

    private var place: Place {
        let mark = event.pointee.start_mark
        return Place(line: Int(mark.line) + 1, column: Int(mark.column) + 1)
    }

    private func fault(_ sentence: String) -> Fault { Fault(place, sentence) }
}
