// Requests of the admin listener to the engine: control requests and logins, with refusals as HTTP problems.

import ForebayWire
import HTTP2

extension ControlRequest {
    /// A control request about a topic, for callers outside the engine.
    public static func about(_ topic: String, _ action: Action) throws(Problem) -> ControlRequest {
        do throws(Refusal) { return try ControlRequest(action, topic: topic) } catch { throw error.problem }
    }

    /// A request to close a connection or subscription, for callers outside the engine.
    public static func closing(_ list: BrokerList, id: String) throws(Problem) -> ControlRequest {
        do throws(Refusal) {
            return try list == .connections
                ? ControlRequest(closeConnection: id) : ControlRequest(closeSubscription: id)
        } catch {
            throw error.problem
        }
    }
}

extension LoginRequest {
    /// A login with the `authorization` of a request outside the engine; `number` is chosen by the caller.
    /// - Parameters:
    ///   - peer: address and port.
    ///   - access: the known users.
    public init(number: UInt64, authorization: String, peer: String, access: AccessTable) throws(Problem) {
        do throws(Refusal) {
            credential = try Credential(authorization: authorization)
        } catch {
            throw error.problem
        }
        ticket = LoginTicket(
            connection: ConnectionID(index: 0, generation: 0), exchange: 0, number: number,
            claim: LoginClaim(credential, access))
        address = Connection.address(of: peer)
    }
}

extension LoginOutcome {
    /// The user that was authenticated.
    public func admitted() throws(Problem) -> Principal {
        switch result {
        case .success(let principal): return principal
        case .failure(let refusal): throw refusal.problem
        }
    }
}
