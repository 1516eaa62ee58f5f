// What must not compile, and says what to do instead.

import Forebay
import Streams

func publishNumbers(_ topic: Topic) {
    // expected-error@+1 {{is unavailable: map its values to [UInt8], String or OutgoingMessage first}}
    _ = (1...3).publisher.publish(to: topic)
}

func ignoreFailures(_ messages: some Publisher<[UInt8], ForebayError>) -> AnyCancellable {
    // expected-error@+1 {{is unavailable: this publisher can fail: give receiveCompletion as well}}
    messages.sink { _ in }
}

func publishTexts(_ topic: Topic) {
    _ = ["a", "b"].publisher.publish(to: topic)
    _ = ["a", "b"].publisher.sink { _ in }
}
