// ViewTable: a shard's views of topics (by name while they can be joined, and by epoch once the owner has answered) and
// the views that the current input changed.

final class ViewTable: ShardPart {
    let timers: Timers
    let topics: TopicTable
    let relief: MemoryRelief
    let reports: Reports
    let delivery: Delivery

    init(
        _ context: ShardContext, _ timers: Timers, _ topics: TopicTable, _ relief: MemoryRelief, _ reports: Reports,
        _ delivery: Delivery
    ) {
        self.timers = timers
        self.topics = topics
        self.relief = relief
        self.reports = reports
        self.delivery = delivery
        super.init(context)
    }

    // Above
    unowned(unsafe) var patterns: PatternSubscribing!

    private var byName = PartitionedDictionary<String, TopicView>()
    private var byEpoch = PartitionedDictionary<UInt64, TopicView>()
    private var dirty: [TopicView] = []
    /// Members of a view that receive a message before others have their turn. A simulation uses few.
    var slice = TopicView.slice
    /// History reads in flight, and the views that wait until there are fewer.
    var readsUnderWay = 0
    var searches = SearchQueue<TimeSearch.Waiting>(most: TimeSearch.mostForSubscriptions)
    private var waitingForReads = TurnQueue<TopicView>()

    /// The number of views by name and by epoch. A view in both tables counts twice.
    var count: Int { byName.count + byEpoch.count }
    var namedCount: Int { byName.count }
    /// Views that can be joined.
    var named: some Sequence<TopicView> { byName.values }
    /// Views whose owner has answered.
    var attached: some Sequence<TopicView> { byEpoch.values }

    subscript(name: String) -> TopicView? { byName[name] }
    subscript(epoch epoch: UInt64) -> TopicView? { byEpoch[epoch] }

    /// Inserts a view that waits for its owner or is already attached.
    func insert(_ view: TopicView) {
        assert(byName[view.name] == nil)
        byName[view.name] = view
        if view.isAttached { attach(view) }
    }

    /// Registers the view's epoch once the owner has answered.
    func attach(_ view: TopicView) {
        assert(view.epoch != 0 && byEpoch[view.epoch] == nil)
        byEpoch[view.epoch] = view
    }

    /// Removes the view's name, so that later subscriptions to the name use a new view.
    func removeName(of view: TopicView) {
        if byName[view.name] === view { byName[view.name] = nil }
    }

    /// Removes a view. Returns whether it was attached.
    func remove(_ view: TopicView) -> Bool {
        removeName(of: view)
        guard byEpoch[view.epoch] === view else { return false }
        byEpoch[view.epoch] = nil
        // The queue must not keep a removed view in memory.
        if let activity = view.activity.take() { active.withdraw(activity) }
        return true
    }

    /// Views with cursors of subscriptions to patterns, and since when they are known to have had no message.
    private(set) var active = TurnQueue<(view: TopicView, since: UInt64)>()

    func noteActive(_ view: TopicView, since: UInt64) {
        if view.activity == nil { view.activity = active.append((view, since)) }
    }

    /// The view that was queued first.
    func nextActive() -> TopicView? {
        let view = active.popFirst()?.view
        view?.activity = nil
        return view
    }

    /// Makes a view wait until fewer history reads are in flight.
    func addWaitingForReads(_ view: TopicView) {
        guard !view.reads.isQueued else { return }
        view.reads.isQueued = true
        waitingForReads.append(view)
    }

    func nextWaitingForReads() -> TopicView? {
        let view = waitingForReads.popFirst()
        view?.reads.isQueued = false
        return view
    }

    /// Removes all views; called when the shard is deallocated.
    func removeAll() {
        for view in byEpoch.values { view.release() }
        byName = PartitionedDictionary()
        byEpoch = PartitionedDictionary()
        dirty = []
        active = TurnQueue()
    }

    // Views touched by the current input

    var hasDirty: Bool { !dirty.isEmpty }

    /// Notes that what the owner must know of this view may have changed.
    func markDirty(_ view: TopicView) {
        guard !view.isDirty, view.isAttached else { return }
        view.isDirty = true
        dirty.append(view)
    }

    func nextDirty() -> TopicView? { dirty.popLast() }
}
