// ViewTable: a shard's views of topics – by name while they can be joined, and by epoch once the owner has answered –
// and those that the input at work changed.

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

    private var byName = PartitionedDictionary<String, TopicView>()
    private var byEpoch = PartitionedDictionary<UInt64, TopicView>()
    private var dirty: [TopicView] = []
    /// Members of a view that are brought a message before others have their turn; a simulation has few.
    var slice = TopicView.slice
    /// Pieces of history that the store was asked for and has not brought.
    var readsUnderWay = 0

    /// Views by name and by epoch, a view in both counted twice.
    var count: Int { byName.count + byEpoch.count }
    var namedCount: Int { byName.count }
    /// Those that can be joined.
    var named: some Sequence<TopicView> { byName.values }
    /// Those whose owner has answered.
    var attached: some Sequence<TopicView> { byEpoch.values }

    subscript(name: String) -> TopicView? { byName[name] }
    subscript(epoch epoch: UInt64) -> TopicView? { byEpoch[epoch] }

    /// A view that waits for its owner, or is attached already.
    func insert(_ view: TopicView) {
        assert(byName[view.name] == nil)
        byName[view.name] = view
        if view.isAttached { attach(view) }
    }

    /// The owner has answered: the view has its epoch.
    func attach(_ view: TopicView) {
        assert(view.epoch != 0 && byEpoch[view.epoch] == nil)
        byEpoch[view.epoch] = view
    }

    /// Later subscriptions to the view's name get a new one.
    func removeName(of view: TopicView) {
        if byName[view.name] === view { byName[view.name] = nil }
    }

    /// Returns whether it was attached.
    func remove(_ view: TopicView) -> Bool {
        removeName(of: view)
        guard byEpoch[view.epoch] === view else { return false }
        byEpoch[view.epoch] = nil
        return true
    }

    /// The shard is gone.
    func removeAll() {
        for view in byEpoch.values { view.release() }
        byName = PartitionedDictionary()
        byEpoch = PartitionedDictionary()
        dirty = []
    }

    // What an input touched

    var hasDirty: Bool { !dirty.isEmpty }

    /// What its owner has to know may have changed.
    func markDirty(_ view: TopicView) {
        guard !view.isDirty, view.isAttached else { return }
        view.isDirty = true
        dirty.append(view)
    }

    func nextDirty() -> TopicView? { dirty.popLast() }
}
