// Subjects: names with tokens that are separated by periods, wildcards, and how `republish` transforms them.

enum Subjects {
    static func tokens(_ subject: String) -> [String] {
        subject.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    }

    /// Whether `filter` can be subscribed to.
    static func isValid(filter: String) -> Bool {
        let tokens = tokens(filter)
        return tokens.allSatisfy(isToken) && !tokens.dropLast().contains(">")
    }

    /// Whether messages can be published to `subject`.
    static func isValid(_ subject: String) -> Bool {
        tokens(subject).allSatisfy { isToken($0) && $0 != "*" && $0 != ">" }
    }

    private static func isToken(_ token: String) -> Bool {
        !token.isEmpty && token.utf8.allSatisfy { $0 != 0x20 && !(0x09...0x0D).contains($0) }
    }

    /// Whether `filter` matches `subject`, both as tokens.
    static func matches(_ filter: [String], _ subject: [String]) -> Bool {
        for (index, token) in filter.enumerated() {
            if token == ">", index == filter.count - 1 { return subject.count > index }
            guard index < subject.count, token == "*" || token == subject[index] else { return false }
        }
        return filter.count == subject.count
    }

    /// Whether some subject matches both filters.
    static func overlap(_ one: [String], _ other: [String]) -> Bool {
        for index in 0..<max(one.count, other.count) {
            guard index < one.count, index < other.count else { return false }
            if one[index] == ">" || other[index] == ">" { return true }
            guard one[index] == other[index] || one[index] == "*" || other[index] == "*" else { return false }
        }
        return true
    }
}

/// Maps subjects that match a filter to others.
struct SubjectTransform {
    private let source: [String]
    private let target: [String]

    /// Nil if the server would refuse it: invalid subjects, an index without a wildcard, or `>` in only one of them.
    init?(from source: String, to target: String) {
        guard Subjects.isValid(filter: source), Subjects.isValid(filter: target) else { return nil }
        self.source = Subjects.tokens(source)
        self.target = Subjects.tokens(target)
        let wildcards = self.source.count { $0 == "*" }
        let indices = self.target.compactMap(SubjectTransform.index)
        guard self.source.contains(">") == self.target.contains(">"), !self.target.contains("*"),
            indices.allSatisfy({ $0 >= 1 && $0 <= wildcards })
        else { return nil }
    }

    /// The number in `$1` or `{{wildcard(1)}}`.
    private static func index(_ token: String) -> Int? {
        if token.hasPrefix("$") { return Int(token.dropFirst()) }
        guard token.hasPrefix("{{wildcard("), token.hasSuffix(")}}") else { return nil }
        return Int(token.dropFirst("{{wildcard(".count).dropLast(")}}".count))
    }

    /// The subject to which a message with `subject` goes; nil if the filter does not match.
    func callAsFunction(_ subject: [String]) -> String? {
        guard Subjects.matches(source, subject) else { return nil }
        let wildcards = source.indices.filter { source[$0] == "*" }.map { subject[$0] }
        var result: [String] = []
        for token in target {
            if token == ">" {
                result += subject[(source.count - 1)...]
            } else if let index = SubjectTransform.index(token) {
                result.append(wildcards[index - 1])
            } else {
                result.append(token)
            }
        }
        return result.joined(separator: ".")
    }
}
