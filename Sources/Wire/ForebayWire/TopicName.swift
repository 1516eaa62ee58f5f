// TopicName: tokens of `[A-Za-z0-9_-]+` joined by `.`, at most 255 bytes. `$SYS.` is reserved for the broker.

/// The rules for topic names. The broker checks the names that clients send; clients check them before sending.
public enum TopicName {
    /// Maximum bytes of a name.
    public static let longest = 255
    /// The prefix of the broker's own topics.
    public static let system = "$SYS."

    /// Whether this names one of the broker's own topics. Such a name follows no other rule.
    public static func isSystem(_ name: String) -> Bool { name.hasPrefix(system) }

    /// Whether a name is meant as a pattern, which selects topics: it contains `*` or `>`. Only the broker decides
    /// whether it is valid.
    public static func isPattern(_ name: String) -> Bool {
        name.utf8.contains { $0 == UInt8(ascii: "*") || $0 == UInt8(ascii: ">") }
    }

    /// Whether a token may contain `byte`.
    public static func allows(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }

    /// What is wrong with `name`, as a sentence; nil if it is a valid topic name.
    public static func fault(_ name: String) -> String? {
        if name.isEmpty { return "The topic name is empty; use a name such as orders.eu." }
        if name.utf8.count > longest {
            return "The topic name has \(name.utf8.count) bytes; at most \(longest) are allowed."
        }
        var tokenIsEmpty = true
        for byte in name.utf8 {
            switch byte {
            case UInt8(ascii: "."):
                if tokenIsEmpty { return emptyToken(name) }
                tokenIsEmpty = true
            case UInt8(ascii: "*"), UInt8(ascii: ">"):
                return "The topic '\(name)' contains '*' or '>', which are allowed only in patterns to subscribe to; "
                    + "use tokens of A-Z a-z 0-9 _ - joined by dots."
            case _ where allows(byte): tokenIsEmpty = false
            default:
                let looksLikeMQTT = name.contains { $0 == "#" || $0 == "+" }
                return "The topic '\(name)' has a character that is not allowed; "
                    + "use tokens of A-Z a-z 0-9 _ - joined by dots"
                    + (looksLikeMQTT
                        ? ". In a pattern, * stands for one token and > for the rest, as in orders.>." : ".")
            }
        }
        return tokenIsEmpty ? emptyToken(name) : nil
    }

    private static func emptyToken(_ name: String) -> String {
        "The topic '\(name)' has an empty token; "
            + "use tokens of A-Z a-z 0-9 _ - joined by single dots."
    }
}
