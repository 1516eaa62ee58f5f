// What must not compile: values, and their containers, on two threads at once.

import Dispatch
import Streams

final class Box { var n = 0 }  // expected-note * {{}}

func subjects() {
    let passthrough = PassthroughSubject<Box, Never>()
    let current = CurrentValueSubject<Box, Never>(Box())
    let buffer = BufferSubject<Box, Never>(limit: 1)
    let input = MergeInput<Box>()
    let replayed = passthrough.shareReplay(capacity: 1)
    let future = Future<Box, Never> { $0(.success(Box())) }
    DispatchQueue.global().async {
        // expected-error@+1 {{capture of 'passthrough' with non-Sendable type}}
        passthrough.send(Box())
        // expected-error@+1 {{capture of 'current' with non-Sendable type}}
        current.send(Box())
        // expected-error@+1 {{capture of 'buffer' with non-Sendable type}}
        buffer.send(Box())
        // expected-error@+1 {{capture of 'input' with non-Sendable type}}
        input.cancel()
        // expected-error@+1 {{capture of 'replayed' with non-Sendable type}}
        _ = replayed.sink { _ in }
        // expected-error@+1 {{capture of 'future' with non-Sendable type}}
        _ = future.sink { _ in }
    }
}

func schedulers(_ boxes: PassthroughSubject<Box, Never>) {
    // expected-error@+1 {{type 'Box' does not conform to the 'Sendable' protocol}}
    _ = boxes.receive(on: DispatchQueue.global())
    // expected-error@+1 {{type 'Box' does not conform to the 'Sendable' protocol}}
    _ = boxes.delay(for: 1, scheduler: DispatchQueue.global())
    // expected-error@+1 {{type 'Box' does not conform to the 'Sendable' protocol}}
    _ = boxes.subscribe(on: DispatchQueue.global())
}

/// Would be called on whatever thread the publisher delivers.
final class Counter: Subscriber {
    // expected-error@+1 {{stored property 'n' of 'Sendable'-conforming class 'Counter' is mutable}}
    var n = 0
    func receive(subscription: any Subscription) { subscription.request(.unlimited) }
    func receive(_ input: Int) -> Subscribers.Demand {
        n += input
        return .none
    }
    func receive(completion: Subscribers.Completion<Never>) {}
}
