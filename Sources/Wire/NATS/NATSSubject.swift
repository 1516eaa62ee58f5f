// NATSSubject: which texts are subjects. Tokens are separated by periods; `*` stands for one token, and `>` as the last
// one for all that follow. https://docs.nats.io/nats-concepts/subjects

/// Rules for subjects and names of queue groups.
public enum NATSSubject {
    /// Whether messages can be published to `subject`: its tokens are not empty and not wildcards, and it has no
    /// spaces or control characters.
    public static func isValid(_ subject: String) -> Bool { check(subject, allowsWildcards: false) }

    /// Whether `filter` can be subscribed to: a subject that may have wildcards.
    public static func isValid(filter: String) -> Bool { check(filter, allowsWildcards: true) }

    /// Whether `name` can be the name of a queue group.
    public static func isValid(queue name: String) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F }
    }

    private static func check(_ text: String, allowsWildcards: Bool) -> Bool {
        func isWildcard(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "*") || byte == UInt8(ascii: ">") }
        var length = 0
        var last: UInt8 = 0
        var isComplete = false
        func isToken() -> Bool { length > 0 && (allowsWildcards || length > 1 || !isWildcard(last)) }
        for byte in text.utf8 {
            if isComplete || byte <= 0x20 || byte == 0x7F { return false }
            if byte == UInt8(ascii: ".") {
                guard isToken() else { return false }
                isComplete = length == 1 && last == UInt8(ascii: ">")
                length = 0
            } else {
                length += 1
                last = byte
            }
        }
        return isToken()
    }
}
