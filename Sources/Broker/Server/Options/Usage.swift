// Usage: the output of forebayd -h, generated from the table of settings.

/// The version that `forebayd -V` prints.
public let forebayVersion = "0.1.0"

let usage =
    """
    usage: forebayd [options]
           forebayd [options] store info|check|dump TOPIC|copy DIR

    The Forebay broker: publish/subscribe with demand-based flow control.

    """ + Setting.Group.allCases.map(usage(of:)).joined()
        + """

        Configuration:
          -c, --config FILE       configuration file in YAML (default \(ConfigurationFile.standard)
                                  if it exists)
          -t, --test              check the configuration and exit
          --print-config          print the settings in effect and their sources, and exit
          --completion SHELL      print a completion script for bash, zsh or fish, and exit
          --manual PART           print the source of a manual page (program, file), and exit
          --hash-password         read a password, print its hash for the file, and exit
          -V, --version           print the version and exit
          -h, --help              print this help and exit

        Commands, on the store, which a broker may be using:
          store info              print the store's size and its topics
          store check             check every message; exit with 1 if something is damaged
          store dump TOPIC        print the messages of a topic
          store copy DIR          copy the store, consistently, to a new directory
          --from SEQUENCE         for dump: print messages from this one on
          --format FORMAT         for dump: text or json (default text)

        Each option can also be set in the file and with an environment variable: --log-level is log-level:
        and FOREBAY_LOG_LEVEL. Options override variables; variables override the file. Only the file can
        set:
        \(recordsUsage)

        "off" instead of HOST:PORT turns a listener off. Port 0 picks a free port; the log reports it as
        "listening". SIZE is a number of bytes, optionally with a suffix K, M or G (1K = 1024). TIME needs a
        unit: ms, s, m, h or d, for example 30s. The first SIGTERM or SIGINT drains the broker: it accepts
        no new streams and delivers buffered messages. The second one stops it at once. SIGHUP reloads the
        file; the log lists settings that need a restart.

        examples:
          forebayd                                 serve clients on this machine
          forebayd --listen 0.0.0.0:7690           serve remote RSocket clients; needs users
          forebayd --listen off                    serve HTTP clients only
          forebayd --retain 100 --memory 512M      a small broker
          forebayd --store data --durable 'orders.>'
                                                   keep these topics on disk
          forebayd -t -c broker.yaml               check this file
          forebayd --listen 127.0.0.1:0 --http 127.0.0.1:0 --log-format json 2>log

        Exit codes: 0 stopped as requested, 1 failed (for example, a port is in use), 2 invalid usage or
        configuration. store check exits with 1 if it finds a problem.

        """

private let recordsUsage = Setting.all.filter(\.isRecords).flatMap { setting in
    wrapped("\(setting.name): \(setting.about)", width: 98).map { "  \($0)" }
}.joined(separator: "\n")

private func usage(of group: Setting.Group) -> String {
    let settings = Setting.all.filter { $0.group == group && !$0.isRecords }
    return "\n\(group.rawValue):\n" + settings.map(usage(of:)).joined()
}

/// The option with its description to the right, or below if the option is too long.
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

/// Wraps text to lines of at most `width` columns, except for longer words.
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
