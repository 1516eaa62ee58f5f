// APIError: errors of the JetStream API, with the codes and texts of nats-server 2.15.1.

struct APIError: Error, Equatable {
    var code: Int
    var number: Int
    var text: String

    init(_ code: Int, _ number: Int, _ text: String) {
        self.code = code
        self.number = number
        self.text = text
    }

    var json: String {
        var writer = JSONWriter()
        writer.put("code", code)
        writer.put("err_code", number)
        writer.put("description", text)
        return writer.object
    }

    static let noPeers = APIError(400, 10005, "no suitable peers for placement")
    static let badRequest = APIError(400, 10003, "bad request")
    static let unavailable = APIError(503, 10008, "JetStream system temporarily unavailable")
    static let noMessage = APIError(404, 10037, "no message found")
    static let tooLarge = APIError(400, 10054, "message size exceeds maximum allowed")
    static let nameMismatch = APIError(400, 10056, "stream name in subject does not match request")
    static let deleteDenied = APIError(500, 10057, "message delete not permitted")
    static let noSequence = APIError(500, 10057, "stream store EOF")
    static let nameInUse = APIError(400, 10058, "stream name already in use with a different configuration")
    static let noStream = APIError(404, 10059, "stream not found")
    static let otherStream = APIError(400, 10060, "expected stream does not match")
    static let overlap = APIError(400, 10065, "subjects overlap with an existing stream")
    static let notClustered = APIError(500, 10074, "replicas > 1 not supported in non-clustered mode")
    static let fullOfMessages = APIError(503, 10077, "maximum messages exceeded")
    static let fullOfBytes = APIError(503, 10077, "maximum bytes exceeded")
    static let headersTooLarge = APIError(400, 10097, "header size exceeds maximum allowed of 64k")
    static let purgeDenied = APIError(500, 10110, "stream purge not permitted")
    static let sealed = APIError(400, 10109, "invalid operation on sealed stream")
    static let inProcess = APIError(409, 10158, "duplicate message id is in process")
    static let subjectInProcess = APIError(400, 10164, "wrong last sequence")

    static func json(_ why: String) -> APIError { APIError(400, 10025, "invalid JSON: \(why)") }
    static func configuration(_ why: String) -> APIError { APIError(500, 10052, why) }
    static func lastID(_ id: String) -> APIError { APIError(400, 10070, "wrong last msg ID: \(id)") }
    static func last(_ sequence: UInt64) -> APIError { APIError(400, 10071, "wrong last sequence: \(sequence)") }
}
