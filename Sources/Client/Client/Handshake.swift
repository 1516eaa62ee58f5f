// Handshake: a client's TLS handshake on a connected socket, and its errors as sentences.

import EventLoop
import Glibc
import TLS

enum Handshake {
    /// Reads the certificate and key files.
    static func context(_ settings: TLSClientSettings) throws(ClientError) -> TLSContext {
        do throws(TLSError) {
            return try TLSContext(settings)
        } catch {
            throw ClientError(.badFile, "TLS: \(error.description).")
        }
    }

    /// Blocks until the handshake is done. Does not close the socket.
    static func run(
        _ socket: Int32, _ context: TLSContext, _ address: BrokerAddress, until deadline: UInt64
    ) throws(ClientError) -> TLSStream {
        let stream: TLSStream
        do throws(TLSError) {
            stream = try TLSStream(
                connecting: socket, to: address.host, context, address.transport == .http ? .http2 : .none)
        } catch {
            throw ClientError(.badURL, "\(error.description).")
        }
        while true {
            switch stream.handshake() {
            case .done:
                if address.transport == .http, stream.agreed != "h2" {
                    throw notHTTP2(address)
                }
                return stream
            case .wantsRead: try wait(socket, POLLIN, address, until: deadline)
            case .wantsWrite: try wait(socket, POLLOUT, address, until: deadline)
            case .failed: throw sentence(stream, address, hasBegun: false)
            }
        }
    }

    private static func wait(
        _ socket: Int32, _ events: Int32, _ address: BrokerAddress, until deadline: UInt64
    ) throws(ClientError) {
        let now = Clock.monotonic()
        guard now < deadline else {
            throw ClientError(
                .notConnected, "\(address) did not answer the TLS handshake in time; check that it speaks TLS.")
        }
        var request = pollfd(fd: socket, events: Int16(events), revents: 0)
        // The result is not needed: the handshake finds errors, and the loop checks the time.
        _ = poll(&request, 1, Int32((deadline - now + 999_999) / 1_000_000))
    }

    private static func notHTTP2(_ address: BrokerAddress) -> ClientError {
        ClientError(
            .protocolViolation, "The server at \(address) does not speak HTTP/2; check that it is a broker's port.")
    }

    /// The error for a TLS failure, during the handshake or later.
    static func sentence(_ stream: TLSStream, _ address: BrokerAddress, hasBegun: Bool) -> ClientError {
        switch stream.cause {
        case .distrusted(let why):
            return ClientError(.untrusted, "The certificate of \(address.host) is not trusted: \(why).")
        case .outdated(let why):
            return ClientError(
                .outdated,
                "The certificate of \(address.host) is not valid now: \(why). Renew the broker's certificate, or "
                    + "correct this machine's clock.")
        case .wrongName:
            return ClientError(
                .wrongHost, "The certificate of \(address) is for another host; connect by a name in the certificate.")
        case .notTLS where !hasBegun:
            let scheme = address.transport == .http ? "http" : "rsocket"
            return ClientError(
                .notConnected, "The server at \(address) does not speak TLS; connect with \(scheme)://.")
        case .otherProtocol: return notHTTP2(address)
        case .certificateWanted:
            return ClientError(.setupRejected, "It requires a client certificate, and none was sent.")
        case .certificateRefused:
            return ClientError(.setupRejected, "It does not trust the client certificate.")
        case .turnedAway where !hasBegun:
            return ClientError(
                .notConnected,
                "\(address) aborted the TLS handshake; the broker may have reached its connection limit or be shutting "
                    + "down. Try again later.")
        case .notTLS, .turnedAway, .other:
            let why = stream.failure ?? "the connection was closed"
            return hasBegun
                ? ClientError(.lost, "The connection to \(address) was lost: \(why).")
                : ClientError(.notConnected, "Could not connect to \(address): \(why).")
        }
    }
}
