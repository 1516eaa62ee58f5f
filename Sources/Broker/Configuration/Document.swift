// Document: parses a file into nodes, using libyaml's events. Pure: bytes in; a tree, or an error with its position,
// out. Features that a configuration does not need (anchors and aliases, tags, multiple documents) are rejected, and
// sizes are bounded.

import CYAML

public enum Document {
    /// Limits: bytes of a file, nodes in it and depth of nesting. Enough for the longest lists of a configuration:
    /// 10,000 users with 800 bytes and 40 keys, values and lists each.
    public static let longest = 8 << 20
    public static let mostNodes = 400_000
    public static let deepest = 16

    /// Parses a YAML document; nil if it is empty except for comments.
    public static func parse(_ bytes: [UInt8]) throws(Fault) -> Node? {
        guard bytes.count <= longest else {
            throw Fault(Place(line: 1, column: 1), "the file has more than \(longest) bytes; write a shorter one")
        }
        if bytes.isEmpty { return nil }
        return try bytes.withUnsafeBufferPointer { bytes throws(Fault) -> Node? in
            var reader = Reader(bytes)
            return try reader.document()
        }
    }
}

/// Builds the tree. libyaml keeps a pointer to the bytes, so they must not move.
private struct Reader: ~Copyable {
    private let bytes: UnsafeBufferPointer<UInt8>
    private let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
    private let event = UnsafeMutablePointer<yaml_event_t>.allocate(capacity: 1)
    private var nodes = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) {
        self.bytes = bytes
        event.initialize(to: yaml_event_t())
        parser.initialize(to: yaml_parser_t())
        precondition(yaml_parser_initialize(parser) == 1, "out of memory for the parser")
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
        try advance()  // start of the stream
        try advance()
        guard event.pointee.type == YAML_DOCUMENT_START_EVENT else { return nil }
        try advance()
        let root = try node(depth: 1)
        try advance()  // end of the document
        try advance()
        guard event.pointee.type == YAML_STREAM_END_EVENT else {
            throw fault("a second document starts here; write only one")
        }
        return root.content == .nothing ? nil : root
    }

    /// The node that starts at the current event. On return, the current event is the node's last one.
    private mutating func node(depth: Int) throws(Fault) -> Node {
        nodes += 1
        guard nodes <= Document.mostNodes else { throw fault("the file has more than \(Document.mostNodes) values") }
        guard depth <= Document.deepest else {
            throw fault("values are nested more than \(Document.deepest) levels deep; write them flatter")
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
            // The only other event that libyaml emits here is an alias.
            throw fault("aliases (*name) are not supported; write the value itself, in quotes if it begins with *")
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
                throw Fault(key.place, "\(shown(name)): duplicate key, first used in line \(line); write it once")
            }
            try advance()
            let value = try node(depth: depth + 1)
            entries.append(Node.Entry(key: name, place: key.place, value: value))
        }
    }

    private func scalar() throws(Fault) -> Node.Content {
        let scalar = event.pointee.data.scalar
        try refuse(anchor: scalar.anchor, tag: scalar.tag)
        // No value spans several lines; a lone > is a value whose quotes are missing.
        if scalar.style == YAML_FOLDED_SCALAR_STYLE || scalar.style == YAML_LITERAL_SCALAR_STYLE {
            let sign = scalar.style == YAML_FOLDED_SCALAR_STYLE ? ">" : "|"
            throw fault("\(sign) starts a block of text; write \"\(sign)\" in quotes if it is the value")
        }
        let text = String(decoding: UnsafeBufferPointer(start: scalar.value, count: scalar.length), as: UTF8.self)
        if scalar.style == YAML_PLAIN_SCALAR_STYLE, ["", "~", "null"].contains(text) { return .nothing }
        if text.utf8.contains(0) { throw fault("the text contains a NUL character; leave it out") }
        return .text(text)
    }

    private func refuse(anchor: UnsafePointer<UInt8>?, tag: UnsafePointer<UInt8>?) throws(Fault) {
        if anchor != nil { throw fault("anchors (&name) are not supported; leave it out, or write it in quotes") }
        if tag != nil { throw fault("tags (!name) are not supported; leave it out, or write it in quotes") }
    }

    private mutating func advance() throws(Fault) {
        yaml_event_delete(event)
        if yaml_parser_parse(parser, event) == 1 { return }
        let problem = parser.pointee.problem.map { String(cString: $0) } ?? "out of memory"
        if parser.pointee.error == YAML_READER_ERROR {
            let before = bytes[..<min(parser.pointee.problem_offset, bytes.count)]
            let line = before.reduce(1) { $1 == UInt8(ascii: "\n") ? $0 + 1 : $0 }
            throw Fault(Place(line: line, column: 1), "the line is not valid UTF-8: \(problem)")
        }
        let mark = parser.pointee.problem_mark
        throw Fault(
            Place(line: Int(mark.line) + 1, column: Int(mark.column) + 1),
            "this is not YAML: \(problem); write KEY: VALUE, indent with spaces only, and quote values that "
                + "contain : or # or begin with a special character")
    }

    private var place: Place {
        let mark = event.pointee.start_mark
        return Place(line: Int(mark.line) + 1, column: Int(mark.column) + 1)
    }

    private func fault(_ sentence: String) -> Fault { Fault(place, sentence) }
}
