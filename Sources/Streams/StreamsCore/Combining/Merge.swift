// merge: the publishers that merge two to eight publishers. They are implemented by `MergeMachine`.

extension Publishers {
    /// Merges the values of two publishers. See `Publisher.merge`.
    public struct Merge<A: Publisher, B: Publisher>: Publisher
    where
        B.Output == A.Output, B.Failure == A.Failure
    {
        public typealias Output = A.Output
        public typealias Failure = A.Failure

        public let a: A
        public let b: B

        public init(_ a: A, _ b: B) {
            self.a = a
            self.b = b
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            mergeAll([{ a.subscribe($0) }, { b.subscribe($0) }], to: subscriber)
        }

        public func merge<Z: Publisher>(with z: Z) -> Merge3<A, B, Z>
        where
            Z.Output == A.Output, Z.Failure == A.Failure
        { Merge3(a, b, z) }

        public func merge<Z: Publisher, Y: Publisher>(with z: Z, _ y: Y) -> Merge4<A, B, Z, Y>
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure
        { Merge4(a, b, z, y) }

        public func merge<Z: Publisher, Y: Publisher, X: Publisher>(with z: Z, _ y: Y, _ x: X) -> Merge5<A, B, Z, Y, X>
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure,
            X.Output == A.Output, X.Failure == A.Failure
        { Merge5(a, b, z, y, x) }

        public func merge<Z: Publisher, Y: Publisher, X: Publisher, W: Publisher>(with z: Z, _ y: Y, _ x: X, _ w: W)
            -> Merge6<A, B, Z, Y, X, W>
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure,
            X.Output == A.Output, X.Failure == A.Failure,
            W.Output == A.Output, W.Failure == A.Failure
        { Merge6(a, b, z, y, x, w) }

        public func merge<Z: Publisher, Y: Publisher, X: Publisher, W: Publisher, V: Publisher>(
            with z: Z, _ y: Y, _ x: X, _ w: W, _ v: V
        ) -> Merge7<A, B, Z, Y, X, W, V>
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure,
            X.Output == A.Output, X.Failure == A.Failure,
            W.Output == A.Output, W.Failure == A.Failure,
            V.Output == A.Output, V.Failure == A.Failure
        { Merge7(a, b, z, y, x, w, v) }

        public func merge<Z: Publisher, Y: Publisher, X: Publisher, W: Publisher, V: Publisher, U: Publisher>(
            with z: Z, _ y: Y, _ x: X, _ w: W, _ v: V, _ u: U
        ) -> Merge8<A, B, Z, Y, X, W, V, U>
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure,
            X.Output == A.Output, X.Failure == A.Failure,
            W.Output == A.Output, W.Failure == A.Failure,
            V.Output == A.Output, V.Failure == A.Failure,
            U.Output == A.Output, U.Failure == A.Failure
        { Merge8(a, b, z, y, x, w, v, u) }
    }

    /// Merges the values of three publishers. See `Publisher.merge`.
    public struct Merge3<A: Publisher, B: Publisher, C: Publisher>: Publisher
    where
        B.Output == A.Output, B.Failure == A.Failure,
        C.Output == A.Output, C.Failure == A.Failure
    {
        public typealias Output = A.Output
        public typealias Failure = A.Failure

        public let a: A
        public let b: B
        public let c: C

        public init(_ a: A, _ b: B, _ c: C) {
            self.a = a
            self.b = b
            self.c = c
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            mergeAll([{ a.subscribe($0) }, { b.subscribe($0) }, { c.subscribe($0) }], to: subscriber)
        }

        public func merge<Z: Publisher>(with z: Z) -> Merge4<A, B, C, Z>
        where
            Z.Output == A.Output, Z.Failure == A.Failure
        { Merge4(a, b, c, z) }

        public func merge<Z: Publisher, Y: Publisher>(with z: Z, _ y: Y) -> Merge5<A, B, C, Z, Y>
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure
        { Merge5(a, b, c, z, y) }

        public func merge<Z: Publisher, Y: Publisher, X: Publisher>(with z: Z, _ y: Y, _ x: X) -> Merge6<
            A, B, C, Z, Y, X
        >
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure,
            X.Output == A.Output, X.Failure == A.Failure
        { Merge6(a, b, c, z, y, x) }

        public func merge<Z: Publisher, Y: Publisher, X: Publisher, W: Publisher>(with z: Z, _ y: Y, _ x: X, _ w: W)
            -> Merge7<A, B, C, Z, Y, X, W>
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure,
            X.Output == A.Output, X.Failure == A.Failure,
            W.Output == A.Output, W.Failure == A.Failure
        { Merge7(a, b, c, z, y, x, w) }

        public func merge<Z: Publisher, Y: Publisher, X: Publisher, W: Publisher, V: Publisher>(
            with z: Z, _ y: Y, _ x: X, _ w: W, _ v: V
        ) -> Merge8<A, B, C, Z, Y, X, W, V>
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure,
            X.Output == A.Output, X.Failure == A.Failure,
            W.Output == A.Output, W.Failure == A.Failure,
            V.Output == A.Output, V.Failure == A.Failure
        { Merge8(a, b, c, z, y, x, w, v) }
    }

    /// Merges the values of four publishers. See `Publisher.merge`.
    public struct Merge4<A: Publisher, B: Publisher, C: Publisher, D: Publisher>: Publisher
    where
        B.Output == A.Output, B.Failure == A.Failure,
        C.Output == A.Output, C.Failure == A.Failure,
        D.Output == A.Output, D.Failure == A.Failure
    {
        public typealias Output = A.Output
        public typealias Failure = A.Failure

        public let a: A
        public let b: B
        public let c: C
        public let d: D

        public init(_ a: A, _ b: B, _ c: C, _ d: D) {
            self.a = a
            self.b = b
            self.c = c
            self.d = d
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            mergeAll(
                [{ a.subscribe($0) }, { b.subscribe($0) }, { c.subscribe($0) }, { d.subscribe($0) }], to: subscriber)
        }

        public func merge<Z: Publisher>(with z: Z) -> Merge5<A, B, C, D, Z>
        where
            Z.Output == A.Output, Z.Failure == A.Failure
        { Merge5(a, b, c, d, z) }

        public func merge<Z: Publisher, Y: Publisher>(with z: Z, _ y: Y) -> Merge6<A, B, C, D, Z, Y>
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure
        { Merge6(a, b, c, d, z, y) }

        public func merge<Z: Publisher, Y: Publisher, X: Publisher>(with z: Z, _ y: Y, _ x: X) -> Merge7<
            A, B, C, D, Z, Y, X
        >
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure,
            X.Output == A.Output, X.Failure == A.Failure
        { Merge7(a, b, c, d, z, y, x) }

        public func merge<Z: Publisher, Y: Publisher, X: Publisher, W: Publisher>(with z: Z, _ y: Y, _ x: X, _ w: W)
            -> Merge8<A, B, C, D, Z, Y, X, W>
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure,
            X.Output == A.Output, X.Failure == A.Failure,
            W.Output == A.Output, W.Failure == A.Failure
        { Merge8(a, b, c, d, z, y, x, w) }
    }

    /// Merges the values of five publishers. See `Publisher.merge`.
    public struct Merge5<A: Publisher, B: Publisher, C: Publisher, D: Publisher, E: Publisher>: Publisher
    where
        B.Output == A.Output, B.Failure == A.Failure,
        C.Output == A.Output, C.Failure == A.Failure,
        D.Output == A.Output, D.Failure == A.Failure,
        E.Output == A.Output, E.Failure == A.Failure
    {
        public typealias Output = A.Output
        public typealias Failure = A.Failure

        public let a: A
        public let b: B
        public let c: C
        public let d: D
        public let e: E

        public init(_ a: A, _ b: B, _ c: C, _ d: D, _ e: E) {
            self.a = a
            self.b = b
            self.c = c
            self.d = d
            self.e = e
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            mergeAll(
                [
                    { a.subscribe($0) }, { b.subscribe($0) }, { c.subscribe($0) }, { d.subscribe($0) },
                    { e.subscribe($0) },
                ], to: subscriber)
        }

        public func merge<Z: Publisher>(with z: Z) -> Merge6<A, B, C, D, E, Z>
        where
            Z.Output == A.Output, Z.Failure == A.Failure
        { Merge6(a, b, c, d, e, z) }

        public func merge<Z: Publisher, Y: Publisher>(with z: Z, _ y: Y) -> Merge7<A, B, C, D, E, Z, Y>
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure
        { Merge7(a, b, c, d, e, z, y) }

        public func merge<Z: Publisher, Y: Publisher, X: Publisher>(with z: Z, _ y: Y, _ x: X) -> Merge8<
            A, B, C, D, E, Z, Y, X
        >
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure,
            X.Output == A.Output, X.Failure == A.Failure
        { Merge8(a, b, c, d, e, z, y, x) }
    }

    /// Merges the values of six publishers. See `Publisher.merge`.
    public struct Merge6<A: Publisher, B: Publisher, C: Publisher, D: Publisher, E: Publisher, F: Publisher>: Publisher
    where
        B.Output == A.Output, B.Failure == A.Failure,
        C.Output == A.Output, C.Failure == A.Failure,
        D.Output == A.Output, D.Failure == A.Failure,
        E.Output == A.Output, E.Failure == A.Failure,
        F.Output == A.Output, F.Failure == A.Failure
    {
        public typealias Output = A.Output
        public typealias Failure = A.Failure

        public let a: A
        public let b: B
        public let c: C
        public let d: D
        public let e: E
        public let f: F

        public init(_ a: A, _ b: B, _ c: C, _ d: D, _ e: E, _ f: F) {
            self.a = a
            self.b = b
            self.c = c
            self.d = d
            self.e = e
            self.f = f
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            mergeAll(
                [
                    { a.subscribe($0) }, { b.subscribe($0) }, { c.subscribe($0) }, { d.subscribe($0) },
                    { e.subscribe($0) }, { f.subscribe($0) },
                ], to: subscriber)
        }

        public func merge<Z: Publisher>(with z: Z) -> Merge7<A, B, C, D, E, F, Z>
        where
            Z.Output == A.Output, Z.Failure == A.Failure
        { Merge7(a, b, c, d, e, f, z) }

        public func merge<Z: Publisher, Y: Publisher>(with z: Z, _ y: Y) -> Merge8<A, B, C, D, E, F, Z, Y>
        where
            Z.Output == A.Output, Z.Failure == A.Failure,
            Y.Output == A.Output, Y.Failure == A.Failure
        { Merge8(a, b, c, d, e, f, z, y) }
    }

    /// Merges the values of seven publishers. See `Publisher.merge`.
    public struct Merge7<
        A: Publisher, B: Publisher, C: Publisher, D: Publisher, E: Publisher, F: Publisher, G: Publisher
    >: Publisher
    where
        B.Output == A.Output, B.Failure == A.Failure,
        C.Output == A.Output, C.Failure == A.Failure,
        D.Output == A.Output, D.Failure == A.Failure,
        E.Output == A.Output, E.Failure == A.Failure,
        F.Output == A.Output, F.Failure == A.Failure,
        G.Output == A.Output, G.Failure == A.Failure
    {
        public typealias Output = A.Output
        public typealias Failure = A.Failure

        public let a: A
        public let b: B
        public let c: C
        public let d: D
        public let e: E
        public let f: F
        public let g: G

        public init(_ a: A, _ b: B, _ c: C, _ d: D, _ e: E, _ f: F, _ g: G) {
            self.a = a
            self.b = b
            self.c = c
            self.d = d
            self.e = e
            self.f = f
            self.g = g
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            mergeAll(
                [
                    { a.subscribe($0) }, { b.subscribe($0) }, { c.subscribe($0) }, { d.subscribe($0) },
                    { e.subscribe($0) }, { f.subscribe($0) }, { g.subscribe($0) },
                ], to: subscriber)
        }

        public func merge<Z: Publisher>(with z: Z) -> Merge8<A, B, C, D, E, F, G, Z>
        where
            Z.Output == A.Output, Z.Failure == A.Failure
        { Merge8(a, b, c, d, e, f, g, z) }
    }

    /// Merges the values of eight publishers. See `Publisher.merge`.
    public struct Merge8<
        A: Publisher, B: Publisher, C: Publisher, D: Publisher, E: Publisher, F: Publisher, G: Publisher, H: Publisher
    >: Publisher
    where
        B.Output == A.Output, B.Failure == A.Failure,
        C.Output == A.Output, C.Failure == A.Failure,
        D.Output == A.Output, D.Failure == A.Failure,
        E.Output == A.Output, E.Failure == A.Failure,
        F.Output == A.Output, F.Failure == A.Failure,
        G.Output == A.Output, G.Failure == A.Failure,
        H.Output == A.Output, H.Failure == A.Failure
    {
        public typealias Output = A.Output
        public typealias Failure = A.Failure

        public let a: A
        public let b: B
        public let c: C
        public let d: D
        public let e: E
        public let f: F
        public let g: G
        public let h: H

        public init(_ a: A, _ b: B, _ c: C, _ d: D, _ e: E, _ f: F, _ g: G, _ h: H) {
            self.a = a
            self.b = b
            self.c = c
            self.d = d
            self.e = e
            self.f = f
            self.g = g
            self.h = h
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            mergeAll(
                [
                    { a.subscribe($0) }, { b.subscribe($0) }, { c.subscribe($0) }, { d.subscribe($0) },
                    { e.subscribe($0) }, { f.subscribe($0) }, { g.subscribe($0) }, { h.subscribe($0) },
                ], to: subscriber)
        }
    }

}
extension Publishers.Merge: Equatable where A: Equatable, B: Equatable {}
extension Publishers.Merge3: Equatable where A: Equatable, B: Equatable, C: Equatable {}
extension Publishers.Merge4: Equatable where A: Equatable, B: Equatable, C: Equatable, D: Equatable {}
extension Publishers.Merge5: Equatable where A: Equatable, B: Equatable, C: Equatable, D: Equatable, E: Equatable {}
extension Publishers.Merge6: Equatable
where A: Equatable, B: Equatable, C: Equatable, D: Equatable, E: Equatable, F: Equatable {}
extension Publishers.Merge7: Equatable
where A: Equatable, B: Equatable, C: Equatable, D: Equatable, E: Equatable, F: Equatable, G: Equatable {}
extension Publishers.Merge8: Equatable
where A: Equatable, B: Equatable, C: Equatable, D: Equatable, E: Equatable, F: Equatable, G: Equatable, H: Equatable {}
