// BrokerManual: forebayd's manual pages and its completions, from the table of settings.

import Core
import Manual

enum BrokerManual {
    /// What `--manual` prints.
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
            throw UsageError("--completion \(shell) is none of \(list(Shell.allCases.map(\.rawValue)))")
        }
        return program.completion(for: shell)
    }

    static func manual(_ part: String) throws(UsageError) -> String {
        guard let part = Part(rawValue: part) else {
            throw UsageError("--manual \(part) is none of \(list(Part.allCases.map(\.rawValue)))")
        }
        return part.text
    }

    private static func list(_ words: [String]) -> String { words.joined(separator: ", ") }

    private static let general: [ManualOption] = [
        ManualOption(
            "config", short: "c", value: "FILE",
            help: "read FILE; without it \(ConfigurationFile.standard) if that is there. See forebayd.yaml(5)",
            values: .file),
        ManualOption("test", short: "t", help: "check the file and all other settings, and start nothing"),
        ManualOption("print-config", help: "print what is in force and where it came from, and start nothing"),
        ManualOption(
            "hash-password", help: "read a password, print its hash for a user of the file, and start nothing"),
        ManualOption(
            "completion", value: "SHELL", help: "print a script by which bash, zsh or fish completes the command line",
            values: .words(Shell.allCases.map(\.rawValue))),
        ManualOption(
            "manual", value: "PART",
            help: "print the source of this page (program) or of forebayd.yaml(5) (file)",
            values: .words(Part.allCases.map(\.rawValue))),
        ManualOption("version", short: "V", help: "print the version"),
        ManualOption("help", short: "h", help: "explain the options"),
    ]

    static let program = Manual(
        "forebayd", section: 8, version: forebayVersion,
        title: "publish/subscribe broker in which every subscriber asks for what it can take",
        synopsis: ["forebayd [OPTION…]"],
        description: [
            "The Forebay broker. Topics keep a window of their latest messages, and each subscription is a cursor "
                + "into it with its own demand, bounded buffer and overflow policy. Clients speak RSocket 1.0 over "
                + "TCP, gRPC or plain HTTP; forebay(1) is one.",
            "It stays in the foreground and writes its log to the standard error. Listeners are told there by lines "
                + "that begin with listening.",
            "Every option that sets something is a key of the configuration file as well, without its dashes, and "
                + "a variable of the environment, in capitals: --log-level, log-level: and FOREBAY_LOG_LEVEL. Options "
                + "win over variables, variables over the file.",
            values,
        ],
        options: general.map { grouped($0, "General") }
            + Setting.all.filter { !$0.isRecords }.map { setting in grouped(option(setting), setting.group.rawValue) },
        sections: [
            ManualSection(
                "SIGNALS",
                items: [
                    (
                        "SIGTERM, SIGINT",
                        "the first drains: no new connections, streams or messages, and what is buffered is delivered "
                            + "for as long as --drain-time allows. The second ends at once"
                    ),
                    ("SIGHUP", "reads the configuration again; what cannot change at once is told in the log"),
                ]),
            ManualSection(
                "ENVIRONMENT",
                [
                    "FOREBAY_CONFIG names the configuration file as --config does. Of systemd's protocols "
                        + "NOTIFY_SOCKET, WATCHDOG_USEC and LISTEN_FDS with LISTEN_FDNAMES are understood: a socket "
                        + "that is passed must be named \(Listener.names.joined(separator: " or ")), and takes "
                        + "the place of that listener."
                ]),
            ManualSection(
                "FILES", items: [(ConfigurationFile.standard, "the configuration, unless another is named")]),
            ManualSection(
                "EXIT STATUS",
                items: [
                    ("0", "ended as asked"), ("1", "failed, as when a port is taken"),
                    ("2", "wrong usage or configuration"),
                ]),
        ],
        examples: [
            ManualExample("forebayd", "for clients on this machine"),
            ManualExample("forebayd -t -c broker.yaml", "is this file in order?"),
            ManualExample("forebayd --listen 127.0.0.1:0 --http off --log-format json 2>log", "for a test"),
        ], seeAlso: ["forebayd.yaml(5)", "forebay(1)", "systemd.socket(5)"])

    static let file = Manual(
        "forebayd.yaml", section: 5, version: forebayVersion, title: "configuration of forebayd",
        synopsis: [ConfigurationFile.standard],
        description: [
            "YAML: one KEY: VALUE a line, and comments behind #. Every key is an option of forebayd(8) too, and a "
                + "variable of the environment, both of which win over the file. A key that is unknown, a value that "
                + "is out of bounds or a key that is there twice is refused with its line and column; forebayd -t "
                + "looks for these without starting anything, and forebayd --print-config tells what is in force.",
            values,
            "SIGHUP has the file read again. Nothing changes when it is not in order. Keys marked by an asterisk take "
                + "effect at once, the others when the broker is started anew.",
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
                """, "Topics that retain more, or less, than others; the first match counts"),
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
                """, "Users, by the hash of a password or a token (forebayd --hash-password makes one of a password)"),
            ManualExample(
                """
                jwt:
                  audience: forebay
                  issuer: https://login.example.org
                  keys:
                    - {id: main, algorithm: EdDSA, file: login.pem}
                """, "JSON web tokens; the public key is beside this file"),
        ], seeAlso: ["forebayd(8)"])

    private static let values =
        "HOST:PORT may be off; port 0 picks a free one. A SIZE is a number of bytes, or of K, M or G (1K = 1024). A "
        + "TIME has a unit, ms, s, m, h or d: 30s."

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

    /// What it sets, and its default.
    private static func about(_ setting: Setting) -> String {
        let standard = setting.isSecret ? "" : setting.line(Options())
        return setting.about + (standard.isEmpty ? "" : " (default \(standard))")
    }
}
