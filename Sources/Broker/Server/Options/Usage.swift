// Usage: what forebayd -h prints, from the table of settings.

/// The version that `forebayd -V` prints.
public let forebayVersion = "0.1.0"

let usage =
    """
    usage: forebayd [options]

    The Forebay broker: publish/subscribe in which every subscriber asks for what it can take.

    """ + Setting.Group.allCases.map(usage(of:)).joined()
        + """

        Configuration:
          -c, --config FILE       read FILE (YAML, KEY: VALUE); without it
                                  \(ConfigurationFile.standard) if that is there
          -t, --test              check the file and all other settings, and start nothing
          --print-config          print what is in force and where it came from, and start nothing
          --completion SHELL      print a script by which bash, zsh or fish completes the command line
          --manual PART           print the source of a manual page (program, file)
          --hash-password         read a password, print its hash for a user of the file, and start nothing
          -V, --version           print the version
          -h, --help              print this

        Every option is a key of the file without its dashes, and a variable in capitals: --log-level,
        log-level: and FOREBAY_LOG_LEVEL. Options win over variables, variables over the file. In the
        file alone:
        \(recordsUsage)

        HOST:PORT may be "off"; port 0 picks a free one, which the log's "listening" line tells. A SIZE
        is a number of bytes, or of K, M or G (1K = 1024), a TIME has a unit, ms, s, m, h or d: 30s. The
        first SIGTERM or SIGINT drains: no new streams, what is buffered is delivered; the second ends at
        once. SIGHUP reads the file again; what cannot change at once is told in the log.

        examples:
          forebayd                                 for clients on this machine
          forebayd --listen 0.0.0.0:7690           for RSocket clients anywhere, who need users in the file
          forebayd --listen off                    for HTTP clients only
          forebayd --retain 100 --memory 512M      a small broker
          forebayd -t -c broker.yaml               is this file in order?
          forebayd --listen 127.0.0.1:0 --http 127.0.0.1:0 --log-format json 2>log

        Exit codes: 0 ended as asked, 1 failed (a port is taken, …), 2 wrong usage or configuration.

        """

private let recordsUsage = Setting.all.filter(\.isRecords).flatMap { setting in
    wrapped("\(setting.name): \(setting.about)", width: 98).map { "  \($0)" }
}.joined(separator: "\n")

private func usage(of group: Setting.Group) -> String {
    let settings = Setting.all.filter { $0.group == group && !$0.isRecords }
    return "\n\(group.rawValue):\n" + settings.map(usage(of:)).joined()
}

/// The option, and what it sets beside it; below it where there is no room.
private func usage(of setting: Setting) -> String {
    let option = "  \(setting.option)\(setting.placeholder.isEmpty ? "" : " ")\(setting.placeholder)"
    let standard = setting.line(Options())
    var about = setting.about
    if case .list = setting.shape { about += "; may be given several times" }
    if !standard.isEmpty { about += " (default \(standard))" }
    var result = option
    var column = option.count
    for (index, line) in wrapped(about, width: 100 - 26).enumerated() {
        if index > 0 || column > 24 {
            result += "\n"
            column = 0
        }
        result += String(repeating: " ", count: 26 - column) + line
    }
    return result + "\n"
}

/// Words in lines of at most `width` columns, if no word is longer.
private func wrapped(_ text: String, width: Int) -> [String] {
    var lines = [""]
    for word in text.split(separator: " ") {
        if lines[lines.count - 1].isEmpty {
            lines[lines.count - 1] = String(word)
        } else if lines[lines.count - 1].count + 1 + word.count <= width {
            lines[lines.count - 1] += " \(word)"
        } else {
            lines.append(String(word))
        }
    }
    return lines
}
