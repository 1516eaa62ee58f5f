// PrintConfig: the output of --print-config: all settings in effect, in the format of the file, with the origin of each
// value. It contains no secrets.

import Configuration

extension Loaded {
    /// - Parameter effective: values that are derived from this machine, by setting.
    func printed(effective: [String: String] = [:], table: [Setting] = Setting.all) -> String {
        var lines: [String] = []
        for group in Setting.Group.allCases {
            lines.append((lines.isEmpty ? "" : "\n") + "# \(group.rawValue)")
            for setting in table where setting.group == group {
                var origin = origin(setting).description
                if let here = effective[setting.name] { origin += "; \(here)" }
                lines += print(setting, "  # \(origin)")
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private func print(_ setting: Setting, _ origin: String) -> [String] {
        let texts = setting.texts(options)
        func line(_ text: String) -> String {
            text + String(repeating: " ", count: max(0, 48 - text.count)) + origin
        }
        if setting.isSecret || texts == [""] {
            let isSet = self.origin(setting) != .standard
            return [line("# \(setting.name): (\(isSet ? "not shown" : "not set"))")]
        }
        switch setting.shape {
        case .value, .truth: return [line("\(setting.name): \(quoted(texts[0]))")]
        case .list: return [line("\(setting.name): [\(texts.map(quoted).joined(separator: ", "))]")]
        case .records:
            if texts.isEmpty { return [line("\(setting.name): []")] }
            return [line("\(setting.name):")] + texts.map { "  " + $0 }
        }
    }
}

/// A text in YAML, quoted if it could be misinterpreted.
func quoted(_ text: String) -> String {
    let isPlain: (UInt8) -> Bool = { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "._/:-+@$=".utf8.contains(byte)
        }
    }
    let isLetter: (Character) -> Bool = { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "/" || $0 == "$") }
    if let first = text.first, isLetter(first), text.last != ":", text != "null", text.utf8.allSatisfy(isPlain) {
        return text
    }
    var result = "\""
    for scalar in text.unicodeScalars {
        switch scalar {
        case "\"", "\\": result += "\\\(scalar)"
        case _ where scalar.value < 0x20 || scalar.value == 0x7F:
            let digits = String(scalar.value, radix: 16)
            result += "\\x" + (digits.count < 2 ? "0" : "") + digits
        default: result.unicodeScalars.append(scalar)
        }
    }
    return result + "\""
}
