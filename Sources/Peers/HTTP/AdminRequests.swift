// What the admin listener's requests over HTTP ask of the engine: control requests and logins, whose refusals are
// problems.

import ForebayWire
import HTTP2

extension ControlRequest {
    /// The same for who is no part of the engine.
    public static func about(_ topic: String, _ action: Action) throws(Problem) -> ControlRequest {
        do throws(Refusal) { return try ControlRequest(action, topic: topic) } catch { throw error.problem }
    }

    /// The same for who is no part of the engine.
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
    /// The `authorization` of a request that is none of the engine's; `number` is its asker's own.
    /// - Parameters:
    ///   - peer: address and port.
    ///   - access: who is known.
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
    /// Who it is.
    public func admitted() throws(Problem) -> Principal {
        switch result {
        case .success(let principal): return principal
        case .failure(let refusal): throw refusal.problem
        }
    }
}
