// BrokerManual: forebayd's manual pages and shell completions, generated from the table of settings.

import Core
import Manual

enum BrokerManual {
    /// The arguments of `--manual`.
    enum Part: String, CaseIterable {
        case program
        case file

        var text: String {
            switch self {
            case .program: BrokerManual.program.page()
            case .file: BrokerManual.file.page()
            }
        }
    }

    static func completion(_ shell: String) throws(UsageError) -> String {
        guard let shell = Shell(rawValue: shell) else {
            throw UsageError("--completion \(shell) is not one of \(list(Shell.allCases.map(\.rawValue)))")
        }
        return program.completion(for: shell)
    }

    static func manual(_ part: String) throws(UsageError) -> String {
        guard let part = Part(rawValue: part) else {
            throw UsageError("--manual \(part) is not one of \(list(Part.allCases.map(\.rawValue)))")
        }
        return part.text
    }

    private static func list(_ words: [String]) -> String { words.joined(separator: ", ") }

    private static let general: [ManualOption] = [
        ManualOption(
            "config", short: "c", value: "FILE",
            help: "configuration file (default \(ConfigurationFile.standard) if it exists); see forebayd.yaml(5)",
            values: .file),
        ManualOption("test", short: "t", help: "check the configuration and exit"),
        ManualOption("print-config", help: "print the settings in effect and their sources, and exit"),
        ManualOption(
            "hash-password", help: "read a password, print its hash for the file, and exit"),
        ManualOption(
            "completion", value: "SHELL", help: "print a completion script for bash, zsh or fish, and exit",
            values: .words(Shell.allCases.map(\.rawValue))),
        ManualOption(
            "manual", value: "PART",
            help: "print the source of this page (program) or of forebayd.yaml(5) (file), and exit",
            values: .words(Part.allCases.map(\.rawValue))),
        ManualOption("version", short: "V", help: "print the version and exit"),
        ManualOption("help", short: "h", help: "print help and exit"),
    ]

    private static let storeCommands: [ManualCommand] = [
        ManualCommand(
            ["store", "info"], summary: "print the size of the store and its topics",
            details: [
                "These commands find the store as the broker does: with --store, FOREBAY_STORE or store: in the file. "
                    + "They do not change it, and a broker may be using it. Run them as the broker's user."
            ]),
        ManualCommand(
            ["store", "check"], summary: "check every record and every message",
            details: ["Prints a line for each problem, and exits with status 1 if there are any."]),
        ManualCommand(
            ["store", "dump"], operands: [ManualOperand("TOPIC")], summary: "print the messages of a topic",
            options: [
                ManualOption("from", value: "SEQUENCE", help: "print messages from this one on"),
                ManualOption(
                    "format", value: "FORMAT",
                    help: "text, one line with sequence, time and payload per message, or json, as in plain HTTP's "
                        + "application/x-ndjson (default text)",
                    values: .words(DumpOptions.Format.allCases.map(\.rawValue))),
            ],
            examples: [ManualExample("forebayd store dump orders.eu --from 100 --format json")]),
        ManualCommand(
            ["store", "copy"], operands: [ManualOperand("DIR", values: .file)],
            summary: "copy the store to a directory that is empty or does not exist",
            details: [
                "The copy is consistent even if a broker is using the store. All its topics take new epochs when a "
                    + "broker first opens it."
            ]),
    ]

    static let program = Manual(
        "forebayd", section: 8, version: forebayVersion,
        title: "publish/subscribe broker with demand-based flow control",
        synopsis: ["forebayd [OPTION…]", "forebayd [OPTION…] store info|check|dump TOPIC|copy DIR"],
        description: [
            "The Forebay broker. Topics keep a window of their latest messages, and each subscription is a cursor "
                + "into it with its own demand, bounded buffer and overflow policy. Clients, such as forebay(1), "
                + "speak RSocket 1.0 over TCP, gRPC or plain HTTP.",
            "It runs in the foreground and logs to standard error. For each listener it logs a line with the "
                + "message \"listening\".",
            "Each setting is an option, a key of the configuration file and an environment variable: --log-level, "
                + "log-level: and FOREBAY_LOG_LEVEL. Options override variables; variables override the file.",
            values,
        ],
        commands: storeCommands,
        options: general.map { grouped($0, "General") }
            + Setting.all.filter { !$0.isRecords }.map { setting in grouped(option(setting), setting.group.rawValue) },
        sections: [
            ManualSection(
                "SIGNALS",
                items: [
                    (
                        "SIGTERM, SIGINT",
                        "the first drains the broker: it accepts no new connections, streams or messages, and delivers "
                            + "buffered messages for at most --drain-time. The second stops it at once"
                    ),
                    ("SIGHUP", "reloads the configuration; the log lists settings that need a restart"),
                ]),
            ManualSection(
                "ENVIRONMENT",
                [
                    "FOREBAY_CONFIG names the configuration file, as --config does. The broker supports systemd's "
                        + "NOTIFY_SOCKET, WATCHDOG_USEC and LISTEN_FDS with LISTEN_FDNAMES. A passed socket must be "
                        + "named \(Listener.names.joined(separator: " or ")), and replaces that listener."
                ]),
            ManualSection(
                "FILES",
                items: [
                    (ConfigurationFile.standard, "default configuration file"),
                    ("/var/lib/forebay", "the store, in the Debian package's configuration"),
                ]),
            ManualSection(
                "EXIT STATUS",
                items: [
                    ("0", "stopped as requested"),
                    (
                        "1",
                        "failed, for example because a port or the store is in use, or because store check has found a "
                            + "problem"
                    ),
                    ("2", "invalid usage or configuration"),
                ]),
        ],
        examples: [
            ManualExample("forebayd", "serve clients on this machine"),
            ManualExample("forebayd --store data --durable 'orders.>'", "keep these topics on disk"),
            ManualExample("forebayd -t -c broker.yaml", "check this file"),
            ManualExample(
                "forebayd --listen 127.0.0.1:0 --http off --log-format json 2>log", "run a test broker on a free port"),
        ], seeAlso: ["forebayd.yaml(5)", "forebay(1)", "systemd.socket(5)"])

    static let file = Manual(
        "forebayd.yaml", section: 5, version: forebayVersion, title: "configuration of forebayd",
        synopsis: [ConfigurationFile.standard],
        description: [
            "The file is YAML, with one KEY: VALUE per line and comments after #. Each key is also an option of "
                + "forebayd(8) and an environment variable; both override the file. Unknown keys, duplicate keys and "
                + "values out of range are errors, reported with line and column. forebayd -t checks the file; "
                + "forebayd --print-config prints the settings in effect.",
            values,
            "SIGHUP reloads the file. If the file has an error, nothing changes. Keys marked with an asterisk take "
                + "effect at once; the others need a restart.",
        ],
        sections: Setting.Group.allCases.map { group in
            ManualSection(
                group.rawValue.uppercased(),
                items: Setting.all.filter { $0.group == group }.map { setting in
                    let value =
                        setting.placeholder.isEmpty ? (setting.isRecords ? "LIST" : "true|false") : setting.placeholder
                    return ("\(setting.name): \(value)\(setting.isReloadable ? " *" : "")", about(setting))
                })
        },
        examples: [
            ManualExample("listen: 127.0.0.1:7690\nhttp: off\nretain: 100\nmemory: 512M", "A small broker for RSocket"),
            ManualExample(
                """
                topics:
                  - match: orders.>
                    retain: 100000
                    retain-bytes: 64M
                  - match: sensors.*.raw
                    retain: 1
                    retain-age: 1m
                """, "Retention by topic; the first match applies"),
            ManualExample(
                """
                users:
                  - name: alice
                    password: $y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7
                    publish: [orders.>]
                    subscribe: [">"]
                    control: [orders.>, $SYS.>]
                    block: [orders.work]
                  - name: sensors
                    token: sha256:a3c29ee3605936ad7871014cbee6c32e794f6c8928753905af5fcd7c7718d0c1
                    publish: ["sensors.*.raw"]
                anonymous:
                  subscribe: [public.>]
                """, "Users with a hashed password or token (forebayd --hash-password hashes a password)"),
            ManualExample(
                """
                jwt:
                  audience: forebay
                  issuer: https://login.example.org
                  keys:
                    - {id: main, algorithm: EdDSA, file: login.pem}
                """, "JSON web tokens; the public key is next to this file"),
        ], seeAlso: ["forebayd(8)"])

    private static let values =
        "off instead of HOST:PORT turns a listener off; port 0 picks a free port. SIZE is a number of bytes, "
        + "optionally with a suffix K, M or G (1K = 1024). TIME needs a unit: ms, s, m, h or d, for example 30s."

    private static func option(_ setting: Setting) -> ManualOption {
        var help = about(setting)
        if case .list = setting.shape { help += ". May be given several times" }
        let values: ManualValues =
            setting.isPath ? .file : setting.words.isEmpty ? .any : .words(setting.words)
        return ManualOption(setting.name, value: setting.placeholder, help: help, values: values)
    }

    private static func grouped(_ option: ManualOption, _ group: String) -> ManualOption {
        var option = option
        option.group = group
        return option
    }

    /// The setting's description and default.
    private static func about(_ setting: Setting) -> String {
        let standard = setting.isSecret ? "" : setting.line(Options())
        return setting.about + (standard.isEmpty ? "" : " (default \(standard))")
    }
}
