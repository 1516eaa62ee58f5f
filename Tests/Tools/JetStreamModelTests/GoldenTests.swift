// The model answers what nats-server answered when captures.txt was written.

import JetStreamModel
import Testing

@Suite struct GoldenTests {
    @Test func thereAreCaptures() {
        #expect(Case.all.count > 25)
        #expect(Case.all.reduce(0) { $0 + $1.steps.count } > 350)
    }

    @Test(arguments: Case.all)
    func theModelAnswersLikeTheServer(_ example: Case) throws {
        var options = ModelOptions()
        options.servers = example.servers
        let cluster = ModelCluster(seed: 1, options: options)
        let connection = cluster.connect(now: 1)
        let connect = "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true,\"protocol\":1}\r\n"
        cluster.receive(connect.utf8, on: connection, now: 1)
        _ = cluster.takeOutput(of: connection)
        for (number, step) in example.steps.enumerated() {
            cluster.receive(step.sent.utf8, on: connection, now: 1)
            let operations = try #require(Operation.split(cluster.takeOutput(of: connection)))
            // Sorted by subscription; otherwise in order.
            let sorted = operations.enumerated().sorted {
                let (one, other) = ($0.element, $1.element)
                let key = (one.isMessage ? one.subscription : 0, other.isMessage ? other.subscription : 0)
                return key.0 == key.1 ? $0.offset < $1.offset : key.0 < key.1
            }
            let answers = sorted.map(\.element.captured) + (cluster.isOpen(connection) ? [] : ["CLOSED\r\n"])
            #expect(answers == step.answers, "step \(number): \(step.sent.prefix(200))")
        }
    }
}
