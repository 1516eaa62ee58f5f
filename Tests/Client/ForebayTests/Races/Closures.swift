// What must not compile: closures called by publishers that change state of another thread.

import Dispatch
import Streams

final class Box { var n = 0 }  // expected-note * {{}}

@MainActor final class Model {
    var n = 0  // expected-note * {{}}
    let numbers = PassthroughSubject<Int, Never>()
    var held: Set<AnyCancellable> = []

    func sinks() {
        // expected-error@+1 {{main actor-isolated property 'n' can not be mutated from a Sendable closure}}
        numbers.sink { self.n = $0 }.store(in: &held)
        // expected-error@+1 {{main actor-isolated property 'n' can not be referenced from a Sendable closure}}
        numbers.sink(receiveCompletion: { _ in print(self.n) }, receiveValue: { _ in }).store(in: &held)
        let change = { (value: Int) in self.n = value }
        // expected-error@+1 {{converting non-Sendable function value}}
        numbers.sink(receiveValue: change).store(in: &held)
        // expected-error@+1 {{does not conform to the 'Sendable' protocol}}
        numbers.assign(to: \.n, on: self).store(in: &held)
    }

    func operators() {
        // expected-error@+1 {{main actor-isolated property 'n' can not be referenced from a Sendable closure}}
        _ = numbers.map { $0 + self.n }
        // expected-error@+1 {{main actor-isolated property 'n' can not be mutated from a Sendable closure}}
        _ = numbers.handleEvents(receiveOutput: { self.n = $0 })
        // expected-error@+1 {{main actor-isolated property 'n' can not be mutated from a Sendable closure}}
        _ = numbers.handleEvents(receiveCancel: { self.n = 0 })
    }

    func others() {
        // expected-error@+2 {{main actor-isolated property 'n' can not be mutated from a Sendable closure}}
        _ = Deferred {
            self.n += 1
            return Just(1)
        }
        // expected-error@+1 {{main actor-isolated property 'n' can not be mutated from a Sendable closure}}
        _ = AnyCancellable { self.n = 0 }
        // expected-error@+1 {{main actor-isolated property 'n' can not be mutated from a Sendable closure}}
        DispatchQueue.global().schedule { self.n = 1 }
    }
}

func locals(_ numbers: some Publisher<Int, Never>) -> Int {
    var last = 0
    // expected-error@+1 {{mutation of captured var 'last' in concurrently-executing code}}
    _ = numbers.sink { last = $0 }
    // expected-error@+2 {{mutation of captured var 'last' in concurrently-executing code}}
    _ = numbers.filter {
        last = $0
        return true
    }
    let box = Box()
    // expected-error@+1 {{capture of 'box' with non-Sendable type 'Box' in a '@Sendable' closure}}
    _ = numbers.sink { box.n = $0 }
    // expected-error@+1 {{type 'Box' does not conform to the 'Sendable' protocol}}
    _ = numbers.assign(to: \.n, on: box)
    return last
}
