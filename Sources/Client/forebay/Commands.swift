// Commands: the table of `forebay`'s commands. Parsing, `-h`, the manual page and shell completions read it; options
// are described nowhere else.

import ForebayWire

enum Command: Equatable {
    case sub, pub, topics, topicInfo, topicComplete, topicFail, topicDelete, subs, conns, closeConnection
    case closeSubscription, top, ping, bench, completion, manual, contextAdd, contextUse, contextRemove, contextList
}

let version = "0.1.0"

let commonOptions: [OptionSpec] = [
    OptionSpec(
        name: "url", value: "URL", kind: .text,
        help: "broker URL: rsocket://HOST:PORT, or http://HOST:PORT for gRPC; with TLS, rsockets:// or https://. "
            + "Several URLs, separated by commas, are the nodes of a cluster: the first that answers is used, and the "
            + "next one if it fails. Default: $FOREBAY_URL, else "
            + "rsocket://127.0.0.1:7690"),
    OptionSpec(
        name: "ca", value: "FILE", kind: .text,
        help: "TLS: file with trusted certificate authorities (PEM); default: those of the system"),
    OptionSpec(name: "cert", value: "FILE", kind: .text, help: "TLS: client certificate (PEM)"),
    OptionSpec(
        name: "key", value: "FILE", kind: .text,
        help: "TLS: key of the client certificate (PEM); default: in the same file"),
    OptionSpec(name: "insecure", kind: .flag, help: "TLS: do not verify the broker's certificate"),
    OptionSpec(
        name: "user", value: "NAME", kind: .text, help: "user name; default $FOREBAY_USER"),
    OptionSpec(
        name: "password-file", value: "FILE", kind: .text,
        help: "file with the password; default $FOREBAY_PASSWORD"),
    OptionSpec(
        name: "token-file", value: "FILE", kind: .text,
        help: "file with a token, instead of user and password; default $FOREBAY_TOKEN"),
    OptionSpec(
        name: "password-command", value: "COMMAND", kind: .text, help: "shell command that prints the password"),
    OptionSpec(
        name: "token-command", value: "COMMAND", kind: .text, help: "shell command that prints the token"),
    OptionSpec(
        name: "context", value: "NAME", kind: .text,
        help: "use a broker saved with 'forebay context add NAME'; default $FOREBAY_CONTEXT"),
    OptionSpec(name: "json", kind: .flag, help: "print JSON, one object per line"),
    OptionSpec(name: "help", short: "h", kind: .flag, help: "print help and exit"),
    OptionSpec(name: "version", short: "V", kind: .flag, help: "print the version and exit"),
]

private let credits: ClosedRange<UInt64> = 1...0x7fff_ffff
private let counts: ClosedRange<UInt64> = 1...UInt64(Int64.max)

let overflowPolicies = Overflow.allCases.map(\.name)

/// The help text for the overflow policy, with the default first.
private func overflowHelp(_ standard: Overflow) -> String {
    let others = overflowPolicies.filter { $0 != standard.name }
    return "what happens when the buffer is full: \(standard.name) (default), \(others.joined(separator: ", "))"
}

let commandTable: [CommandSpec] = [
    subSpec, pubSpec,
    CommandSpec(
        id: .topics, path: ["topics"], summary: "list the topics",
        details: [
            "Prints one line per topic: its state, retained sequences, subscriptions and publishers. Subscriptions to "
                + "patterns are not counted; 'forebay subs' lists them."
        ],
        examples: [("forebay topics", "a table"), ("forebay topics --json", "one JSON object per line")]),
    CommandSpec(
        id: .topicInfo, path: ["topic", "info"], operands: ["NAME"], summary: "show one topic",
        examples: [("forebay topic info host.vmstat", "")]),
    CommandSpec(
        id: .topicComplete, path: ["topic", "complete"], operands: ["NAME"],
        summary: "complete a topic: subscribers receive buffered messages, then the completion",
        examples: [("forebay topic complete host.vmstat", "")]),
    CommandSpec(
        id: .topicFail, path: ["topic", "fail"], operands: ["NAME"],
        summary: "fail a topic: subscribers receive buffered messages, then the failure",
        options: [
            OptionSpec(
                name: "message", value: "TEXT", kind: .text,
                help: "reason sent to subscribers; default 'failed by request'")
        ],
        examples: [("forebay topic fail host.vmstat --message 'sensor gone'", "")]),
    CommandSpec(
        id: .topicDelete, path: ["topic", "delete"], operands: ["NAME"],
        summary: "delete a topic and its retained messages; its next use begins a new epoch",
        examples: [("forebay topic delete host.vmstat", "")]),
    CommandSpec(
        id: .subs, path: ["subs"], summary: "list the subscriptions, with their credit",
        details: [
            "REQUESTED is the total credit of a subscription, LEFT is the unused remainder. WAITING is the number of "
                + "messages in its buffer, DROPPED is the number that its overflow policy discarded.",
            "Of a pattern: MATCHED is the number of topics that matched when the subscription began; ACTIVE is the "
                + "number of topics that had a message in the last seconds or whose messages wait; SKIPPED is how "
                + "often a topic with messages was left for later because ACTIVE had reached max-matches.",
        ],
        examples: [("forebay subs", "a table"), ("forebay subs --json", "one JSON object per line")]),
    CommandSpec(
        id: .conns, path: ["conns"], summary: "list the connections",
        options: [
            OptionSpec(
                name: "wide", kind: .flag, help: "also show the thread and the unsent bytes of each connection")
        ],
        examples: [("forebay conns", "a table"), ("forebay conns --json", "one JSON object per line")]),
    CommandSpec(
        id: .closeConnection, path: ["close", "connection"], operands: ["ID"],
        summary: "close a client's connection, by its id in 'forebay conns'",
        details: ["The client receives an error that names the operator's action. It may reconnect."],
        examples: [("forebay close connection 0-3-7", "")]),
    CommandSpec(
        id: .closeSubscription, path: ["close", "subscription"], operands: ["ID"],
        summary: "end a subscription, by its id in 'forebay subs'",
        details: [
            "The connection stays open. The client receives an error that names the operator's action. It may "
                + "subscribe again."
        ],
        examples: [("forebay close subscription 42", "")]),
    CommandSpec(
        id: .top, path: ["top"], summary: "watch topics with their rates, and slow subscriptions",
        details: [
            "A subscription is slow when messages have been waiting for a while: 'no credit' means that its client "
                + "has not requested more, 'not reading' that it does not read from its socket.",
            "Keys: b, w, d, c and t sort by behind, waiting, dropped, credit and topic; r reverses the order. The "
                + "arrows, page keys, Home and End scroll; Tab selects the list to scroll. Space pauses; q quits.",
            "A subscription to a pattern is one line, and SUBS of a topic does not count it. 'N active' is the number "
                + "of its topics that had a message in the last seconds or whose messages wait; 'N skipped' is how "
                + "often another topic was left for later because that number had reached max-matches.",
            "The command reconnects when the connection is lost.",
        ],
        options: [
            OptionSpec(
                name: "interval", value: "SECONDS", kind: .decimal(0.1...3600), help: "refresh interval; default 1"),
            OptionSpec(
                name: "sort", value: "BY", kind: .choice(TopOrder.allCases.map(\.name)),
                help: "sort by behind (default), waiting, dropped, credit or topic"),
            OptionSpec(
                name: "once", kind: .flag,
                help: "print one snapshot, $COLUMNS (default 160) wide, and exit; with --json, one object"),
        ] + Reconnection.options,
        examples: [("forebay top", "quit with q"), ("forebay top --once | head -20", "a snapshot for a report")]),
    CommandSpec(
        id: .ping, path: ["ping"], summary: "measure round trips to the broker",
        details: [
            "Each round trip is a KEEPALIVE frame, which the broker answers ahead of all data; over http://, it is a "
                + "gRPC health check."
        ],
        options: [
            OptionSpec(
                name: "count", short: "n", value: "N", kind: .number(1...1_000_000),
                help: "number of round trips; default 4"),
            OptionSpec(
                name: "interval", value: "SECONDS", kind: .decimal(0...3600),
                help: "time between two round trips; default 1"),
        ],
        examples: [
            ("forebay ping", "four round trips, a second apart"),
            ("forebay ping --count 1000 --interval 0", "a thousand, back to back"),
        ]),
    benchSpec,
    CommandSpec(
        id: .contextAdd, path: ["context", "add"], operands: ["NAME"],
        summary: "save a broker's URL and options under a name",
        details: [
            "Saves --url, --ca, --cert, --key, --insecure, --user and the options for passwords and tokens in "
                + "$XDG_CONFIG_HOME/forebay/contexts (default ~/.config). It saves no secrets, only the name of their "
                + "file or a command that prints them. The first context is used at once."
        ],
        examples: [
            ("forebay context add lab --url rsocket://lab:7690", ""),
            ("forebay context add prod --url rsockets://a,rsockets://b --user ann --password-command 'pass prod'", ""),
        ]),
    CommandSpec(
        id: .contextUse, path: ["context", "use"], operands: ["NAME"],
        summary: "make a saved broker the default; --url and $FOREBAY_URL override it",
        examples: [("forebay context use lab", "")]),
    CommandSpec(
        id: .contextList, path: ["context", "list"], summary: "list the saved brokers",
        examples: [("forebay context list", "")]),
    CommandSpec(
        id: .contextRemove, path: ["context", "remove"], operands: ["NAME"], summary: "remove a saved broker",
        examples: [("forebay context remove lab", "")]),
    CommandSpec(
        id: .completion, path: ["completion"], operands: ["SHELL"],
        summary: "print a completion script for bash, zsh or fish",
        details: [
            "Packages install it. Otherwise run 'source <(forebay completion bash)', the same for zsh, or 'forebay "
                + "completion fish | source'. Topic names are completed by asking the default broker."
        ],
        examples: [("forebay completion bash", "for bash")]),
    CommandSpec(
        id: .manual, path: ["manual"], summary: "print the source of forebay's manual page",
        examples: [("forebay manual | man -l -", "read it")]),
]

private let subSpec = CommandSpec(
    id: .sub, path: ["sub"], operands: ["TOPIC"], summary: "subscribe to a topic and print its messages",
    details: [
        "Without --request, demand is unbounded. With it, the broker never sends more messages than requested. Further "
            + "messages wait in the subscription's buffer; when it is full, the overflow policy applies. More credit "
            + "is requested only after messages have been printed.",
        "^C cancels the subscription. The exit code is 0 then and when the topic completes, and 1 when it fails.",
        "TOPIC may be a pattern: * stands for one token of a name, and > at the end for one or more, as in 'orders.>'. "
            + "The subscription receives every topic that matches, now or later, and each message is printed after its "
            + "topic and a space, or with the field topic. The options apply to each topic; a topic created later is "
            + "received from its first message. --from, --opening, --overflow block and --interactive need a single "
            + "topic.",
        "When the connection is lost, the command reconnects, resumes with the next message and reports any gap. A "
            + "subscription to a pattern does so in each topic that has sent a message. With --replay all or a fixed "
            + "--since, other topics begin there again, otherwise at the time of the newest message: older ones that "
            + "were still waiting in them are lost, and the next message of such a topic reports it.",
        "With --interactive, the subscription begins with one credit, or with --request; after that, keys grant "
            + "credit. A reconnect without remaining credit requests 1 again. --interactive implies --meta.",
    ],
    options: [
        OptionSpec(
            name: "request", value: "N", kind: .number(credits),
            help: "request N messages at a time, and more when half of them are used"),
        OptionSpec(
            name: "once", kind: .flag,
            help: "with --request: request once, then stay subscribed without credit"),
        OptionSpec(name: "count", short: "n", value: "N", kind: .number(counts), help: "exit after N messages"),
        OptionSpec(
            name: "replay", value: "N|all", kind: .numberOr(["all"], 0...0x7fff_ffff),
            help: "begin with the last N retained messages; default 0"),
        OptionSpec(
            name: "from", value: "SEQ", kind: .number(1...UInt64.max),
            help: "begin at this sequence"),
        OptionSpec(
            name: "epoch", value: "E", kind: .number(1...UInt64.max),
            help: "with --from: the epoch of that sequence; a different epoch is a gap"),
        OptionSpec(
            name: "since", value: "TIME", kind: .text,
            help: "begin with the first retained message at or after a time such as 2026-11-22T09:30:00Z, or after a "
                + "duration ago such as -5m (with ms, s, m, h or d)"),
        OptionSpec(
            name: "gap", value: "tell|fail", kind: .choice(["tell", "fail"]),
            help: "gap at the start: report it (tell, default with --meta) or refuse the subscription (fail, default)"),
        OptionSpec(
            name: "buffer", value: "N", kind: .number(credits),
            help: "messages that may wait for credit; default 1024"),
        OptionSpec(
            name: "overflow", value: "POLICY", kind: .choice(overflowPolicies),
            help: overflowHelp(.dropOldest)),
        OptionSpec(
            name: "meta", kind: .flag,
            help: "show sequence, timestamp and drops of each message"),
        OptionSpec(
            name: "opening", kind: .flag,
            help: "show where the subscription begins; a connection lost before its first message then loses none"),
        OptionSpec(
            name: "interactive", short: "i", kind: .flag,
            help: "full-screen view: grant credit with keys, watch waiting and dropped messages"),
        OptionSpec(
            name: "format", value: "F", kind: .choice(["text", "json", "raw"]),
            help: "text (one line per message, default), json (one object per message) or raw (bytes only)"),
    ] + Reconnection.options,
    examples: [
        ("forebay sub host.vmstat --replay 10", "the last ten messages, then all new ones"),
        ("forebay sub host.vmstat --since -5m", "the messages of the last five minutes, then all new ones"),
        ("forebay sub host.vmstat --request 5", "never more than five outstanding"),
        ("forebay sub host.vmstat --interactive", "grant credit by hand"),
        ("forebay sub prices --overflow latest --request 1 | slow-program", "always the newest"),
        ("forebay sub 'orders.>' | cut -d ' ' -f 1", "the topics of all orders, one line per message"),
        ("forebay sub prices --from 4711 --epoch 90125 --meta", "resume at a known position"),
    ])

private let pubSpec = CommandSpec(
    id: .pub, path: ["pub"], operands: ["TOPIC", "[MESSAGE]"], summary: "publish to a topic",
    details: [
        "The command exits when the broker has acknowledged every message; --ack prints the last sequence. Several "
            + "messages go through a channel with the broker's credit: --stdin is read only while there is credit. A "
            + "single MESSAGE or --file waits while a subscription blocks the topic, and is refused if there is no "
            + "room within the broker's park-time.",
        "Write -- before a MESSAGE that begins with a dash: forebay pub temperature -- -5",
        "A line of --stdin has at most 1 MiB; an empty line is an empty message. ^C ends the channel, prints the "
            + "number of acknowledged messages, and exits with 130; SIGTERM exits with 143. The topic stays live.",
        "When the connection is lost, the command reconnects and sends unacknowledged messages again. Subscribers may "
            + "receive these twice; the command prints how many.",
        "With --publisher, messages are numbered, and the broker recognizes those that are sent again: each message is "
            + "published exactly once, and the next run with the same ID continues. Use an ID in one process at a "
            + "time. The broker forgets an ID after an hour without use, or on a shared topic once the ID's last "
            + "message is no longer retained; if it does so while messages are unacknowledged, the command reports "
            + "that and exits.",
    ],
    options: [
        OptionSpec(name: "stdin", kind: .flag, help: "publish each line of standard input"),
        OptionSpec(
            name: "file", value: "FILE", kind: .text,
            help: "publish FILE as one message; - is standard input"),
        OptionSpec(
            name: "count", short: "n", value: "N", kind: .number(counts),
            help: "publish MESSAGE, or a payload of --size, N times; with --stdin, at most N lines"),
        OptionSpec(
            name: "forever", kind: .flag, help: "publish MESSAGE, or a payload of --size, repeatedly until ^C"),
        OptionSpec(
            name: "rate", value: "R", kind: .decimal(0.001...10_000_000), help: "at most R messages per second"),
        OptionSpec(
            name: "size", value: "B", kind: .number(0...(1 << 20)),
            help: "publish generated payloads of B bytes"),
        OptionSpec(
            name: "header", value: "NAME=VALUE", kind: .texts,
            help: "add a header to each message; repeatable"),
        OptionSpec(name: "content-type", value: "TYPE", kind: .text, help: "MIME type of the messages"),
        OptionSpec(
            name: "publisher", value: "ID", kind: .text, help: "publish each message exactly once, under this ID"),
        OptionSpec(name: "ack", kind: .flag, help: "print the acknowledgement"),
        OptionSpec(name: "complete", kind: .flag, help: "complete the topic after the last message"),
    ] + Reconnection.options,
    examples: [
        ("forebay pub greetings 'hello, world'", "one message"),
        ("forebay pub greetings hello --ack", "prints its sequence"),
        ("vmstat 1 | forebay pub host.vmstat --stdin", "a live feed"),
        ("forebay pub maps --file map.png --content-type image/png", "a file as one message"),
        ("forebay pub load --size 1000 --count 1000000", "a gigabyte of load"),
        ("forebay pub readings 21.5 --publisher station-7", "exactly once, even if it has to be sent again"),
        ("forebay pub ticks tick --rate 10 --count 600 --complete", "a minute of ticks, then the end"),
    ])

private let benchSpec = CommandSpec(
    id: .bench, path: ["bench"], operands: ["[TOPIC]"],
    summary: "measure throughput at full speed, or latency at a fixed rate",
    details: [
        "Each publisher and subscriber has its own connection, all in one thread of this process. Without TOPIC, a new "
            + "topic is used and deleted afterwards. Messages are numbered: each subscriber checks that none is "
            + "missing, duplicated or out of order. Under 'block', a lost message is a failure.",
        "With --rate, each message has a scheduled time that does not depend on earlier messages. Latency is measured "
            + "from that time until a subscriber has read the message, so that queueing in the broker or in this "
            + "client counts. With --ack, each message is an acknowledged publish, with "
            + "\(BenchPublisher.inFlightLimit) in flight per publisher; otherwise each "
            + "publisher is a channel with the broker's credit.",
        "The client prints its own CPU usage: near 100 %, the client may be the bottleneck. ^C stops early and prints "
            + "the results so far.",
    ],
    options: [
        OptionSpec(
            name: "subscribers", value: "N", kind: .number(0...BenchSettings.subscriberLimit),
            help: "number of subscribers; default 1"),
        OptionSpec(
            name: "publishers", value: "N", kind: .number(1...BenchSettings.publisherLimit),
            help: "number of publishers; default 1"),
        OptionSpec(
            name: "size", value: "B", kind: .number(0...(1 << 20)), help: "payload size in bytes; default 128"),
        OptionSpec(
            name: "seconds", value: "S", kind: .decimal(0.001...BenchSettings.longest),
            help: "publish for S seconds; default 5"),
        OptionSpec(
            name: "count", short: "n", value: "N", kind: .number(1...1_000_000_000_000),
            help: "publish N messages in total"),
        OptionSpec(
            name: "rate", value: "R", kind: .decimal(0.001...10_000_000),
            help: "publish R messages per second in total, and measure latency; default: full speed"),
        OptionSpec(
            name: "request", value: "N", kind: .number(credits),
            help: "request N messages at a time, and more when half of them are used; default: unbounded"),
        OptionSpec(
            name: "buffer", value: "N", kind: .number(credits),
            help: "messages that may wait for a subscriber; default 1024"),
        OptionSpec(
            name: "overflow", value: "POLICY", kind: .choice(overflowPolicies),
            help: overflowHelp(.block)),
        OptionSpec(name: "ack", kind: .flag, help: "publish with acknowledgements"),
    ],
    examples: [
        ("forebay bench --subscribers 100", "fan-out at full speed"),
        ("forebay bench --rate 20000 --subscribers 10", "latency at a steady rate"),
        ("forebay bench --count 1000000 --request 256", "a million messages through windows of 256"),
        ("forebay bench --overflow latest --request 1", "how much a slow subscriber skips"),
        ("forebay bench --ack --subscribers 0 --json", "acknowledged publishes, as JSON"),
    ])
