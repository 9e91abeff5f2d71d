#include "controllers/sharding/feeds.h"

#include <atomic>
#include <functional>
#include <span>
#include <utility>

#include "base/check.h"
#include "kube/reflector.h"
#include "rt/stop.h"

namespace basalt::controllers::sharding {

// One watch. The text of each object is read at once into the state and let go.
class ClusterFeeds::Feed final : private kube::ReflectorSink {
 public:
  Feed(rt::Runtime& runtime, kube::Client& client, Logger log, kube::ReflectorOptions options, ClusterState& state,
       bool is_pods)
      : runtime_(runtime),
        client_(client),
        log_(std::move(log)),
        options_(std::move(options)),
        state_(state),
        is_pods_(is_pods),
        stop_(runtime) {}
  ~Feed() override { BASALT_CHECK_MSG(!thread_.joinable() || runtime_.was_abandoned(), "a feed was not stopped"); }

  void start() {
    thread_ = rt::Thread(runtime_, is_pods_ ? "shard-pods" : "shard-nodes", [this] { run(); });
  }
  void stop() {
    stop_.request_stop();
    stop_turn();
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] bool has_synced() const { return synced_.load(std::memory_order_acquire); }
  void relist() { stop_turn(); }
  [[nodiscard]] std::uint64_t undecodable() const { return undecodable_.load(); }
  [[nodiscard]] rt::Duration silence() {
    const rt::Instant now = runtime_.now();
    std::shared_ptr<kube::Reflector> reflector;
    {
      rt::MutexLock lock(mutex_);
      reflector = reflector_;
    }
    std::uint64_t frames = 0;
    if (reflector) {
      const kube::Reflector::Counts counts = reflector->counts();
      frames = counts.lists + counts.events + counts.bookmarks;
    }
    if (heard_at_ == rt::Instant{} || (frames != frames_heard_ && frames > 0)) heard_at_ = now;
    frames_heard_ = frames;
    return now - heard_at_;
  }

 private:
  // A reflector lists when it begins; a new one is a relist.
  void run() {
    while (!stop_.token().stop_requested()) {
      auto turn = std::make_shared<rt::StopSource>(runtime_, stop_.token());
      auto last = turn;
      kube::ReflectorSink& sink = *this;  // the base is private: nobody else may convert
      const auto reflector = std::make_shared<kube::Reflector>(runtime_, client_, log_, options_, sink);
      {
        rt::MutexLock lock(mutex_);
        last.swap(turn_);
        reflector_ = reflector;
      }
      last.reset();  // without the lock: its end may wait
      reflector->run(turn->token());
    }
  }
  void stop_turn() {
    std::shared_ptr<rt::StopSource> turn;
    {
      rt::MutexLock lock(mutex_);
      turn = turn_;
    }
    if (turn) turn->request_stop();
  }

  void list_begin() override { is_pods_ ? state_.begin_pod_list() : state_.begin_node_list(); }
  void list_items(std::span<const kube::Bytes> items) override {
    for (const kube::Bytes& item : items) put(*item, false);
  }
  void list_remove(const kube::Bytes& item) override { remove(*item, false); }
  void list_end(kube::Revision revision) override {
    is_pods_ ? state_.end_pod_list() : state_.end_node_list();
    revision_ = revision;
    synced_.store(true, std::memory_order_release);
  }
  void apply(const kube::WatchEvent& event) override {
    if (event.type == kube::WatchEventType::Deleted) {
      remove(*event.object, true);
    } else if (event.type != kube::WatchEventType::Bookmark) {
      put(*event.object, true);
    }
  }
  void progress(kube::Revision) override {}

  // Events of one resource type come in the order of their versions, so whatever is not newer was here before.
  [[nodiscard]] bool is_news(kube::Revision revision, bool is_event) {
    if (!is_event || revision == 0) return true;
    if (revision <= revision_) return false;
    revision_ = revision;
    return true;
  }

  void put(const std::string& text, bool is_event) {
    if (is_pods_) {
      Result<PodReading> pod = read_pod(text, state_.catalog());
      if (!pod.ok()) return complain(pod.error());
      if (is_news(pod->revision, is_event)) state_.put_pod(*pod);
    } else {
      Result<NodeReading> node = read_node(text, state_.catalog());
      if (!node.ok()) return complain(node.error());
      if (is_news(node->revision, is_event)) state_.put_node(*node);
    }
  }
  void remove(const std::string& text, bool is_event) {
    if (is_pods_) {
      Result<PodReading> pod = read_pod(text, state_.catalog());
      if (!pod.ok()) return complain(pod.error());
      if (is_news(pod->revision, is_event)) state_.remove_pod(pod->uid);
    } else {
      Result<NodeReading> node = read_node(text, state_.catalog());
      if (!node.ok()) return complain(node.error());
      if (is_news(node->revision, is_event)) state_.remove_node(node->name);
    }
  }
  void complain(const Error& error) {
    if (undecodable_.fetch_add(1) == 0)
      log_.warn("an object cannot be read and does not count",
                {{"resource", options_.resource.to_string()}, {"error", error}});
  }

  // Fixed after construction.
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  const kube::ReflectorOptions options_;
  ClusterState& state_;
  const bool is_pods_;

  rt::StopSource stop_;
  std::atomic<bool> synced_{false};
  std::atomic<std::uint64_t> undecodable_{0};
  rt::Mutex mutex_;
  std::shared_ptr<rt::StopSource> turn_ BASALT_GUARDED_BY(mutex_);
  std::shared_ptr<kube::Reflector> reflector_ BASALT_GUARDED_BY(mutex_);  // the present one, for its counts
  // Used only by the thread that asks for silence().
  std::uint64_t frames_heard_ = 0;
  rt::Instant heard_at_{};

  kube::Revision revision_ = 0;  // used only by the feed's thread
  rt::Thread thread_;
};

ClusterFeeds::ClusterFeeds(rt::Runtime& runtime, kube::Client& client, const Logger& log, kube::Metrics* metrics,
                           ClusterState& state) {
  kube::ReflectorOptions nodes;
  nodes.resource = {"", "v1", "nodes"};
  nodes.metrics = metrics;
  nodes.idle_timeout = std::chrono::seconds(90);
  kube::ReflectorOptions pods = nodes;
  pods.resource = {"", "v1", "pods"};
  // The server turns "begins to match" into Added and "matches no longer" into Deleted: binding and end of a pod.
  pods.field_selector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
  nodes_ = std::make_unique<Feed>(runtime, client, log, std::move(nodes), state, false);
  pods_ = std::make_unique<Feed>(runtime, client, log, std::move(pods), state, true);
}

ClusterFeeds::~ClusterFeeds() = default;

void ClusterFeeds::start() {
  nodes_->start();
  pods_->start();
}

void ClusterFeeds::stop() {
  pods_->stop();
  nodes_->stop();
}

bool ClusterFeeds::has_synced() const { return nodes_->has_synced() && pods_->has_synced(); }

void ClusterFeeds::relist() {
  nodes_->relist();
  pods_->relist();
}

ClusterFeeds::Silence ClusterFeeds::silence() { return {nodes_->silence(), pods_->silence()}; }

std::uint64_t ClusterFeeds::undecodable() const { return nodes_->undecodable() + pods_->undecodable(); }

}  // namespace basalt::controllers::sharding
