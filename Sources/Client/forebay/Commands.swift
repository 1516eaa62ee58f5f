// Commands: the table of what `forebay` can do. Parsing, `-h`, the manual page and the completions of shells read it;
// nothing else describes an option.

import ForebayWire

enum Command: Equatable {
    case sub, pub, topics, topicInfo, topicComplete, topicFail, topicDelete, subs, conns, closeConnection
    case closeSubscription, top, ping, bench, completion, manual, contextAdd, contextUse, contextRemove, contextList
}

let version = "0.1.0"

let commonOptions: [OptionSpec] = [
    OptionSpec(
        name: "url", value: "URL", kind: .text,
        help: "the broker: rsocket://HOST:PORT, or http://HOST:PORT for gRPC; rsockets:// or https:// over TLS; "
            + "several with commas between: the first that answers; default rsocket://127.0.0.1:7690, or what "
            + "FOREBAY_URL says"),
    OptionSpec(
        name: "ca", value: "FILE", kind: .text,
        help: "over TLS: trust a broker whose certificate is from these authorities (PEM); default: those of the "
            + "system"),
    OptionSpec(name: "cert", value: "FILE", kind: .text, help: "over TLS: the certificate to show the broker (PEM)"),
    OptionSpec(name: "key", value: "FILE", kind: .text, help: "its key (PEM); default: in the same file"),
    OptionSpec(name: "insecure", kind: .flag, help: "over TLS: trust whoever answers"),
    OptionSpec(
        name: "user", value: "NAME", kind: .text, help: "the user to connect as; default what FOREBAY_USER says"),
    OptionSpec(
        name: "password-file", value: "FILE", kind: .text,
        help: "the file with the user's password; default what FOREBAY_PASSWORD says"),
    OptionSpec(
        name: "token-file", value: "FILE", kind: .text,
        help: "the file with a token to connect with instead; default what FOREBAY_TOKEN says"),
    OptionSpec(
        name: "password-command", value: "COMMAND", kind: .text, help: "a shell command that prints the password"),
    OptionSpec(
        name: "token-command", value: "COMMAND", kind: .text, help: "a shell command that prints the token"),
    OptionSpec(
        name: "context", value: "NAME", kind: .text,
        help: "the broker that 'forebay context add NAME' saved; default what FOREBAY_CONTEXT says"),
    OptionSpec(name: "json", kind: .flag, help: "print JSON, one object a line"),
    OptionSpec(name: "help", short: "h", kind: .flag, help: "explain the program or the command"),
    OptionSpec(name: "version", short: "V", kind: .flag, help: "print the version"),
]

private let credits: ClosedRange<UInt64> = 1...0x7fff_ffff
private let counts: ClosedRange<UInt64> = 1...UInt64(Int64.max)

let overflowPolicies = Overflow.allCases.map(\.name)

/// What the policies are, the default first.
private func overflowHelp(_ standard: Overflow) -> String {
    let others = overflowPolicies.filter { $0 != standard.name }
    return "what happens when they are more: \(standard.name) (default), \(others.joined(separator: ", "))"
}

let commandTable: [CommandSpec] = [
    subSpec, pubSpec,
    CommandSpec(
        id: .topics, path: ["topics"], summary: "list the topics",
        details: ["One line a topic: its state, the sequences it retains, and who is on it."],
        examples: [("forebay topics", "a table"), ("forebay topics --json", "one JSON object a line")]),
    CommandSpec(
        id: .topicInfo, path: ["topic", "info"], operands: ["NAME"], summary: "show one topic",
        examples: [("forebay topic info host.vmstat", "")]),
    CommandSpec(
        id: .topicComplete, path: ["topic", "complete"], operands: ["NAME"],
        summary: "complete a topic: subscribers get what is buffered, then the end",
        examples: [("forebay topic complete host.vmstat", "")]),
    CommandSpec(
        id: .topicFail, path: ["topic", "fail"], operands: ["NAME"],
        summary: "fail a topic: subscribers get what is buffered, then the failure",
        options: [
            OptionSpec(
                name: "message", value: "TEXT", kind: .text,
                help: "what subscribers are told; default 'failed by request'")
        ],
        examples: [("forebay topic fail host.vmstat --message 'sensor gone'", "")]),
    CommandSpec(
        id: .topicDelete, path: ["topic", "delete"], operands: ["NAME"],
        summary: "delete a topic and what it retains; its next use begins a new epoch",
        examples: [("forebay topic delete host.vmstat", "")]),
    CommandSpec(
        id: .subs, path: ["subs"], summary: "list the subscriptions, with their credit",
        details: [
            "requested is the credit a subscription gave in all, left what of it is not yet used; waiting is what lies "
                + "in its buffer because it has none, dropped what its overflow policy threw away."
        ],
        examples: [("forebay subs", "a table"), ("forebay subs --json", "one JSON object a line")]),
    CommandSpec(
        id: .conns, path: ["conns"], summary: "list the connections",
        options: [
            OptionSpec(
                name: "wide", kind: .flag, help: "show its thread, and the bytes that wait for it, too")
        ],
        examples: [("forebay conns", "a table"), ("forebay conns --json", "one JSON object a line")]),
    CommandSpec(
        id: .closeConnection, path: ["close", "connection"], operands: ["ID"],
        summary: "close a client's connection, by its id in 'forebay conns'",
        details: ["The client is told that an operator did; it may connect again."],
        examples: [("forebay close connection 0-3-7", "")]),
    CommandSpec(
        id: .closeSubscription, path: ["close", "subscription"], operands: ["ID"],
        summary: "end a subscription, by its id in 'forebay subs'",
        details: ["Its connection stays. The client is told that an operator did; it may subscribe again."],
        examples: [("forebay close subscription 42", "")]),
    CommandSpec(
        id: .top, path: ["top"], summary: "watch the broker: topics with their rates, and who is slow",
        details: [
            "A subscription is slow when messages have been waiting for it for a while: 'no credit' when its client "
                + "has not asked for more, 'not reading' when it does not read what was sent.",
            "Keys: b w d c t sort by behind, waiting, dropped, credit and topic, r the other way round; the arrows, "
                + "page keys, Home and End scroll, tab changes the list that they scroll; space pauses; q quits.",
            "When the connection is lost it connects again.",
        ],
        options: [
            OptionSpec(
                name: "interval", value: "SECONDS", kind: .decimal(0.1...3600), help: "between two looks; default 1"),
            OptionSpec(
                name: "sort", value: "BY", kind: .choice(TopOrder.allCases.map(\.name)),
                help: "what comes first: behind (default), waiting, dropped, credit or topic"),
            OptionSpec(
                name: "once", kind: .flag,
                help: "print one picture, COLUMNS (default 160) wide, and end; with --json an object"),
        ] + Reconnection.options,
        examples: [("forebay top", "until q"), ("forebay top --once | head -20", "a picture for a report")]),
    CommandSpec(
        id: .ping, path: ["ping"], summary: "measure round trips to the broker",
        details: [
            "Each is a KEEPALIVE, answered by the broker ahead of all data; over http:// a call of gRPC's health check."
        ],
        options: [
            OptionSpec(
                name: "count", short: "n", value: "N", kind: .number(1...1_000_000), help: "how many; default 4"),
            OptionSpec(
                name: "interval", value: "SECONDS", kind: .decimal(0...3600),
                help: "time between two; default 1"),
        ],
        examples: [
            ("forebay ping", "four round trips, a second apart"),
            ("forebay ping --count 1000 --interval 0", "a thousand, back to back"),
        ]),
    benchSpec,
    CommandSpec(
        id: .contextAdd, path: ["context", "add"], operands: ["NAME"],
        summary: "save a broker, and how it is spoken to, under a name",
        details: [
            "What --url, --ca, --cert, --key, --insecure, --user and the options for passwords and tokens say is saved "
                + "in forebay/contexts, in the folder that XDG_CONFIG_HOME names (~/.config). Secrets are not: it "
                + "names their file, or a command that prints them. The first context is used at once."
        ],
        examples: [
            ("forebay context add lab --url rsocket://lab:7690", ""),
            ("forebay context add prod --url rsockets://a,rsockets://b --user ann --password-command 'pass prod'", ""),
        ]),
    CommandSpec(
        id: .contextUse, path: ["context", "use"], operands: ["NAME"],
        summary: "speak to a saved broker from now on, where neither --url nor FOREBAY_URL says otherwise",
        examples: [("forebay context use lab", "")]),
    CommandSpec(
        id: .contextList, path: ["context", "list"], summary: "list the saved brokers",
        examples: [("forebay context list", "")]),
    CommandSpec(
        id: .contextRemove, path: ["context", "remove"], operands: ["NAME"], summary: "forget a saved broker",
        examples: [("forebay context remove lab", "")]),
    CommandSpec(
        id: .completion, path: ["completion"], operands: ["SHELL"],
        summary: "print a script by which bash, zsh or fish completes forebay's command line",
        details: [
            "Packages bring it along. Otherwise 'source <(forebay completion bash)' has it in a shell, and in zsh "
                + "likewise; fish takes 'forebay completion fish | source'. Names of topics are asked of the broker "
                + "that commands without --url speak to."
        ],
        examples: [("forebay completion bash", "for bash")]),
    CommandSpec(
        id: .manual, path: ["manual"], summary: "print the source of forebay's manual page",
        examples: [("forebay manual | man -l -", "read it")]),
]

private let subSpec = CommandSpec(
    id: .sub, path: ["sub"], operands: ["TOPIC"], summary: "subscribe to a topic and print its messages",
    details: [
        "Without --request demand is unbounded. With it the broker never sends more than was asked for: what this "
            + "subscriber does not take waits in its replay buffer, and when that is full the overflow policy decides. "
            + "Credit is asked for again only when messages have been printed.",
        "^C cancels the subscription and ends with 0, as does the completion of the topic; its failure ends with 1.",
        "When the connection is lost it connects again and goes on with the next message, and tells what is missing.",
        "Interactive: a subscription begins with at least one credit, so with 1, or with --request; from "
            + "then on credit is granted by key only, but for 1 when it connects again without any. Metadata is always "
            + "on there.",
    ],
    options: [
        OptionSpec(
            name: "request", value: "N", kind: .number(credits),
            help: "ask for N messages at a time, and again when half is used"),
        OptionSpec(
            name: "once", kind: .flag,
            help: "with --request: ask a single time, then stay subscribed without credit"),
        OptionSpec(name: "count", short: "n", value: "N", kind: .number(counts), help: "end after N messages"),
        OptionSpec(
            name: "replay", value: "N|all", kind: .numberOr(["all"], 0...0x7fff_ffff),
            help: "begin with the last N retained messages; default 0"),
        OptionSpec(
            name: "from", value: "SEQ", kind: .number(1...UInt64.max),
            help: "begin at this sequence"),
        OptionSpec(
            name: "epoch", value: "E", kind: .number(1...UInt64.max),
            help: "with --from: the epoch it was seen in, so that another life of the topic is a gap"),
        OptionSpec(
            name: "gap", value: "tell|fail", kind: .choice(["tell", "fail"]),
            help: "a gap at the start is told (default with --meta), or refuses the subscription (default without it)"),
        OptionSpec(
            name: "buffer", value: "N", kind: .number(credits),
            help: "how many messages may wait for credit; default 1024"),
        OptionSpec(
            name: "overflow", value: "POLICY", kind: .choice(overflowPolicies),
            help: overflowHelp(.dropOldest)),
        OptionSpec(
            name: "meta", kind: .flag,
            help: "ask for sequence, timestamp and drops, and show them"),
        OptionSpec(
            name: "interactive", short: "i", kind: .flag,
            help: "a full-screen view: grant credit by key, see what waits and what is dropped"),
        OptionSpec(
            name: "format", value: "F", kind: .choice(["text", "json", "raw"]),
            help: "as text (a line each, default), json (an object each) or raw (the bytes alone)"),
    ] + Reconnection.options,
    examples: [
        ("forebay sub host.vmstat --replay 10", "the last ten messages, then all new ones"),
        ("forebay sub host.vmstat --request 5", "never more than five outstanding"),
        ("forebay sub host.vmstat --interactive", "grant credit by hand"),
        ("forebay sub prices --overflow latest --request 1 | slow-program", "always the newest"),
        ("forebay sub prices --from 4711 --epoch 90125 --meta", "resume where one left off"),
    ])

private let pubSpec = CommandSpec(
    id: .pub, path: ["pub"], operands: ["TOPIC", "[MESSAGE]"], summary: "publish to a topic",
    details: [
        "The command ends when the broker has acknowledged every message; --ack prints the last one's sequence. More "
            + "than one message goes through a channel under the broker's credits: --stdin is read only while there is "
            + "credit. One MESSAGE or --file waits where a subscription blocks its topic, and is refused if there is "
            + "no room in time (the broker's park-time).",
        "Write -- before a MESSAGE that begins with a dash: forebay pub temperature -- -5",
        "A line of --stdin holds at most 1 MiB; an empty line is an empty message. ^C ends the channel, tells how many "
            + "messages are acknowledged, and ends with 130; SIGTERM with 143. The topic stays live.",
        "When the connection is lost it connects again, and sends again what was not acknowledged: subscribers may get "
            + "that twice. It tells how many.",
    ],
    options: [
        OptionSpec(name: "stdin", kind: .flag, help: "publish each line of the standard input"),
        OptionSpec(
            name: "file", value: "FILE", kind: .text,
            help: "publish FILE as one message; - is the standard input"),
        OptionSpec(
            name: "count", short: "n", value: "N", kind: .number(counts),
            help: "publish MESSAGE, or what --size makes, N times; at most N lines of --stdin"),
        OptionSpec(
            name: "forever", kind: .flag, help: "publish MESSAGE, or what --size makes, again and again until ^C"),
        OptionSpec(
            name: "rate", value: "R", kind: .decimal(0.001...10_000_000), help: "at most R messages a second"),
        OptionSpec(
            name: "size", value: "B", kind: .number(0...(1 << 20)),
            help: "publish generated payloads of B bytes"),
        OptionSpec(
            name: "header", value: "NAME=VALUE", kind: .texts,
            help: "give each message a header; several times for several"),
        OptionSpec(name: "content-type", value: "TYPE", kind: .text, help: "the MIME type of the messages"),
        OptionSpec(name: "ack", kind: .flag, help: "print what the broker acknowledged"),
        OptionSpec(name: "complete", kind: .flag, help: "complete the topic after the last message"),
    ] + Reconnection.options,
    examples: [
        ("forebay pub greetings 'hello, world'", "one message"),
        ("forebay pub greetings hello --ack", "prints its sequence"),
        ("vmstat 1 | forebay pub host.vmstat --stdin", "a live feed"),
        ("forebay pub maps --file map.png --content-type image/png", "a file as one message"),
        ("forebay pub load --size 1000 --count 1000000", "a gigabyte of load"),
        ("forebay pub ticks tick --rate 10 --count 600 --complete", "a minute of ticks, then the end"),
    ])

private let benchSpec = CommandSpec(
    id: .bench, path: ["bench"], operands: ["[TOPIC]"],
    summary: "publish and subscribe at full speed, or at a rate, and print what the broker did",
    details: [
        "Publishers and subscribers are connections of their own, all in this one process and thread. Without TOPIC a "
            + "fresh one is used and deleted afterwards; a TOPIC that is named stays. Messages are numbered: each "
            + "subscriber checks that none is missing, doubled or out of order, and under 'block' a lost one is a "
            + "failure.",
        "With --rate messages have a time at which they are due, whatever became of those before, and the latency "
            + "runs from then until a subscriber has read it: what the broker, or this client, makes wait is not left "
            + "out. With --ack each message is a publish that the broker acknowledges, \(BenchPublisher.inFlightLimit) "
            + "of each publisher in flight; otherwise each publisher is a channel under the broker's credits.",
        "The client has one thread, and tells how much of a CPU it used: near 100 % it may be the limit. ^C ends it "
            + "early and prints what was measured.",
    ],
    options: [
        OptionSpec(
            name: "subscribers", value: "N", kind: .number(0...BenchSettings.subscriberLimit),
            help: "how many; default 1"),
        OptionSpec(
            name: "publishers", value: "N", kind: .number(1...BenchSettings.publisherLimit),
            help: "how many; default 1"),
        OptionSpec(
            name: "size", value: "B", kind: .number(0...(1 << 20)), help: "bytes of a payload; default 128"),
        OptionSpec(
            name: "seconds", value: "S", kind: .decimal(0.001...BenchSettings.longest),
            help: "publish for S seconds; default 5"),
        OptionSpec(
            name: "count", short: "n", value: "N", kind: .number(1...1_000_000_000_000),
            help: "publish N messages, of all publishers together"),
        OptionSpec(
            name: "rate", value: "R", kind: .decimal(0.001...10_000_000),
            help: "R messages a second of all publishers together, and measure latency; default as fast as it goes"),
        OptionSpec(
            name: "request", value: "N", kind: .number(credits),
            help: "subscribers ask for N messages at a time, and again when half is used; default without bound"),
        OptionSpec(
            name: "buffer", value: "N", kind: .number(credits),
            help: "how many messages may wait for a subscriber; default 1024"),
        OptionSpec(
            name: "overflow", value: "POLICY", kind: .choice(overflowPolicies),
            help: overflowHelp(.block)),
        OptionSpec(name: "ack", kind: .flag, help: "have each message acknowledged"),
    ],
    examples: [
        ("forebay bench --subscribers 100", "fan-out at full speed"),
        ("forebay bench --rate 20000 --subscribers 10", "latency at a steady rate"),
        ("forebay bench --count 1000000 --request 256", "a million messages through windows of 256"),
        ("forebay bench --overflow latest --request 1", "how much a slow subscriber skips"),
        ("forebay bench --ack --subscribers 0 --json", "acknowledged publishes, for a program to read"),
    ])
