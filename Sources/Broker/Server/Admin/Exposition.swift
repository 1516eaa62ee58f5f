// Exposition: metrics in Prometheus' text format 0.0.4.
// https://prometheus.io/docs/instrumenting/exposition_formats/

/// Writes metric families one after another.
struct Exposition {
    enum Kind: String { case counter, gauge, histogram }

    static let mime = "text/plain; version=0.0.4; charset=utf-8"

    private(set) var text = ""
    private var name = ""

    /// Starts a family; its samples follow. `help` must not contain line breaks or backslashes.
    mutating func family(_ name: String, _ kind: Kind, _ help: String) {
        self.name = name
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
    }

    /// Adds a sample to the current family.
    mutating func sample(
        _ labels: KeyValuePairs<String, String> = [:], suffix: String = "", _ value: some BinaryInteger
    ) {
        head(labels, suffix)
        text += "\(value)\n"
    }

    mutating func sample(_ labels: KeyValuePairs<String, String> = [:], suffix: String = "", number: Double) {
        head(labels, suffix)
        text += "\(number)\n"
    }

    /// Adds a sample in seconds.
    mutating func sample(_ labels: KeyValuePairs<String, String> = [:], suffix: String = "", nanoseconds: UInt64) {
        sample(labels, suffix: suffix, number: Double(nanoseconds) / 1e9)
    }

    /// Adds a family with a single sample.
    mutating func single(_ name: String, _ kind: Kind, _ help: String, _ value: some BinaryInteger) {
        family(name, kind, help)
        sample([:], value)
    }

    mutating func single(_ name: String, _ kind: Kind, _ help: String, nanoseconds: UInt64) {
        family(name, kind, help)
        sample(nanoseconds: nanoseconds)
    }

    private mutating func head(_ labels: KeyValuePairs<String, String>, _ suffix: String) {
        text += name
        text += suffix
        if !labels.isEmpty {
            var separator = "{"
            for (label, value) in labels {
                text += "\(separator)\(label)=\"\(Exposition.escape(value))\""
                separator = ","
            }
            text += "}"
        }
        text += " "
    }

    private static func escape(_ value: String) -> String {
        guard value.utf8.contains(where: { $0 == 0x5C || $0 == 0x22 || $0 == 0x0A }) else { return value }
        var escaped = ""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\"": escaped += "\\\""
            case "\n": escaped += "\\n"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
