// Health: grpc.health.v1.Health, which reports whether the broker, or one of its services, accepts calls.
//
// Check answers once, with NOT_FOUND for an unknown service. Watch answers at once and again whenever the status
// changes, and never ends on its own; for an unknown service it answers SERVICE_UNKNOWN and waits. List returns all.

import Bytes

/// `HealthCheckResponse.ServingStatus`, with its numbers.
public enum HealthStatus: UInt8, Sendable {
    case serving = 1
    case notServing = 2
    /// Only in Watch.
    case serviceUnknown = 3
}

public enum Health {
    /// The names that can be checked; the empty one is the broker as a whole.
    public static let names = [""] + GRPCMethod.services

    /// Parses the service's name from a `HealthCheckRequest`.
    ///
    /// - Throws: INVALID_ARGUMENT for malformed bytes.
    public static func parse(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) -> String {
        var service = ""
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "HealthCheckRequest", &reader) {
            if number == 1, case .bytes(let text) = value { service = try checkedText(text, "service").text }
        }
        return service
    }

    /// The answer of Check.
    ///
    /// - Parameter isServing: false while the broker drains.
    /// - Throws: NOT_FOUND for an unknown service.
    public static func check(_ service: String, isServing: Bool) throws(GRPCError) -> HealthStatus {
        let status = watch(service, isServing: isServing)
        guard status != .serviceUnknown else {
            throw GRPCError(
                .notFound,
                "This broker has no such service; use one of \(GRPCMethod.services.joined(separator: ", ")), or "
                    + "no name for the broker itself.")
        }
        return status
    }

    /// The current answer of Watch, sent first and whenever it differs from the last one sent.
    public static func watch(_ service: String, isServing: Bool) -> HealthStatus {
        guard names.contains(service) else { return .serviceUnknown }
        return isServing ? .serving : .notServing
    }

    /// Appends `HealthCheckResponse` after gRPC's prefix.
    public static func append(_ status: HealthStatus, to out: inout ByteBuffer) {
        GRPCFraming.append(to: &out) { $0.append(field: 1, UInt64(status.rawValue)) }
    }

    /// Appends `HealthListResponse` after gRPC's prefix: every name with its status.
    public static func appendList(isServing: Bool, to out: inout ByteBuffer) {
        GRPCFraming.append(to: &out) { list in
            for name in names {
                list.append(field: 1) { entry in
                    entry.append(element: 1, name)
                    entry.append(field: 2) {
                        $0.append(field: 1, UInt64(watch(name, isServing: isServing).rawValue))
                    }
                }
            }
        }
    }
}
