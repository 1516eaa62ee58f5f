// Counted: numbers of things in sentences for people.

/// "1 message", "2 messages", "0 messages".
/// - Parameters:
///   - noun: what is counted, one of it.
///   - more: several of it; nil is `noun` with an s.
public func counted(_ count: some BinaryInteger, _ noun: String, _ more: String? = nil) -> String {
    count == 1 ? "1 \(noun)" : "\(count) \(more ?? noun + "s")"
}
