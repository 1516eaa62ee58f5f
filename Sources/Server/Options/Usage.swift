// Usage: what forebayd -h prints.

import Core

/// The version that `forebayd -V` prints.
public let forebayVersion = "0.1.0"

let usage = """
    usage: forebayd [options]

    The Forebay broker: publish/subscribe in which every subscriber asks for what it can take.

    options:
      --listen HOST:PORT    RSocket over TCP (default \(Face.rsocket.defaultEndpoint))
      --http HOST:PORT      HTTP (default \(Face.http.defaultEndpoint))
      --admin HOST:PORT     metrics, health, JSON and a page to look at (default \(Options.defaultAdmin))
                            For all three: "off" turns it off; port 0 picks a free one, which the log's
                            "listening" line tells
      --threads N           event-loop threads (default: one per CPU)
      --retain N            messages that a topic retains for replay (default \(defaults.retain))
      --retain-bytes SIZE   bytes that a topic may hold (default \(formatByteSize(defaults.retainBytes)))
      --memory SIZE         bytes of all topics and queues together (default: a quarter of what the
                            control group, or else the machine, has)
      --allow-origin ORIGIN pages that may use HTTP from elsewhere, for example https://example.org;
                            may be given several times, * is all (default: none)
      --host-name NAME      a name under which browsers and others may ask for HTTP and the admin
                            listener, beside addresses and localhost; may be given several times,
                            * is any (default: none)
      --log-level LEVEL     debug, info, warn or error (default info)
      --log-format FORMAT   text or json (default text); the log goes to standard error
      -V, --version         print the version
      -h, --help            print this

    A SIZE is a number of bytes, or of K, M or G (1K = 1024). The first SIGTERM or SIGINT drains: no
    new streams, what is buffered is delivered, at most 10 s; the second ends at once.

    Not in this version: -c FILE and -t.

    examples:
      forebayd                                 for clients on this machine
      forebayd --listen 0.0.0.0:7690           for RSocket clients anywhere; there is no authentication
      forebayd --listen off                    for HTTP clients only
      forebayd --retain 100 --memory 512M      a small broker
      forebayd --listen 127.0.0.1:0 --http 127.0.0.1:0 --log-format json 2>log

    Exit codes: 0 ended as asked, 1 failed (a port is taken, …), 2 wrong usage.

    """

private let defaults = Options()
