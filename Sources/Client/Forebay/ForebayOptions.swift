// ForebayOptions: how a client connects and reconnects, and the bounds of what it holds.

import Client

/// The options of a client. All have defaults.
public struct ForebayOptions: Sendable {
    /// How a client connects again.
    public var reconnect = ReconnectPolicy()

    /// Publishes whose acknowledgement was not heard before the connection was lost are repeated when it is there
    /// again, so that they arrive at least once, and perhaps twice. Otherwise they fail with `.outcomeUnknown`: at most
    /// once, and the program decides.
    public var repeatsPublishes = true

    /// How long connecting may take once the broker's name is looked up, and then the broker's first answer.
    public var connectTimeout = Duration.seconds(10)

    /// How long a connection may bring nothing, not even the answer to a keepalive, before it is given up. A sign of
    /// life is sent at a third of it, but not while a subscriber is called: one call that takes this long loses the
    /// connection. At least 3 ms, at most 2³¹−1 ms; what is beyond is taken for that.
    public var silence = Duration.seconds(30)

    /// Whom to trust, and what to show, over TLS (`rsockets://`, `https://`).
    public var tls = TLS()

    /// Who the program says it is, unless it stands in the URL.
    public var credentials: Credentials?

    /// What a broker takes to let a user in.
    public enum Credentials: Equatable, Sendable {
        /// A user of the broker's configuration, and its password.
        case password(user: String, password: String)
        /// A token of the broker's configuration, or a JWT.
        case token(String)
    }

    /// The bounds of what the client holds.
    public var limits = Limits()

    /// How the broker is trusted, and knows the client. Files are in PEM, and are read whenever a connection is made.
    public struct TLS: Equatable, Sendable {
        /// A file with the certificates of the authorities that are trusted; nil for those of the system.
        public var authority: String?
        /// A file with the certificate that the broker is shown; nil for none.
        public var certificate: String?
        /// A file with its key; nil when that lies with the certificate.
        public var key: String?
        /// False trusts whoever answers: who stands in between can read and change everything.
        public var verifies = true

        /// The system's authorities are trusted, and nothing is shown.
        public init() {}

        /// These files; the broker is verified.
        public init(authority: String?, certificate: String? = nil, key: String? = nil) {
            self.authority = authority
            self.certificate = certificate
            self.key = key
        }
    }

    /// The bounds of what one client holds.
    public struct Limits: Sendable {
        /// Subscriptions and publishes that are under way at a time; above it new ones fail with `.busy`. At most
        /// 1,024. Over HTTP subscriptions and publications also fail so when the broker's limit on the streams of a
        /// connection is reached, by default 1,000, of which the client sets 16 aside for itself. For more, connect
        /// more clients.
        public var activities = 1024
        /// Bytes of single publishes that are under way; above it new ones fail with `.busy`, and one that is larger by
        /// itself with `.messageTooLarge`.
        public var publishedBytes = 64 << 20
        /// Bytes of one message, payload and metadata; a larger one fails its subscription. At least 1 KiB,
        /// at most 1 GiB.
        public var message = 32 << 20
        /// Bytes of output that the network has not taken, above which no more is asked of publishers that are
        /// published.
        public var output = 1 << 20

        /// The defaults.
        public init() {}
    }

    /// The defaults.
    public init() {}
}

extension ClientLimits {
    /// Those of a connection.
    init(_ options: ForebayOptions) {
        self.init()
        // Answers to publishes are messages too.
        message = min(max(options.limits.message, 1 << 10), 1 << 30)
        reassembly = max(reassembly, message)
        streams += ProbeQueue.mostStreams
        // No longer than RSocket's SETUP can tell: 2³¹−1 milliseconds.
        lifetime = min(max(options.silence.nanoseconds, 3_000_000), 0x7fff_ffff * 1_000_000)
        keepaliveInterval = lifetime / 3
    }
}

extension Backoff {
    init(_ policy: ReconnectPolicy) {
        self.init(first: policy.first.nanoseconds, longest: policy.longest.nanoseconds, attempts: policy.attempts)
    }
}

/// When a client that has lost its connection tries again: soon at first, then ever later, and never all clients at
/// once.
public struct ReconnectPolicy: Equatable, Sendable {
    /// The longest wait before the first attempt, at least 1 ms.
    public var first = Duration.milliseconds(100)
    /// The longest wait of all. Each is twice the one before until it reaches this.
    public var longest = Duration.seconds(10)
    /// Attempts in a row that may fail before the client gives up; nil never gives up. A broker that refuses the
    /// client's credentials, because they were changed or a token has expired, is not asked again in either case.
    public var attempts: Int?

    /// When to try again; an argument that is left out has its default.
    public init() {}

    /// When to try again; an argument that is left out has its default.
    public init(first: Duration, longest: Duration, attempts: Int? = nil) {
        self.first = first
        self.longest = longest
        self.attempts = attempts
    }
}

extension Duration {
    /// Clamped to what 64 bits hold; a negative one is none.
    var nanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (whole, isOver) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        return isOver ? .max : whole.addingReportingOverflow(UInt64(attoseconds) / 1_000_000_000).partialValue
    }
}
