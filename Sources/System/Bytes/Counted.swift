// Counted: counts of things, for use in sentences.

/// "1 message", "2 messages", "0 messages".
/// - Parameters:
///   - noun: the singular.
///   - more: the plural; nil for `noun` with an s.
public func counted(_ count: some BinaryInteger, _ noun: String, _ more: String? = nil) -> String {
    count == 1 ? "1 \(noun)" : "\(count) \(more ?? noun + "s")"
}
