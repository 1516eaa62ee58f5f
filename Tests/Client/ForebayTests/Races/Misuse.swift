// What must not compile, with an error that suggests the alternative.

import Forebay
import Streams

func publishNumbers(_ topic: Topic) {
    // expected-error@+1 {{is unavailable: map its values to [UInt8], String or OutgoingMessage first}}
    _ = (1...3).publisher.publish(to: topic)
}

func ignoreFailures(_ messages: some Publisher<[UInt8], ForebayError>) -> AnyCancellable {
    // expected-error@+1 {{is unavailable: this publisher can fail; pass receiveCompletion as well}}
    messages.sink { _ in }
}

func publishTexts(_ topic: Topic) {
    _ = ["a", "b"].publisher.publish(to: topic)
    _ = ["a", "b"].publisher.sink { _ in }
}

func publishNumberSequence(_ topic: Topic, _ numbers: AsyncStream<Int>) async throws {
    // expected-error@+1 {{is unavailable: map its elements to [UInt8], String or OutgoingMessage first}}
    try await topic.publish(contentsOf: numbers)
}

func publishArray(_ topic: Topic) async throws {
    // expected-error@+1 {{is unavailable: publish the sequence's publisher: elements.publisher.publish(to: topic)}}
    try await topic.publish(contentsOf: ["a", "b"])
}

func publishSequences(
    _ topic: Topic, _ texts: AsyncStream<String>, _ bytes: AsyncStream<[UInt8]>,
    _ messages: AsyncStream<OutgoingMessage>
) async throws {
    try await topic.publish(contentsOf: texts)
    try await topic.publish(contentsOf: bytes, ending: .topic)
    try await topic.publish(contentsOf: messages)
}
