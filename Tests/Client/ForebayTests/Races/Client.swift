// What must not compile: subscribers of a topic that change state not owned by the client's thread.

import Forebay
import Streams

@MainActor final class View {
    var count = 0  // expected-note * {{}}
    var held: Set<AnyCancellable> = []

    func show(_ topic: Topic) {
        let messages = topic.messages()
        // expected-error@+1 {{main actor-isolated property 'count' can not be mutated from a Sendable closure}}
        messages.sink(receiveCompletion: { _ in }, receiveValue: { _ in self.count += 1 }).store(in: &held)
        // expected-error@+1 {{main actor-isolated property 'count' can not be mutated from a Sendable closure}}
        _ = messages.onSubscribed { self.count = 0 }
        // expected-error@+1 {{main actor-isolated property 'count' can not be mutated from a Sendable closure}}
        _ = messages.onLossAtEnd { _ in self.count = 0 }
    }
}

func count(_ topic: Topic) {
    var count = 0
    // expected-error@+1 {{mutation of captured var 'count' in concurrently-executing code}}
    let cancellable = topic.messages().sink(receiveCompletion: { _ in }) { _ in count += 1 }
    cancellable.cancel()
}
